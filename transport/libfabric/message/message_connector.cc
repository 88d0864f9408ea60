#include "transport/libfabric/message/message_connector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/open_domains.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<MessageConnector>> MessageConnector::Create(
    Reactor* reactor, const Address& address, const ConnectOptions& options,
    const LibfabricOptions& settings, ConnectCallback done) {
  absl::Status status = CheckConnect(address, options);
  if (!status.ok()) return status;
  std::unique_ptr<MessageConnector> out(new MessageConnector(
      reactor, address, options, settings, std::move(done)));
  auto lookup =
      FabricLookup::Start(reactor, address, [self = out.get()](auto resolved) {
        self->OnResolved(std::move(resolved));
      });
  if (!lookup.ok()) return lookup.status();
  out->lookup_ = *std::move(lookup);
  out->StartTimer();
  return out;
}

MessageConnector::MessageConnector(Reactor* reactor, Address address,
                                   const ConnectOptions& options,
                                   const LibfabricOptions& settings,
                                   ConnectCallback done)
    : Connector(reactor, std::move(address), options, std::move(done)),
      settings_(settings) {}

void MessageConnector::OnResolved(absl::StatusOr<InfoPtr> resolved) {
  if (!resolved.ok()) {
    Finish(resolved.status());
    return;
  }
  const absl::Status status = Start(**resolved);
  if (!status.ok()) GiveUp(status);
}

absl::Status MessageConnector::Start(const fi_info& info) {
  auto domain = DomainFor(info, settings_);
  if (!domain.ok()) return domain.status();
  bool opened = false;
  auto made = MakeConnectable(*domain, info, reactor_, options_, &opened);
  if (!made.ok()) return made.status();
  endpoint_ = std::move(made->endpoint);
  link_ = made->link;
  return link_->Connect(
      info.dest_addr, made->private_data,
      [this](auto outcome) { OnOutcome(std::move(outcome)); });
}

void MessageConnector::OnOutcome(absl::StatusOr<std::vector<uint8_t>> outcome) {
  if (!outcome.ok()) {
    GiveUp(outcome.status());
    return;
  }
  endpoint_->SetPeer(link_->LocalAddress(), link_->PeerAddress(),
                     *std::move(outcome));
  endpoint_->queue_pair()->Connected();
  Finish(Endpoint(std::unique_ptr<RdmaEndpoint>(std::move(endpoint_))));
}

void MessageConnector::OnTimer() {
  GiveUp(absl::DeadlineExceededError(absl::StrCat(
      "no answer within ", absl::FormatDuration(options_.timeout),
      lookup_ != nullptr && endpoint_ == nullptr
          ? ": the lookup has not ended; use a numeric address"
          : " - is the address right, does a firewall drop packets?")));
}

void MessageConnector::GiveUp(const absl::Status& why) {
  // Closing may take the kernel some seconds (an iWARP connect under way), so
  // the caller hears of the outcome first.
  const auto endpoint = std::move(endpoint_);
  Fail(why);
}

}  // namespace skiff::transport
