#include "bench/transport/connection.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/compare/util.h"
#include "bench/transport/linked_transport.h"
#include "bench/transport/rdma_end.h"
#include "bench/transport/stream_end.h"
#include "transport/registry.h"

namespace skiff::bench {
namespace {

using transport::Address;
using transport::ByteStream;
using transport::EpollReactor;
using transport::RdmaEndpoint;

transport::Registry* MakeRegistry() {
  auto* registry = new transport::Registry;
  for (const LinkedTransport& linked : LinkedTransports()) {
    const absl::Status added = registry->Add(linked.make());
    if (!added.ok()) Die(added.ToString());
  }
  return registry;
}

bool Works(const std::string& url) {
  auto reactor = EpollReactor::Create();
  if (!reactor.ok()) return false;
  return ConnectPair(reactor->get(), reactor->get(), url, {}).ok();
}

}  // namespace

Address ParseUrl(const std::string& url) {
  auto address = Address::Parse(url, 0);
  if (!address.ok()) Die(address.status().ToString());
  return *std::move(address);
}

transport::Transport* TransportOf(const std::string& url) {
  static const transport::Registry* const kRegistry = MakeRegistry();
  auto transport = kRegistry->Find(ParseUrl(url).scheme);
  if (!transport.ok()) Die(transport.status().ToString());
  return *transport;
}

std::vector<std::string> UsableTransports() {
  std::vector<std::string> out;
  for (const LinkedTransport& linked : LinkedTransports()) {
    for (const std::string& url : linked.urls()) {
      if (Works(url)) out.push_back(url);
    }
  }
  return out;
}

bool TurnUntil(absl::Span<EpollReactor* const> reactors,
               absl::FunctionRef<bool()> done) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (!done()) {
    if (absl::Now() > deadline) return false;
    for (EpollReactor* reactor : reactors) reactor->Poll();
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(
    EpollReactor* reactor, EpollReactor* home, const std::string& url) {
  std::unique_ptr<Acceptor> out(new Acceptor(home));
  auto listener = TransportOf(url)->Listen(
      reactor, ParseUrl(url), {},
      [acceptor =
           out.get()](std::unique_ptr<transport::ConnectionRequest> request) {
        acceptor->OnRequest(std::move(request));
      });
  if (!listener.ok()) return listener.status();
  out->listener_ = *std::move(listener);
  return out;
}

void Acceptor::OnRequest(
    std::unique_ptr<transport::ConnectionRequest> request) {
  transport::AcceptOptions options;
  Workload workload;
  RdmaEnd* rdma = nullptr;
  if (Decode(request->private_data(), &workload)) {
    auto end = std::make_unique<RdmaEnd>(workload, /*connecting=*/false);
    rdma = end.get();
    rdma->FillOptions(&options);
    accepting_ = std::move(end);
  }
  request->Accept(
      home_, options, [this, rdma](absl::StatusOr<transport::Endpoint> made) {
        if (!made.ok()) Die(made.status().ToString());
        if (auto* stream = std::get_if<std::unique_ptr<ByteStream>>(&*made)) {
          end_ = std::make_unique<StreamEnd>(std::move(*stream));
          return;
        }
        if (rdma == nullptr) Die("the peer is another program");
        rdma->Start(std::get<std::unique_ptr<RdmaEndpoint>>(*std::move(made)));
        end_ = std::move(accepting_);
      });
}

Connector::Connector(EpollReactor* reactor, const std::string& url,
                     const Workload& workload)
    : workload_(workload) {
  auto rdma = std::make_unique<RdmaEnd>(workload, /*connecting=*/true);
  transport::ConnectOptions options;
  rdma->FillOptions(&options);
  // A stream has no private data to take this.
  if (!TransportOf(url)->capabilities().rdma) options.private_data.clear();
  RdmaEnd* const end = rdma.get();
  end_ = std::move(rdma);
  auto attempt = TransportOf(url)->Connect(
      reactor, ParseUrl(url), options,
      [this, end](absl::StatusOr<transport::Endpoint> made) {
        done_ = true;
        status_ = made.status();
        if (!made.ok()) return;
        if (auto* stream = std::get_if<std::unique_ptr<ByteStream>>(&*made)) {
          end_ = std::make_unique<StreamEnd>(std::move(*stream), workload_);
        } else {
          end->Start(std::get<std::unique_ptr<RdmaEndpoint>>(*std::move(made)));
        }
      });
  if (attempt.ok()) {
    attempt_ = *std::move(attempt);
  } else {
    done_ = true;
    status_ = attempt.status();
  }
}

absl::StatusOr<std::unique_ptr<End>> Connector::Take() {
  if (!status_.ok()) return status_;
  return std::move(end_);
}

absl::StatusOr<Pair> ConnectPair(EpollReactor* client, EpollReactor* server,
                                 const std::string& url,
                                 const Workload& workload) {
  auto acceptor = Acceptor::Listen(client, server, url);
  if (!acceptor.ok()) return acceptor.status();
  Connector connector(client, (*acceptor)->url(), workload);
  EpollReactor* const reactors[] = {client, server};
  const bool made = TurnUntil(
      reactors, [&] { return connector.done() && (*acceptor)->ready(); });
  if (!made && !connector.done()) {
    return absl::DeadlineExceededError(absl::StrCat(url, ": no connection"));
  }
  auto end = connector.Take();
  if (!end.ok()) return end.status();
  return Pair{(*acceptor)->Take(), *std::move(end)};
}

}  // namespace skiff::bench
