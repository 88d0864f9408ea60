#include "transport/libfabric/message/message_link.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>
#include <time.h>

#include <system_error>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/thread/signals_blocked.h"

namespace skiff::transport {
namespace {

void Pause(absl::Duration time) {
  const timespec pause = absl::ToTimespec(time);
  nanosleep(&pause, nullptr);
}

}  // namespace

MessageLink::MessageLink(FabricQueuePair* queue_pair,
                         std::shared_ptr<FabricEventQueue> events, InfoPtr info,
                         Reactor* reactor)
    : queue_pair_(queue_pair),
      events_(std::move(events)),
      info_(std::move(info)),
      timer_(reactor, [this] { OnTimer(); }) {}

MessageLink::~MessageLink() {
  // What the endpoint is bound to goes next.
  if (closer_.joinable()) closer_.join();
}

absl::StatusOr<MessageLink*> MessageLink::Open(FabricQueuePair* queue_pair,
                                               const fi_info& info,
                                               Reactor* reactor, bool* opened) {
  *opened = false;
  const FabricDomain& domain = *queue_pair->queue()->domain();
  // See FabricEventQueue::ReadOne(): only a queue of its own tells a connecting
  // endpoint that it failed. An accepting one has the handle of a request.
  const bool of_its_own =
      domain.provider() == "verbs" && info.handle == nullptr;
  auto events =
      of_its_own
          ? FabricEventQueue::Create(reactor, queue_pair->queue()->domain())
          : FabricEventQueue::For(reactor, queue_pair->queue()->domain());
  if (!events.ok()) return events.status();
  InfoPtr adjusted(fi_dupinfo(&info));
  if (adjusted == nullptr) {
    return absl::ResourceExhaustedError("out of memory");
  }
  queue_pair->Adjust(adjusted.get());
  fid_ep* raw = nullptr;
  int result = fi_endpoint(domain.domain(), adjusted.get(), &raw, queue_pair);
  if (result != 0) {
    return FabricStatus(result, absl::StrCat(domain.name(), ": fi_endpoint"));
  }
  *opened = true;
  Fid<fid_ep> endpoint(raw);
  result = fi_ep_bind(raw, &queue_pair->queue()->handle()->fid,
                      FI_TRANSMIT | FI_RECV);
  if (result == 0) result = fi_ep_bind(raw, &(*events)->handle()->fid, 0);
  if (result == 0) result = fi_enable(raw);
  if (result != 0) {
    return FabricStatus(
        result, absl::StrCat(domain.name(), ": cannot set an endpoint up"));
  }
  std::unique_ptr<MessageLink> link(
      new MessageLink(queue_pair, *events, std::move(adjusted), reactor));
  MessageLink* out = link.get();
  (*events)->Add(&raw->fid, out);
  queue_pair->SetEndpoint(std::move(endpoint), std::move(link));
  return out;
}

absl::Status MessageLink::Connect(const void* address,
                                  absl::Span<const uint8_t> private_data,
                                  Outcome outcome) {
  outcome_ = std::move(outcome);
  const int result = fi_connect(queue_pair_->handle(), address,
                                private_data.data(), private_data.size());
  connecting_ = result == 0;
  if (result == 0) return absl::OkStatus();
  return FabricStatus(result, absl::StrCat(Name(), ": fi_connect"));
}

absl::Status MessageLink::Accept(absl::Span<const uint8_t> private_data,
                                 Outcome outcome) {
  outcome_ = std::move(outcome);
  accepting_ = true;
  const int result = fi_accept(queue_pair_->handle(), private_data.data(),
                               private_data.size());
  if (result == 0) return absl::OkStatus();
  return FabricStatus(result, absl::StrCat(Name(), ": fi_accept"));
}

void MessageLink::OnEvent(uint32_t event, InfoPtr /*info*/,
                          absl::Span<const uint8_t> data) {
  Outcome outcome = std::exchange(outcome_, nullptr);
  connecting_ = false;
  if (event == FI_CONNECTED) {
    established_ = true;
    if (IsSoftIwarp(*info_)) WatchFirstMessage();
    if (outcome) outcome(std::vector<uint8_t>(data.begin(), data.end()));
    return;
  }
  if (event != FI_SHUTDOWN) return;
  const absl::Status why = absl::UnavailableError(
      absl::StrCat(Name(), ": the peer ended the connection"));
  if (outcome) {
    outcome(why);
  } else {
    queue_pair_->Break(why, /*tell_peer=*/false);
  }
}

void MessageLink::WatchFirstMessage() {
  using Nothing = FirstMessageWatch::Nothing;
  first_message_ = std::make_unique<FirstMessageWatch>(
      queue_pair_->queue()->reactor(),
      FirstMessageWatch::Settings{settings().soft_iwarp_nudge_after,
                                  settings().soft_iwarp_nudge_limit},
      FirstMessageWatch::Connection{
          [this] { return !queue_pair_->waits_for_first(); },
          [this](Nothing nothing) {
            return queue_pair_->SendNothing(nothing == Nothing::kRead
                                                ? OperationKind::kRead
                                                : OperationKind::kWrite);
          }});
  if (accepting_) {
    first_message_->StartAccepted(Local(), Peer());
  } else {
    first_message_->StartConnected();
  }
}

void MessageLink::OnError(int error, const std::string& text,
                          absl::Span<const uint8_t> data) {
  Outcome outcome = std::exchange(outcome_, nullptr);
  connecting_ = false;
  if (error == FI_ENODEV) queue_pair_->queue()->domain()->SetRemoved();
  absl::Status why = FabricStatus(
      error, text.empty() ? Name() : absl::StrCat(Name(), " (", text, ")"));
  if (!outcome) {
    queue_pair_->Break(why, /*tell_peer=*/false);
    return;
  }
  if (error == FI_ECONNREFUSED && !data.empty()) {
    why.SetPayload(
        kRejectPrivateData,
        absl::Cord(absl::string_view(reinterpret_cast<const char*>(data.data()),
                                     data.size())));
  }
  outcome(why);
}

bool MessageLink::OnClosing(bool tell_peer) {
  outcome_ = nullptr;
  if (first_message_ != nullptr) first_message_->Stop();
  events_->Remove(&queue_pair_->handle()->fid);
  if (connecting_ && IsIwarp(*info_)) return CloseElsewhere();
  // The sockets provider would close a descriptor twice, the second time
  // perhaps another's. Its peer learns the end from the connection closing,
  // too.
  const bool safe = queue_pair_->queue()->domain()->provider() != "sockets";
  if (established_ && tell_peer && safe) fi_shutdown(queue_pair_->handle(), 0);
  return true;
}

// The kernel's iWARP connection managers do not let go of a connect before the
// peer has answered or their own time is up (Soft-iWARP: ten seconds), and the
// queue pair waits for them. First of all it goes to its error state, in which
// it touches no memory any more: by the end of the grace that is done.
bool MessageLink::CloseElsewhere() {
  // It would wait for the thread.
  events_->Stop();
  Fid<fid_ep> endpoint = queue_pair_->TakeEndpoint();
  try {
    const SignalsBlocked blocked;
    closer_ = std::thread([this, raw = endpoint.get()] {
      closing_ = true;
      fi_close(&raw->fid);
      closed_ = true;
    });
  } catch (const std::system_error&) {
    return true;  // Here, then.
  }
  [[maybe_unused]] fid_ep* const now_the_threads = endpoint.release();
  constexpr absl::Duration kStep = absl::Milliseconds(1);
  while (!closing_) Pause(kStep);
  for (absl::Duration waited; waited < settings().close_grace && !closed_;
       waited += kStep) {
    Pause(kStep);
  }
  if (!closed_) timer_.ScheduleAfter(settings().closing_interval);
  return closed_;
}

void MessageLink::OnTimer() {
  if (closed_) {
    queue_pair_->Close();
  } else {
    timer_.ScheduleAfter(settings().closing_interval);
  }
}

SocketAddress MessageLink::Local() const {
  SocketAddress out;
  size_t length = sizeof(out.storage);
  if (fi_getname(&queue_pair_->handle()->fid, &out.storage, &length) == 0) {
    out.length = static_cast<socklen_t>(length);
  }
  return out;
}

SocketAddress MessageLink::Peer() const {
  SocketAddress out;
  size_t length = sizeof(out.storage);
  if (fi_getpeer(queue_pair_->handle(), &out.storage, &length) == 0) {
    out.length = static_cast<socklen_t>(length);
  }
  return out;
}

std::string MessageLink::ToText(const SocketAddress& address) const {
  if (address.length == 0) return "unknown";
  return FabricAddressText(info_->addr_format, &address.storage,
                           address.length);
}

}  // namespace skiff::transport
