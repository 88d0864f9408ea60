// Prints the targets of a portal, over the best transport that reaches it:
// discover auto://HOST[:PORT]
#include <iostream>
#include <memory>
#include <string>

#include "protocol/initiator/initiator.h"
#include "transport/auto/auto_transport.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace {

namespace protocol = skiff::protocol;
namespace transport = skiff::transport;

absl::Status AddTransports(transport::Registry* registry) {
  transport::LibfabricOptions settings;
  settings.close_limit = absl::Seconds(1);  // For a peer that does not answer.
  absl::Status status = registry->Add(transport::MakeVerbsTransport());
  if (!status.ok()) return status;
  status = registry->Add(transport::MakeLibfabricTransport(settings));
  if (!status.ok()) return status;
  status = registry->Add(transport::MakeTcpTransport());
  if (!status.ok()) return status;
  return registry->Add(transport::MakeAutoTransport(
      registry, [](const transport::ChoiceReport& report) {
        if (report.fell_back()) std::cerr << report.WhyNoRdma() << std::endl;
        std::cerr << report.ToString() << std::endl;
      }));
}

absl::Status Discover(const char* uri) {
  transport::Registry registry;
  absl::Status status = AddTransports(&registry);
  if (!status.ok()) return status;
  auto reactor = transport::EpollReactor::Create();
  if (!reactor.ok()) return reactor.status();
  const auto address = transport::Address::Parse(uri);
  if (!address.ok()) return address.status();

  protocol::InitiatorOptions options;  // No target's name: for discovery.
  options.portal = *address;
  std::unique_ptr<protocol::Initiator> session;
  const auto on_ready = [&](const absl::Status& login) {
    status = login;
    if (!login.ok()) return (*reactor)->Stop();
    session->SendTargets("All", [&](const auto& targets) {
      status = targets.status();
      if (targets.ok()) {
        for (const auto& target : *targets) {
          std::cout << target.name << std::endl;
        }
      }
      (*reactor)->Stop();
    });
  };
  auto created =
      protocol::Initiator::Create(&registry, reactor->get(), options, on_ready);
  if (!created.ok()) return created.status();
  session = *std::move(created);
  (*reactor)->Run();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status status = Discover(argv[1]);
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
