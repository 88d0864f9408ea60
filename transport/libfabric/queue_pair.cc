#include "transport/libfabric/queue_pair.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric_error.h"
#include "transport/libfabric/fabric_info.h"

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

// As dynamic_cast, at the cost of comparing two pointers.
const FabricRegion* AsFabricRegion(const MemoryRegion* region) {
  if (region == nullptr || typeid(*region) != typeid(FabricRegion)) {
    return nullptr;
  }
  return static_cast<const FabricRegion*>(region);
}

bool Covers(const FabricRegion& region, const Sge& sge) {
  const auto begin = reinterpret_cast<uintptr_t>(sge.data);
  const auto base = reinterpret_cast<uintptr_t>(region.data());
  return begin >= base && begin - base <= region.size() &&
         sge.length <= region.size() - (begin - base);
}

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
    FabricCompletionQueue* queue, const ConnectOptions& options) {
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

FabricQueuePair::FabricQueuePair(FabricCompletionQueue* queue,
                                 const Capabilities& capabilities)
    : queue_(queue),
      domain_(queue->domain()),
      capabilities_(capabilities),
      requests_(this, capabilities.max_send_queue),
      receives_(this, capabilities.max_receive_queue) {}

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
                                  std::unique_ptr<Link> link) {
  endpoint_ = std::move(endpoint);
  link_ = std::move(link);
}

bool FabricQueuePair::AddPieces(absl::Span<const Sge> sges, bool local_write,
                                Work* work) {
  for (const Sge& sge : sges) {
    work->length += sge.length;
    if (sge.length == 0) continue;
    const auto* region = AsFabricRegion(sge.region);
    if (region != nullptr &&
        (region->domain() != domain_.get() || !Covers(*region, sge))) {
      return false;
    }
    // The sink of a READ, where that takes remote write permission.
    if (local_write &&
        (region == nullptr || !Has(region->access(), Access::kRemoteWrite))) {
      return false;
    }
    if (region == nullptr) {
      work->is_inline = true;
      work->undescribed = true;
    }
    work->pieces[work->count] = {sge.data, sge.length};
    work->descriptors[work->count] =
        region != nullptr ? region->descriptor() : nullptr;
    ++work->count;
  }
  return true;
}

bool FabricQueuePair::Prepare(OperationKind kind, absl::Span<const Sge> sges,
                              Work* work) {
  const bool receive = kind == OperationKind::kReceive;
  const bool read = kind == OperationKind::kRead;
  const size_t limit = receive ? capabilities_.max_receive_sges
                       : read  ? capabilities_.max_read_sges
                               : capabilities_.max_send_sges;
  if (sges.size() > limit) return false;
  const bool sink = read && capabilities_.read_sink_needs_remote_write;
  if (!AddPieces(sges, sink, work)) return false;
  if (work->count == 0 && !receive && !read) {
    // Of an empty list, the verbs provider uses the first entry.
    work->pieces[0] = {work->pieces, 0};
    work->undescribed = true;
    work->count = 1;
  }
  // Inline data is copied by the post, and so cannot be received.
  const bool fits = work->length <= capabilities_.max_inline_bytes;
  if (work->is_inline && (receive || read || !fits)) return false;
  if (kind == OperationKind::kSend && fits) work->is_inline = true;
  if (receive) return true;
  return work->length <= (kind == OperationKind::kSend
                              ? capabilities_.max_message_bytes
                              : capabilities_.max_transfer_bytes);
}

PostResult FabricQueuePair::PostReceive(OperationId id,
                                        absl::Span<const Sge> to) {
  if (closed_) return PostResult::kClosed;
  if (receives_.full()) return PostResult::kWouldBlock;
  OperationSlot& slot = receives_.Take(id, OperationKind::kReceive);
  Work work;
  if (!Prepare(OperationKind::kReceive, to, &work)) {
    Outcome(&slot, CompletionStatus::kLocalError, -FI_EINVAL);
    return PostResult::kAccepted;
  }
  if (domain_->needs_sink()) AddSink(slot, &work);
  slot.room = work.room;
  const ssize_t result = Issue(&slot, work);
  if (result == -FI_EAGAIN) {
    receives_.UntakeNewest();
    return PostResult::kWouldBlock;
  }
  if (result != 0) NotIssued(&slot, result);
  queue_->ReceivePosted();
  return PostResult::kAccepted;
}

