#include "transport/verbs/verbs_shared_receive_queue.h"

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/gather.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {

absl::StatusOr<std::shared_ptr<SharedReceiveQueue>>
VerbsSharedReceiveQueue::Create(std::shared_ptr<VerbsDomain> domain,
                                Reactor* reactor, uint32_t entries,
                                uint32_t max_sges) {
  const ibv_device_attr& device = domain->facts().device;
  const auto max_entries = static_cast<uint32_t>(device.max_srq_wr);
  const auto sge_limit = static_cast<uint32_t>(device.max_srq_sge);
  if (entries == 0 || entries > max_entries || max_sges == 0 ||
      max_sges > sge_limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a shared receive queue of ", entries, " entries of ",
                     max_sges, " pieces: ", domain->name(), " has 1 to ",
                     max_entries, " entries of 1 to ", sge_limit));
  }
  std::shared_ptr<VerbsSharedReceiveQueue> queue(new VerbsSharedReceiveQueue(
      std::move(domain), reactor, entries, max_sges));
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = entries;
  attr.attr.max_sge = max_sges;
  queue->srq_ = ibv_create_srq(queue->domain_->pd(), &attr);
  if (queue->srq_ == nullptr) {
    return CallError(
        absl::StrCat("cannot create a shared receive queue of ", entries,
                     " entries with ", queue->domain_->name()),
        errno);
  }
  return queue;
}

VerbsSharedReceiveQueue::VerbsSharedReceiveQueue(
    std::shared_ptr<VerbsDomain> domain, Reactor* reactor, uint32_t entries,
    uint32_t max_sges)
    : domain_(std::move(domain)),
      reactor_(reactor),
      slots_(entries),
      sges_(max_sges) {
  free_.reserve(entries);
  for (SharedReceiveSlot& slot : slots_) {
    slot.queue = this;
    slot.kind = OperationKind::kReceive;
    free_.push_back(&slot);
  }
}

VerbsSharedReceiveQueue::~VerbsSharedReceiveQueue() {
  const auto queue = completion_queue_.lock();
  // What the device completed refers to our slots.
  if (queue != nullptr) queue->Sweep();
  // After its queue pairs, which do not use it any more.
  const auto work = std::make_shared<BuriedWork>();
  if (srq_ != nullptr) {
    domain_->DestroyLater([srq = srq_, work] {
      ibv_destroy_srq(srq);
      work->destroyed = true;
    });
  }
  if (queue == nullptr) return;
  queue->Sweep();
  for (const SharedReceiveSlot& slot : slots_) {
    if (!slot.used) continue;
    Completion completion;
    completion.id = slot.id;
    completion.kind = OperationKind::kReceive;
    completion.status = CompletionStatus::kFlushed;
    completion.scope = DamageScope::kConnection;
    completion.provider_code = IBV_WC_WR_FLUSH_ERR;
    queue->Push(completion);
  }
  queue->Release(static_cast<uint32_t>(slots_.size()));
  for (SharedReceiveSlot& slot : slots_) slot.Bury();
  work->slots = {
      std::make_shared<std::vector<SharedReceiveSlot>>(std::move(slots_))};
  queue->Bury(work);
}

absl::Status VerbsSharedReceiveQueue::Attach(
    const std::shared_ptr<CompletionHost>& queue) {
  const auto mine = completion_queue_.lock();
  if (mine == queue) return absl::OkStatus();
  if (mine != nullptr) {
    return absl::InvalidArgumentError(
        "the shared receive queue is in use with another completion queue");
  }
  absl::Status status = queue->Reserve(static_cast<uint32_t>(slots_.size()));
  if (status.ok()) completion_queue_ = queue;
  return status;
}

PostResult VerbsSharedReceiveQueue::PostReceive(OperationId id,
                                                absl::Span<const Sge> to) {
  if (free_.empty()) return PostResult::kWouldBlock;
  const GatherResult gathered = GatherReceive(to, absl::MakeSpan(sges_));
  if (!gathered.valid) return PostResult::kClosed;
  SharedReceiveSlot* slot = free_.back();
  slot->id = id;
  ibv_recv_wr request = {};
  request.wr_id = reinterpret_cast<uintptr_t>(static_cast<WorkSlot*>(slot));
  request.sg_list = sges_.data();
  request.num_sge = static_cast<int>(gathered.count);
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_srq_recv(srq_, &request, &bad) != 0) return PostResult::kClosed;
  slot->used = true;
  free_.pop_back();
  return PostResult::kAccepted;
}

void VerbsSharedReceiveQueue::Retire(WorkSlot* slot) {
  SharedReceiveSlot* mine = SharedReceiveSlot::From(slot);
  mine->used = false;
  free_.push_back(mine);
}

}  // namespace skiff::transport
