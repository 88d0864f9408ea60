#ifndef SKIFF_TRANSPORT_LIBFABRIC_OPERATION_RING_H_
#define SKIFF_TRANSPORT_LIBFABRIC_OPERATION_RING_H_

#include <rdma/fabric.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "transport/rdma_endpoint.h"

namespace skiff::transport {

class FabricQueuePair;

// One operation of a queue pair. Its address is the operation's context in
// libfabric.
struct OperationSlot {
  enum class State : uint8_t {
    kFree,
    kHeld,    // Accepted; the provider does not have it yet.
    kIssued,  // The provider has it.
    kDone,    // It has its outcome, and waits for those before it.
  };

  fi_context2 context = {};  // The provider's own (FI_CONTEXT, FI_CONTEXT2).
  FabricQueuePair* queue_pair = nullptr;
  OperationId id;
  uint32_t bytes = 0;
  size_t room = 0;  // Of a RECEIVE.
  int32_t provider_code = 0;
  OperationKind kind = OperationKind::kSend;
  State state = State::kFree;
  CompletionStatus status = CompletionStatus::kOk;
};

// The operations of one direction, in posting order: providers may finish them
// in another. A slot is taken by a post, retired once it and all before it have
// their outcome, and free again when its completion was polled.
//
//   freed_ <= retired_ <= issued_ <= taken_      (all count up)
//
// From issued_ on, operations are held.
class OperationRing {
 public:
  // Slots are a power of two, so that none is found by a division.
  OperationRing(FabricQueuePair* owner, uint32_t capacity)
      : capacity_(capacity), slots_(std::bit_ceil(capacity)) {
    for (OperationSlot& slot : slots_) slot.queue_pair = owner;
  }

  bool full() const { return taken_ - freed_ >= capacity_; }
  // Taken and not yet polled.
  uint32_t used() const { return static_cast<uint32_t>(taken_ - freed_); }
  // Taken and not yet retired.
  uint32_t outstanding() const {
    return static_cast<uint32_t>(taken_ - retired_);
  }
  bool holding() const { return issued_ != taken_; }
  uint32_t capacity() const { return capacity_; }
  // More than any IndexOf().
  uint32_t indices() const { return static_cast<uint32_t>(slots_.size()); }

  OperationSlot& Take(OperationId id, OperationKind kind) {
    OperationSlot& slot = slots_[Index(taken_)];
    // Whoever takes without holding anything hands the operation on at once.
    if (!holding()) ++issued_;
    ++taken_;
    slot.id = id;
    slot.kind = kind;
    slot.bytes = 0;
    slot.provider_code = 0;
    slot.status = CompletionStatus::kOk;
    return slot;
  }
  // The newest slot was not handed on, and is free again.
  void UntakeNewest() {
    --taken_;
    issued_ = taken_;
    slots_[Index(taken_)].state = OperationSlot::State::kFree;
  }
  // The newest slot is held after all.
  void HoldNewest() { issued_ = taken_ - 1; }

  OperationSlot* OldestHeld() {
    return holding() ? &slots_[Index(issued_)] : nullptr;
  }
  void ReleaseHeld() { ++issued_; }

  OperationSlot* Oldest() {
    return retired_ == taken_ ? nullptr : &slots_[Index(retired_)];
  }
  // The oldest that the provider has and that `is_wanted`; null without one.
  template <typename Predicate>
  OperationSlot* FirstIssued(Predicate is_wanted) {
    for (uint64_t count = retired_; count != issued_; ++count) {
      OperationSlot& slot = slots_[Index(count)];
      if (slot.state == OperationSlot::State::kIssued && is_wanted(slot)) {
        return &slot;
      }
    }
    return nullptr;
  }
  void RetireOldest() {
    slots_[Index(retired_)].state = OperationSlot::State::kFree;
    ++retired_;
    if (issued_ < retired_) issued_ = retired_;
  }
  void Polled() { ++freed_; }

  uint32_t IndexOf(const OperationSlot& slot) const {
    return static_cast<uint32_t>(&slot - slots_.data());
  }

 private:
  uint32_t Index(uint64_t count) const {
    return static_cast<uint32_t>(count & (slots_.size() - 1));
  }

  uint32_t capacity_;
  std::vector<OperationSlot> slots_;
  uint64_t freed_ = 0;
  uint64_t retired_ = 0;
  uint64_t issued_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_OPERATION_RING_H_
