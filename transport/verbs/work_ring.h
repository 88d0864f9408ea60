#ifndef SKIFF_TRANSPORT_VERBS_WORK_RING_H_
#define SKIFF_TRANSPORT_VERBS_WORK_RING_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

class VerbsQueuePair;
class VerbsSharedReceiveQueue;

// What is remembered of a work request; its address is the request's wr_id.
//
// Of what its user will be told, the scope is filled in then.
struct alignas(64) WorkSlot : Completion {
  static constexpr uint8_t kSignalled = 2;  // As IBV_SEND_SIGNALED.
  static constexpr uint8_t kDone = 1;
  static constexpr uint8_t kReported = 4;
  // Its queue pair has something to do when it is taken.
  static constexpr uint8_t kNoteworthy = 8;

  // In one byte, as a post has to write them all.
  uint8_t flags = 0;
  // Whose it is; null in a shared receive queue.
  VerbsQueuePair* queue_pair = nullptr;
  WorkSlot* next = nullptr;  // In its ring.

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  // Makes a completion that comes all the same recognizable. On the way of
  // those of shared receive queues, so that others do not have to ask.
  void Bury() {
    kind = OperationKind::kReceive;
    queue_pair = nullptr;
    flags = kReported;
  }
  bool buried() const { return queue_pair == nullptr && has(kReported); }
};

// Slots whose operations are over, for the device's completion or without it,
// while the device has not destroyed what they were posted to.
struct BuriedWork {
  std::atomic<bool> destroyed{false};
  std::vector<std::shared_ptr<void>> slots;
};

// The operations of one direction of a queue pair, in posting order. Turns the
// completions that the device was asked for into one for every operation, in
// order.
//
// An operation that was not signalled is over, and went well, when one that was
// posted behind it has completed: operations complete in order, and failures
// always show (InfiniBand specification, section 10.7.3). RDMA READs have to be
// signalled, because Soft-iWARP lets later operations overtake them.
class WorkRing {
 public:
  WorkRing(uint32_t capacity, VerbsQueuePair* owner);

  // What the completions say; null once it is gone.
  void SetEndpoint(RdmaEndpoint* endpoint);

  uint32_t size() const { return static_cast<uint32_t>(tail_ - head_); }
  uint32_t room() const { return capacity_ - size(); }
  bool full() const { return size() >= capacity_; }
  bool empty() const { return tail_ == head_; }
  // Nothing was ever taken.
  bool untouched() const { return head_ == 0; }

  // Needs !full(). The address stays valid until the operation was taken.
  // `flags`: kSignalled, kNoteworthy.
  WorkSlot* Push(OperationId id, OperationKind kind, uint8_t flags) {
    WorkSlot& slot = *next_;
    next_ = slot.next;
    ++tail_;
    slot.id = id;
    slot.kind = kind;
    slot.status = CompletionStatus::kOk;
    slot.flags = flags;
    return &slot;
  }

  // The device completed `slot` well: if it is the oldest, takes it at once.
  // `*more`: the device completed others behind it.
  bool TakeIfOldest(const WorkSlot* slot, Completion* out, bool* more) {
    if (slot != &at(head_)) return false;
    *out = *slot;
    ++head_;
    *more = reached_ > head_;
    return true;
  }
  // The same for a ring whose operations are reported as the device completes
  // them (see Retire()).
  bool RetireIfOldest(const WorkSlot* slot, Completion* out) {
    if (slot != &at(head_)) return false;
    *out = *slot;
    PassReported(head_ + 1);
    return true;
  }
  // The device completed `slot`, well.
  void Complete(WorkSlot* slot) {
    slot->flags |= WorkSlot::kDone;
    reached_ = std::max(reached_, NumberOf(slot) + 1);
  }
  // The same of one that failed.
  void Fail(WorkSlot* slot, CompletionStatus status, int32_t provider_code);
  // As Complete(); the caller has reported it already.
  void Retire(WorkSlot* slot);
  // Of all operations, the `count` newest never reached the device. They are
  // over once the older ones are: the first with `first`, the others flushed.
  void FailNewest(uint32_t count, CompletionStatus first);
  // Nothing comes from the device any more: what is not over, is flushed.
  void FlushAll();
  // Gives the slots away, buried. Needs empty(); nothing may follow.
  std::shared_ptr<void> Bury();

  // Takes the oldest operations that are over, as many as fit. Sets
  // `*noteworthy` if one was, or failed.
  size_t Take(absl::Span<Completion> out, bool* noteworthy);

 private:
  WorkSlot& at(uint64_t number) { return slots_[number & mask_]; }
  // The oldest is `from`, or the first behind it that was not reported.
  void PassReported(uint64_t from) {
    while (from != tail_ && at(from).has(WorkSlot::kReported)) ++from;
    head_ = from;
  }
  uint64_t NumberOf(const WorkSlot* slot) const {
    const auto index = static_cast<uint64_t>(slot - slots_);
    return head_ + ((index - head_) & mask_);
  }

  const uint32_t capacity_;
  const uint64_t mask_;
  std::unique_ptr<WorkSlot[]> owned_;
  WorkSlot* const slots_;
  WorkSlot* next_;        // That of `tail_`.
  uint64_t head_ = 0;     // The oldest that was not taken.
  uint64_t tail_ = 0;     // The next to be pushed.
  uint64_t reached_ = 0;  // Behind the newest that the device completed.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_WORK_RING_H_
