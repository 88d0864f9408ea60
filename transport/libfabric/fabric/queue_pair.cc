// A queue pair's life, and its completions.
#include "transport/libfabric/fabric/queue_pair.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"

namespace skiff::transport {
namespace {

absl::Status CheckLimit(const FabricDomain& domain, absl::string_view what,
                        size_t wanted, size_t limit) {
  if (wanted <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(domain.name(), ": ", wanted, " ", what,
                   " were asked for, and the device has ", limit));
}

constexpr size_t kLeastQueue = 128;

}  // namespace

absl::Status FabricQueuePair::CheckLimits(const FabricDomain& domain,
                                          const ConnectOptions& options) {
  const Capabilities& device = domain.capabilities();
  absl::Status status = CheckLimit(domain, "send queue entries",
                                   options.send_queue, device.max_send_queue);
  status.Update(CheckLimit(domain, "receive queue entries",
                           options.receive_queue, device.max_receive_queue));
  status.Update(
      CheckLimit(domain, "scatter/gather entries", options.max_sges,
                 std::min(device.max_send_sges, device.max_receive_sges)));
  if (options.send_queue == 0 || options.receive_queue == 0 ||
      options.max_sges == 0) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        domain.name(), ": queues and max_sges must be at least 1")));
  }
  return status;
}

absl::StatusOr<FabricQueuePair*> FabricQueuePair::Create(
    FabricCompletionHost* queue, const ConnectOptions& options) {
  const Capabilities& device = queue->domain()->capabilities();
  const absl::Status status =
      queue->Reserve(options.send_queue + options.receive_queue);
  if (!status.ok()) return status;
  Capabilities granted = device;
  granted.max_send_queue = options.send_queue;
  granted.max_receive_queue = options.receive_queue;
  granted.max_send_sges = options.max_sges;
  granted.max_receive_sges = options.max_sges;
  granted.max_read_sges = std::min(device.max_read_sges, options.max_sges);
  granted.max_read_depth =
      std::min({device.max_read_depth, options.read_depth, options.send_queue});
  granted.max_inline_bytes =
      std::min<size_t>(device.max_inline_bytes, options.inline_bytes);
  return queue->Adopt(
      std::unique_ptr<FabricQueuePair>(new FabricQueuePair(queue, granted)));
}

FabricQueuePair::FabricQueuePair(FabricCompletionHost* queue,
                                 const Capabilities& capabilities)
    : queue_(queue),
      domain_(queue->domain()),
      capabilities_(capabilities),
      long_sends_(domain_->datagrams() ? SIZE_MAX
                                       : capabilities.max_inline_bytes),
      write_flags_(FI_COMPLETION |
                   (domain_->asks_for_delivery() ? FI_DELIVERY_COMPLETE : 0)),
      counts_(domain_->datagrams() || domain_->send_passes_write() ||
              domain_->completes_before_reads()),
      requests_(this, capabilities.max_send_queue),
      receives_(this, capabilities.max_receive_queue),
      read_allowance_(ReadAllowance()),
      after_post_(queue->wants_posts() ? kTellQueue : 0) {
  one_sided_.message.msg_iov = &one_sided_.piece;
  one_sided_.message.desc = &one_sided_.descriptor;
  one_sided_.message.iov_count = 1;
  one_sided_.message.addr = peer_;
  one_sided_.message.rma_iov = &one_sided_.target;
  one_sided_.message.rma_iov_count = 1;
}

FabricQueuePair::~FabricQueuePair() {
  if (!closed_ && link_ != nullptr) link_->OnClosing(/*tell_peer=*/true);
  // Before the link's, whose objects it uses; and that before our rings.
  endpoint_.reset();
  link_.reset();
}

void FabricQueuePair::Adjust(fi_info* info) const {
  info->tx_attr->size = capabilities_.max_send_queue;
  info->rx_attr->size = capabilities_.max_receive_queue;
  if (info->ep_attr->type == FI_EP_RDM) {
    // Room for the probes; and where the receive queue is also that of the
    // peer's one-sided operations, a short one would stop them.
    info->tx_attr->size = std::max(info->tx_attr->size + 1, kLeastQueue);
    info->rx_attr->size = std::max(info->rx_attr->size + 1, kLeastQueue);
  }
  info->tx_attr->iov_limit = capabilities_.max_send_sges;
  info->rx_attr->iov_limit = capabilities_.max_receive_sges;
  if (domain_->needs_sink()) {
    info->rx_attr->iov_limit =
        std::min<size_t>(info->rx_attr->iov_limit + 1, domain_->max_iovecs());
  }
  info->tx_attr->inject_size = capabilities_.max_inline_bytes;
}

