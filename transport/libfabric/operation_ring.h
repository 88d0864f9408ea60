#ifndef SKIFF_TRANSPORT_LIBFABRIC_OPERATION_RING_H_
#define SKIFF_TRANSPORT_LIBFABRIC_OPERATION_RING_H_

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
    kIssued,  // The provider has it.
    kDone,    // It has its outcome, and waits for those before it.
  };

  fi_context2 context = {};  // The provider's own (FI_CONTEXT, FI_CONTEXT2).
  // What its user will be told, but for the endpoint.
  Completion outcome;
  FabricQueuePair* queue_pair = nullptr;
  size_t room = 0;  // Of a RECEIVE.
  State state = State::kFree;
};

// The operations of one direction, in posting order: providers may finish them
// in another. A slot is taken by a post, retired once it and all before it have
// their outcome, and free again when its completion was polled.
//
//   freed_ <= retired_ <= taken_      (all count up)
//
// The newest `held_` of those taken are held.
class OperationRing {
 public:
  // Slots are a power of two, so that none is found by a division.
  OperationRing(FabricQueuePair* owner, uint32_t capacity)
      : capacity_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        owned_(new OperationSlot[mask_ + 1]),
        slots_(owned_.get()) {
    for (uint32_t i = 0; i <= mask_; ++i) slots_[i].queue_pair = owner;
  }

  bool full() const { return taken_ - freed_ >= capacity_; }
  // Taken and not yet polled.
  uint32_t used() const { return static_cast<uint32_t>(taken_ - freed_); }
  // Taken and not yet retired.
  uint32_t outstanding() const {
    return static_cast<uint32_t>(taken_ - retired_);
  }
  bool holding() const { return held_ != 0; }
  uint32_t capacity() const { return capacity_; }
  // More than any IndexOf().
  uint32_t indices() const { return mask_ + 1; }

  OperationSlot& Take(OperationId id, OperationKind kind) {
    OperationSlot& slot = slots_[Index(taken_++)];
    slot.outcome.id = id;
    slot.outcome.kind = kind;
    slot.outcome.status = CompletionStatus::kOk;
    slot.outcome.scope = DamageScope::kNone;
    slot.outcome.provider_code = 0;
    slot.outcome.bytes = 0;
    slot.state = OperationSlot::State::kIssued;
    // Nothing overtakes those that are held.
    if (held_ != 0) ++held_;
    return slot;
  }
  // The newest slot was not handed on, and is free again.
  void UntakeNewest() {
    slots_[Index(--taken_)].state = OperationSlot::State::kFree;
  }
  // The newest slot is held, the first.
  void HoldNewest() { held_ = 1; }
  OperationSlot* OldestHeld() {
    return holding() ? &slots_[Index(taken_ - held_)] : nullptr;
  }
  void ReleaseHeld() { --held_; }

  OperationSlot* Oldest() {
    return retired_ == taken_ ? nullptr : &slots_[Index(retired_)];
  }
  // Slots that are not taken are free.
  bool OldestIsDone() const {
    return slots_[Index(retired_)].state == OperationSlot::State::kDone;
  }
  // The oldest that the provider has and that `is_wanted`; null without one.
  template <typename Predicate>
  OperationSlot* FirstIssued(Predicate is_wanted) {
    for (uint64_t count = retired_; count != taken_ - held_; ++count) {
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
    for (uint64_t count = retired_; count != taken_ - held_; ++count) {
      OperationSlot& slot = slots_[Index(count)];
      if (slot.state == OperationSlot::State::kIssued) visit(&slot);
    }
  }
  void RetireOldest() {
    slots_[Index(retired_)].state = OperationSlot::State::kFree;
    ++retired_;
    if (held_ != 0) held_ = std::min(held_, outstanding());
  }
  // The oldest that was retired, whose slot was left alone until now.
  void Polled() { ++freed_; }

  uint32_t IndexOf(const OperationSlot& slot) const {
    return static_cast<uint32_t>(&slot - slots_);
  }

 private:
  uint64_t Index(uint64_t count) const { return count & mask_; }

  const uint32_t capacity_;
  const uint32_t mask_;
  const std::unique_ptr<OperationSlot[]> owned_;
  OperationSlot* const slots_;
  uint32_t held_ = 0;
  uint64_t freed_ = 0;
  uint64_t retired_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_OPERATION_RING_H_