PostResult FabricQueuePair::PostRequest(OperationKind kind, OperationId id,
                                        absl::Span<const Sge> sges,
                                        RemoteBuffer remote) {
  if (!connected_) return PostResult::kClosed;
  if (requests_.full()) return PostResult::kWouldBlock;
  if (kind == OperationKind::kRead) {
    if (reads_ >= capabilities_.max_read_depth) return PostResult::kWouldBlock;
    ++reads_;
  }
  const bool behind_held = requests_.holding();
  OperationSlot& slot = requests_.Take(id, kind);
  Work work;
  work.remote = remote;
  if (stopped_ || !break_reason_.ok()) {
    // Nothing is sent behind an error.
    Outcome(&slot, CompletionStatus::kFlushed, 0);
    return PostResult::kAccepted;
  }
  if (!Prepare(kind, sges, &work)) {
    Outcome(&slot, CompletionStatus::kLocalError, -FI_EINVAL);
    return PostResult::kAccepted;
  }
  if (behind_held || Fenced(kind)) {
    Hold(&slot, work);
  } else {
    const ssize_t result = Issue(&slot, work);
    if (result == -FI_EAGAIN) {
      Hold(&slot, work);
    } else if (result != 0) {
      NotIssued(&slot, result);
    }
  }
  if (std::exchange(ring_, false)) ServeLink();
  queue_->RequestPosted();
  return PostResult::kAccepted;
}

bool FabricQueuePair::Fenced(OperationKind kind) const {
  return kind == OperationKind::kSend && writes_ != 0 &&
         domain_->send_passes_write();
}

ssize_t FabricQueuePair::Issue(OperationSlot* slot, const Work& work) {
  slot->state = OperationSlot::State::kIssued;
  uint64_t flags = FI_COMPLETION;
  if (work.is_inline) flags |= FI_INJECT;
  // All descriptors, or no array of them: the verbs provider looks at each.
  void** descriptors =
      work.undescribed ? nullptr : const_cast<void**>(work.descriptors);
  if (slot->kind == OperationKind::kSend ||
      slot->kind == OperationKind::kReceive) {
    if (datagrams_) return IssueMessage(slot, work, flags);
    fi_msg message = {};
    message.msg_iov = work.pieces;
    message.desc = descriptors;
    message.iov_count = work.count;
    message.addr = peer_;
    message.context = &slot->context;
    return slot->kind == OperationKind::kSend
               ? fi_sendmsg(endpoint_.get(), &message, flags)
               : fi_recvmsg(endpoint_.get(), &message, FI_COMPLETION);
  }
  const fi_rma_iov remote = {work.remote.address, work.length,
                             work.remote.key.value};
  fi_msg_rma message = {};
  message.msg_iov = work.pieces;
  message.desc = descriptors;
  message.iov_count = work.count;
  message.addr = peer_;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &slot->context;
  if (slot->kind == OperationKind::kRead) {
    const ssize_t result = fi_readmsg(endpoint_.get(), &message, FI_COMPLETION);
    if (result == 0) OneSidedIssued();
    return result;
  }
  if (domain_->asks_for_delivery()) flags |= FI_DELIVERY_COMPLETE;
  const ssize_t result = fi_writemsg(endpoint_.get(), &message, flags);
  if (result == 0) {
    ++writes_;
    OneSidedIssued();
  }
  return result;
}

void FabricQueuePair::Hold(OperationSlot* slot, const Work& work) {
  if (held_.empty()) {
    held_.resize(requests_.indices());
    held_inline_.resize(requests_.indices() * capabilities_.max_inline_bytes);
  }
  const uint32_t index = requests_.IndexOf(*slot);
  Work& kept = held_[index];
  kept = work;
  if (work.is_inline) {
    uint8_t* copy = &held_inline_[index * capabilities_.max_inline_bytes];
    size_t offset = 0;
    for (size_t i = 0; i < work.count; ++i) {
      std::memcpy(copy + offset, work.pieces[i].iov_base,
                  work.pieces[i].iov_len);
      offset += work.pieces[i].iov_len;
    }
    kept.pieces[0] = {copy, work.length};
    kept.undescribed = true;
    kept.count = 1;
  }
  slot->state = OperationSlot::State::kHeld;
  if (!requests_.holding()) requests_.HoldNewest();
  queue_->HeldBack();
}

void FabricQueuePair::IssueHeld() {
  while (connected_ && break_reason_.ok()) {
    OperationSlot* slot = requests_.OldestHeld();
    if (slot == nullptr || Fenced(slot->kind)) return;
    // Those behind a held one that were wrong have their outcome already.
    if (slot->state == OperationSlot::State::kHeld) {
      const ssize_t result = Issue(slot, held_[requests_.IndexOf(*slot)]);
      if (result == -FI_EAGAIN) {
        slot->state = OperationSlot::State::kHeld;
        queue_->HeldBack();
        return;
      }
      requests_.ReleaseHeld();
      if (result != 0) NotIssued(slot, result);
    } else {
      requests_.ReleaseHeld();
    }
  }
}

