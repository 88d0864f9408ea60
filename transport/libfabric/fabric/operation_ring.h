#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPERATION_RING_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPERATION_RING_H_

#include <rdma/fabric.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include "transport/rdma_endpoint.h"

namespace skiff::transport {

class FabricQueuePair;

// One operation of a queue pair. Its address is the operation's context in
// libfabric.
struct alignas(64) OperationSlot {
  enum class State : uint8_t {
    kFree,
    kHeld,    // Accepted; the provider does not have it yet.
    kDue,     // A READ that is done here, soon.
    kIssued,  // The provider has it.
    kDone,    // It has its outcome, and waits for those before it.
  };

  fi_context2 context = {};  // The provider's own (FI_CONTEXT, FI_CONTEXT2).
  // What its user will be told.
  Completion outcome;
  FabricQueuePair* queue_pair = nullptr;
  OperationSlot* next = nullptr;  // In the ring.
  uint32_t room = 0;              // Of a RECEIVE with a sink behind it.
  State state = State::kFree;
};
static_assert(sizeof(OperationSlot) == 128);

// The operations of one direction, in posting order: providers may finish them
// in another. A slot is taken by a post, retired once it and all before it have
// their outcome, and free again when its completion was polled.
//
//   limit_ - capacity_ <= retired_ <= taken_ <= limit_      (all count up)
//
// The first are those that were polled. From `held_` on, those taken are held.
class OperationRing {
 public:
  // Slots are a power of two, so that none is found by a division.
  OperationRing(FabricQueuePair* owner, uint32_t capacity)
      : capacity_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        owned_(new OperationSlot[mask_ + 1]),
        slots_(owned_.get()),
        oldest_(slots_),
        next_(slots_),
        limit_(capacity) {
    for (uint64_t i = 0; i <= mask_; ++i) {
      slots_[i].queue_pair = owner;
      slots_[i].next = &slots_[Index(i + 1)];
    }
  }

  // What the completions say; null once it is gone.
  void SetEndpoint(RdmaEndpoint* endpoint) {
    for (uint64_t i = 0; i <= mask_; ++i) {
      slots_[i].outcome.endpoint = endpoint;
    }
  }

  bool full() const { return taken_ == limit_; }
  // Taken and not yet polled.
  uint32_t used() const {
    return capacity_ - static_cast<uint32_t>(limit_ - taken_);
  }
  // Taken and not yet retired.
  uint32_t outstanding() const {
    return static_cast<uint32_t>(taken_ - retired_);
  }
  bool holding() const { return held_ != kNone; }
  uint32_t capacity() const { return capacity_; }
  // More than any IndexOf().
  uint32_t indices() const { return static_cast<uint32_t>(mask_) + 1; }

  OperationSlot& Take(OperationId id, OperationKind kind) {
    next_->outcome.status = CompletionStatus::kOk;
    next_->outcome.scope = DamageScope::kNone;
    next_->outcome.provider_code = 0;
    next_->outcome.bytes = 0;
    return TakeClean(id, kind);
  }
  // Where nothing has failed or was received yet.
  OperationSlot& TakeClean(OperationId id, OperationKind kind) {
    OperationSlot& slot = *next_;
    next_ = slot.next;
    ++taken_;
    slot.outcome.id = id;
    slot.outcome.kind = kind;
    slot.state = OperationSlot::State::kIssued;
    return slot;
  }
  OperationSlot* Newest() { return &slots_[Index(taken_ - 1)]; }
  // The newest slot was not handed on, and is free again.
  void UntakeNewest() {
    next_ = &slots_[Index(--taken_)];
    next_->state = OperationSlot::State::kFree;
  }
  // The newest slot is held, the first. So are all that are taken behind it.
  void HoldNewest() { held_ = taken_ - 1; }
  OperationSlot* OldestHeld() {
    return holding() ? &slots_[Index(held_)] : nullptr;
  }
  void ReleaseHeld() {
    if (++held_ == taken_) held_ = kNone;
  }

  OperationSlot* Oldest() { return retired_ == taken_ ? nullptr : oldest_; }
  // Slots that are not taken are free.
  bool OldestIsDone() const {
    return oldest_->state == OperationSlot::State::kDone;
  }
  // Taken, and the provider has it.
  bool IsOldestIssued(const OperationSlot* slot) const {
    return slot == oldest_ && slot->state == OperationSlot::State::kIssued;
  }
  bool OldestIsHeld() const { return held_ == retired_; }
  // The oldest that the provider has and that `is_wanted`; null without one.
  template <typename Predicate>
  OperationSlot* FirstIssued(Predicate is_wanted) {
    for (uint64_t count = retired_; count != issued_end(); ++count) {
      OperationSlot& slot = slots_[Index(count)];
      if (slot.state == OperationSlot::State::kIssued && is_wanted(slot)) {
        return &slot;
      }
    }
    return nullptr;
  }
  // Calls `visit` with each that the provider has.
  template <typename Visitor>
  void ForEachIssued(Visitor visit) {
    for (uint64_t count = retired_; count != issued_end(); ++count) {
      OperationSlot& slot = slots_[Index(count)];
      if (slot.state == OperationSlot::State::kIssued) visit(&slot);
    }
  }
  // It must not be held any more.
  void RetireOldest() {
    oldest_->state = OperationSlot::State::kFree;
    oldest_ = oldest_->next;
    ++retired_;
  }
  // The oldest that was retired, whose slot was left alone until now.
  void Polled() { ++limit_; }

  uint32_t IndexOf(const OperationSlot& slot) const {
    return static_cast<uint32_t>(&slot - slots_);
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  uint64_t Index(uint64_t count) const { return count & mask_; }
  uint64_t issued_end() const { return std::min(held_, taken_); }

  const uint32_t capacity_;
  const uint64_t mask_;
  const std::unique_ptr<OperationSlot[]> owned_;
  OperationSlot* const slots_;
  OperationSlot* oldest_;  // That of `retired_`.
  OperationSlot* next_;    // That of `taken_`.
  uint64_t limit_;         // Where the ring is full.
  uint64_t held_ = kNone;
  uint64_t retired_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPERATION_RING_H_
