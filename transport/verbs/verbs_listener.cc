#include "transport/verbs/verbs_listener.h"

#include <arpa/inet.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/net/socket_address.h"
#include "transport/system/background.h"
#include "transport/verbs/cm_errors.h"
#include "transport/verbs/open_domains.h"
#include "transport/verbs/verbs_acceptor.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

constexpr int kTriesWhileClosing = 20;

// 0, or what the system says.
int BindAndListen(rdma_cm_id* id, SocketAddress candidate, int backlog) {
  auto* const address = reinterpret_cast<sockaddr*>(&candidate.storage);
  if (rdma_bind_addr(id, address) != 0) return errno;
  return rdma_listen(id, backlog) != 0 ? errno : 0;
}

absl::StatusOr<CmId> Bind(const std::shared_ptr<CmChannel>& channel,
                          const Address& address, SocketAddress candidate,
                          int backlog) {
  auto id = CmId::Create(channel);
  if (!id.ok()) return id.status();
  int error = BindAndListen(id->get(), candidate, backlog);
  // A listener that was closed, or its connections, may still have the address.
  // That takes milliseconds where no device is being removed. Once nothing is
  // being closed, there is one more try: the last may have ended just before.
  // Of which device it is, an id that was not bound cannot tell.
  bool closing = true;
  for (int i = 0; i < kTriesWhileClosing && error == EADDRINUSE && closing;
       ++i) {
    closing = BackgroundThread::AnyPending();
    if (closing) absl::SleepFor(absl::Milliseconds(5));
    id = CmId::Create(channel);
    if (!id.ok()) return id.status();
    error = BindAndListen(id->get(), candidate, backlog);
  }
  if (error != 0) {
    // What the kernel says when no device has the address.
    if (error == ENODEV) error = EADDRNOTAVAIL;
    return CallError(absl::StrCat("cannot listen on ", address.ToString()),
                     error);
  }
  return id;
}

absl::StatusOr<CmId> BindFirst(const std::shared_ptr<CmChannel>& channel,
                               const Address& address, int backlog) {
  auto candidates = Resolve(address.host, address.port);
  if (!candidates.ok()) return candidates.status();
  absl::StatusOr<CmId> bound =
      absl::NotFoundError(absl::StrCat(address.host, " has no address"));
  for (const SocketAddress& candidate : *candidates) {
    bound = Bind(channel, address, candidate, backlog);
    if (bound.ok()) break;
  }
  return bound;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Create(
    Reactor* reactor, const Address& address, const ListenOptions& options,
    const VerbsOptions& settings, AcceptCallback on_request) {
  absl::Status status = CheckListen(address, options);
  if (!status.ok()) return status;
  auto channel = CmChannel::ForReactor(reactor, settings);
  if (!channel.ok()) return channel.status();
  status = (*channel)->Watch();
  if (!status.ok()) return status;
  auto id = BindFirst(*channel, address, options.backlog);
  if (!id.ok()) return id.status();
  return std::unique_ptr<VerbsListener>(new VerbsListener(
      reactor, address, options, settings, *std::move(channel), *std::move(id),
      std::move(on_request)));
}

VerbsListener::VerbsListener(Reactor* reactor, Address address,
                             const ListenOptions& options,
                             const VerbsOptions& settings,
                             std::shared_ptr<CmChannel> channel, CmId id,
                             AcceptCallback on_request)
    : address_(std::move(address)),
      options_(options),
      settings_(settings),
      channel_(std::move(channel)),
      id_(std::move(id)),
      on_request_(std::move(on_request)),
      failed_(reactor, [this] { options_.on_failure(failure_); }) {
  address_.port = ntohs(rdma_get_src_port(id_.get()));
  id_.SetHandler(this);
}

void VerbsListener::OnCmEvent(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    CmId id(channel_, event.id);
    if (*pending_ >= options_.backlog) return;  // Destroying it rejects.
    on_request_(std::make_unique<VerbsConnectionRequest>(std::move(id), event,
                                                         settings_, pending_));
    return;
  }
  if (event.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
  // One that listens on all addresses has no device.
  if (id_.get()->verbs != nullptr) {
    SetDomainRemoved(id_.get()->verbs->device);
  }
  failure_ =
      absl::Status(absl::StatusCode::kUnavailable,
                   absl::StrCat("listening on ", address_.ToString(),
                                " has ended: ", CmEventError(event).message()));
  id_.Reset();
  if (options_.on_failure) failed_.ScheduleAt(absl::InfinitePast());
}

}  // namespace skiff::transport