void FabricQueuePair::SetEndpoint(Fid<fid_ep> endpoint,
                                  std::unique_ptr<FabricLink> link) {
  endpoint_ = std::move(endpoint);
  link_ = std::move(link);
}

// From inside a post, too: so all that follows waits for Service().
void FabricQueuePair::Outcome(OperationSlot* slot, CompletionStatus status,
                              int32_t code) {
  slot->state = OperationSlot::State::kDone;
  slot->outcome.status = status;
  slot->outcome.provider_code = code;
  if (slot->outcome.kind != OperationKind::kReceive) Stop();
  ScheduleService();
}

void FabricQueuePair::Stop() {
  stopped_ = true;
  FindUsual();
}

void FabricQueuePair::Completed(OperationSlot* slot, size_t bytes) {
  if (slot->state != OperationSlot::State::kIssued) {
    // If it is no probe, it is a late or second report about a slot that is not
    // the provider's any more.
    ProbeDone(slot, bytes);
    return;
  }
  OperationRing* ring = &requests_;
  if (slot->outcome.kind == OperationKind::kReceive) {
    ring = &receives_;
    if (closing_) {
      // The user has heard that the connection is over.
      slot->outcome.status = CompletionStatus::kFlushed;
    } else {
      Received(slot, bytes);
    }
  } else if (counts_) {
    CountDone(*slot);
  }
  slot->state = OperationSlot::State::kDone;
  if (ring->OldestIsDone()) Retire(ring);
  if (requests_.holding()) ScheduleService();
}

void FabricQueuePair::Received(OperationSlot* slot, size_t bytes) {
  if (!last_pieces_.empty()) {
    TakeFromLastPiece(receives_.IndexOf(*slot), bytes);
  }
  slot->outcome.bytes = static_cast<uint32_t>(bytes);
  if (domain_->needs_sink() && bytes > slot->room) {
    ReceivedTooMuch(slot, bytes);
  } else {
    ++received_;
  }
}

void FabricQueuePair::Failed(OperationSlot* slot, int error, int provider_error,
                             const std::string& text) {
  // Without probes, connecting ends at its deadline.
  if (ProbeDone(slot, 0)) return;
  if (slot->state != OperationSlot::State::kIssued) return;
  NotProvidersAnyMore(slot->outcome.kind);
  const CompletionStatus status = MapOperationError(
      domain_->provider(), slot->outcome.kind, error, provider_error);
  Outcome(slot, status, provider_error != 0 ? provider_error : error);
  SetBreakReason(
      status == CompletionStatus::kFlushed
          ? absl::UnavailableError(absl::StrCat(
                domain_->name(), ": the peer ended the connection"))
          : FabricStatus(error, absl::StrCat(domain_->name(),
                                             ": an operation failed: ", text)));
}

void FabricQueuePair::Retire(OperationRing* ring) {
  for (OperationSlot* slot = ring->Oldest();
       slot != nullptr && slot->state == OperationSlot::State::kDone;
       slot = ring->Oldest()) {
    if (slot->outcome.status != CompletionStatus::kOk) {
      slot->outcome.scope = DamageScope::kConnection;
      BreakSoon(absl::InternalError(
          absl::StrCat(domain_->name(),
                       ": an operation was posted with a wrong buffer or "
                       "length")));
    }
    if (ring->OldestIsHeld()) ring->ReleaseHeld();
    ring->RetireOldest();
    if (queue_->Push(slot)) Polled(slot->outcome.kind);
  }
}

void FabricQueuePair::BreakSoon(const absl::Status& why) {
  if (closed_) return;
  SetBreakReason(why);
  ScheduleService();
}

void FabricQueuePair::SetBreakReason(const absl::Status& why) {
  if (break_reason_.ok()) break_reason_ = why;
  Stop();
}

void FabricQueuePair::Service() {
  Retire(&requests_);
  Retire(&receives_);
  // An operation that was posted wrong waits behind what the provider still
  // works on; all other failures end the connection now.
  if (!break_reason_.ok()) {
    Break(break_reason_, /*tell_peer=*/true);
  } else {
    if (!has_due()) read_allowance_ = ReadAllowance();
    IssueHeld();
    // Some of them may be over already.
    Retire(&requests_);
  }
}