void FabricQueuePair::NotIssued(OperationSlot* slot, ssize_t result) {
  const int error = static_cast<int>(-result);
  CompletionStatus status = CompletionStatus::kLocalError;
  if (error == FI_ENOTCONN || error == FI_EOPBADSTATE ||
      error == FI_ESHUTDOWN) {
    status = CompletionStatus::kFlushed;
  } else if (error != FI_EINVAL && error != FI_EFAULT && error != FI_EMSGSIZE) {
    status = CompletionStatus::kTransportError;
  }
  Outcome(slot, status, error);
  if (break_reason_.ok()) {
    break_reason_ = FabricStatus(
        error, absl::StrCat(domain_->name(), " refused an operation"));
  }
}

// From inside a post, too: so all that follows waits for Service().
void FabricQueuePair::Outcome(OperationSlot* slot, CompletionStatus status,
                              int32_t code) {
  slot->state = OperationSlot::State::kDone;
  slot->status = status;
  slot->provider_code = code;
  if (slot->kind != OperationKind::kReceive) stopped_ = true;
  queue_->ScheduleService(this);
}

void FabricQueuePair::Completed(OperationSlot* slot, size_t bytes) {
  if (ProbeDone(slot, bytes)) return;
  // A late or second report about a slot that is not the provider's any more.
  if (slot->state != OperationSlot::State::kIssued) return;
  slot->state = OperationSlot::State::kDone;
  const bool receive = slot->kind == OperationKind::kReceive;
  if (slot->kind == OperationKind::kSend) ++sent_;
  if (receive && closing_) {
    // The user has heard that the connection is over.
    slot->status = CompletionStatus::kFlushed;
  } else if (receive) {
    Received(slot, bytes);
  }
  if (slot->kind == OperationKind::kWrite) --writes_;
  Retire(receive ? &receives_ : &requests_);
  if (requests_.holding()) queue_->ScheduleService(this);
}

void FabricQueuePair::Failed(OperationSlot* slot, int error, int provider_error,
                             const std::string& text) {
  // Without probes, connecting ends at its deadline.
  if (ProbeDone(slot, 0)) return;
  if (slot->state != OperationSlot::State::kIssued) return;
  if (slot->kind == OperationKind::kWrite) --writes_;
  const CompletionStatus status =
      MapOperationError(domain_->provider(), slot->kind, error, provider_error);
  Outcome(slot, status, provider_error != 0 ? provider_error : error);
  if (!break_reason_.ok()) return;
  break_reason_ =
      status == CompletionStatus::kFlushed
          ? absl::UnavailableError(absl::StrCat(
                domain_->name(), ": the peer ended the connection"))
          : FabricStatus(error, absl::StrCat(domain_->name(),
                                             ": an operation failed: ", text));
}

void FabricQueuePair::Retire(OperationRing* ring) {
  for (OperationSlot* slot = ring->Oldest();
       slot != nullptr && slot->state == OperationSlot::State::kDone;
       slot = ring->Oldest()) {
    Completion completion;
    completion.id = slot->id;
    completion.kind = slot->kind;
    completion.status = slot->status;
    completion.provider_code = slot->provider_code;
    completion.bytes = slot->bytes;
    if (slot->status != CompletionStatus::kOk) {
      completion.scope = DamageScope::kConnection;
      BreakSoon(absl::InternalError(
          absl::StrCat(domain_->name(),
                       ": an operation was posted with a wrong buffer or "
                       "length")));
    }
    ring->RetireOldest();
    queue_->Push(completion, this);
  }
}

void FabricQueuePair::Polled(OperationKind kind) {
  if (kind == OperationKind::kReceive) {
    receives_.Polled();
    return;
  }
  requests_.Polled();
  if (kind == OperationKind::kRead) --reads_;
}

void FabricQueuePair::BreakSoon(const absl::Status& why) {
  if (closed_) return;
  if (break_reason_.ok()) break_reason_ = why;
  queue_->ScheduleService(this);
}

void FabricQueuePair::Service() {
  Retire(&requests_);
  Retire(&receives_);
  // An operation that was posted wrong waits behind what the provider still
  // works on; all other failures end the connection now.
  if (!break_reason_.ok()) {
    Break(break_reason_, /*tell_peer=*/true);
  } else {
    IssueHeld();
  }
}

void FabricQueuePair::FinishService() {
  in_service_ = false;
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
      slot->status = CompletionStatus::kFlushed;
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
  error_ = why;
  closing_ = endpoint_ != nullptr && !link_->OnClosing(tell_peer);
  if (closing_) {
    queue_->Linger();
    queue_->ScheduleService(this);
  } else {
    Close();
  }
}

void FabricQueuePair::Close() {
  closing_ = false;
  endpoint_.reset();
  queue_->Drain();
  FlushRing(&requests_);
  FlushRing(&receives_);
  queue_->ScheduleService(this);
}

void FabricQueuePair::Detach() {
  user_ = nullptr;
  on_disconnect_ = nullptr;
  Break(absl::CancelledError("the endpoint was destroyed"),
        /*tell_peer=*/true);
  queue_->Detached(this);
}

}  // namespace skiff::transport