void FabricQueuePair::FinishService() {
  in_service_ = false;
  // What callbacks posted, and is over, since Service().
  if (requests_.OldestIsDone() || receives_.OldestIsDone()) {
    ScheduleService();
  }
  if (std::exchange(link_due_, false) && link_ != nullptr) link_->OnTurnEnd();
  if (std::exchange(disconnect_due_, false) && user_ != nullptr &&
      on_disconnect_) {
    const auto on_disconnect = std::exchange(on_disconnect_, nullptr);
    on_disconnect(*user_);
  }
  if (user_ == nullptr) queue_->Detached(this);
}

void FabricQueuePair::FlushRing(OperationRing* ring) {
  for (OperationSlot* slot = ring->Oldest(); slot != nullptr;
       slot = ring->Oldest()) {
    if (slot->state != OperationSlot::State::kDone) {
      slot->state = OperationSlot::State::kDone;
      slot->outcome.status = CompletionStatus::kFlushed;
    }
    Retire(ring);
  }
}

void FabricQueuePair::Break(const absl::Status& why, bool tell_peer) {
  if (closed_) return;
  // What arrived before the end counts.
  queue_->Drain();
  End(why, tell_peer);
}

void FabricQueuePair::End(const absl::Status& why, bool tell_peer) {
  closed_ = true;
  disconnect_due_ = std::exchange(connected_, false);
  FindUsual();
  DropDueReads();
  error_ = why;
  closing_ = endpoint_ != nullptr && !link_->OnClosing(tell_peer);
  if (closing_) {
    queue_->Linger();
    ScheduleService();
  } else {
    Close();
  }
}

void FabricQueuePair::Close() {
  closing_ = false;
  CloseEndpoint();
}

void FabricQueuePair::CloseEndpoint() {
  endpoint_.reset();
  queue_->Drain();
  FlushRing(&requests_);
  FlushRing(&receives_);
  ScheduleService();
}

bool FabricQueuePair::SendNothing(OperationKind kind) {
  const bool read = kind == OperationKind::kRead;
  // The provider needs its completions in posting order: see Fenced().
  if (requests_.outstanding() != 0 || nothing_.under_way) return false;
  if (read && capabilities_.max_read_depth == 0) return false;
  nothing_.slot.queue_pair = this;
  nothing_.slot.outcome.kind = kind;
  // Of an empty list, the provider uses the first entry of a WRITE, and
  // Soft-iWARP what the place in its queue had before: of a READ nothing, as
  // that is among the first operations. A key of 0 is special to some devices
  // (siw_qp_mpa_rts()).
  const iovec piece = {&nothing_, 0};
  const fi_rma_iov target = {0, 0, 1};
  const fi_msg_rma message = {&piece,  nullptr, read ? 0U : 1U,         peer_,
                              &target, 1,       &nothing_.slot.context, 0};
  const ssize_t result =
      read ? fi_readmsg(endpoint_.get(), &message, FI_COMPLETION)
           : fi_writemsg(endpoint_.get(), &message, FI_COMPLETION);
  if (result == 0) {
    nothing_.under_way = true;
    if (read) ++provider_reads_;
    return true;
  }
  if (result != -FI_EAGAIN) {
    BreakSoon(FabricStatus(
        result, absl::StrCat(domain_->name(), " refused an operation")));
  }
  return false;
}

void FabricQueuePair::NothingDone() {
  if (!std::exchange(nothing_.under_way, false)) return;
  if (nothing_.slot.outcome.kind == OperationKind::kRead) --provider_reads_;
  if (requests_.holding()) ScheduleService();
}

void FabricQueuePair::Detach() {
  set_user(nullptr);
  on_disconnect_ = nullptr;
  Break(absl::CancelledError("the endpoint was destroyed"),
        /*tell_peer=*/true);
  // A peer that has not heard of it may go on to send and to write for a while,
  // and the memory for that may be freed now.
  if (closing_ && endpoint_ != nullptr) {
    if (domain_->writes_may_last()) {
      Settle();
      CloseEndpoint();
    } else {
      TakeReceivesBack();
    }
  }
  queue_->Detached(this);
}

}  // namespace skiff::transport
