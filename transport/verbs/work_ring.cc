#include "transport/verbs/work_ring.h"

#include <algorithm>

namespace skiff::transport {
namespace {

uint32_t PowerOfTwo(uint32_t at_least) {
  uint32_t size = 1;
  while (size < at_least) size *= 2;
  return size;
}

}  // namespace

WorkRing::WorkRing(uint32_t capacity, VerbsQueuePair* owner)
    : capacity_(capacity),
      mask_(PowerOfTwo(capacity) - 1),
      slots_(new WorkSlot[mask_ + 1]) {
  for (uint64_t i = 0; i <= mask_; ++i) slots_[i].queue_pair = owner;
}

WorkSlot* WorkRing::Push(OperationId id, OperationKind kind, bool signalled) {
  WorkSlot& slot = at(tail_++);
  slot.id = id;
  slot.kind = kind;
  slot.status = CompletionStatus::kOk;
  slot.signalled = signalled;
  slot.done = false;
  slot.reported = false;
  slot.provider_code = 0;
  return &slot;
}

uint64_t WorkRing::NumberOf(const WorkSlot* slot) const {
  const auto index = static_cast<uint64_t>(slot - slots_.get());
  return head_ + ((index - head_) & mask_);
}

void WorkRing::Complete(WorkSlot* slot, CompletionStatus status,
                        int32_t provider_code) {
  slot->done = true;
  slot->status = status;
  slot->provider_code = provider_code;
  reached_ = std::max(reached_, NumberOf(slot) + 1);
}

void WorkRing::Retire(WorkSlot* slot) {
  slot->done = true;
  slot->reported = true;
  while (head_ != tail_ && at(head_).reported) ++head_;
}

void WorkRing::FailNewest(uint32_t count, CompletionStatus first) {
  for (uint64_t number = tail_ - count; number != tail_; ++number) {
    at(number).done = true;
    at(number).status = first;
    first = CompletionStatus::kFlushed;
  }
}

void WorkRing::FlushAll() {
  for (uint64_t number = head_; number != tail_; ++number) {
    WorkSlot& slot = at(number);
    if (slot.done) continue;
    slot.done = true;
    slot.status = !slot.signalled && number < reached_
                      ? CompletionStatus::kOk
                      : CompletionStatus::kFlushed;
  }
}

const WorkSlot* WorkRing::Front() {
  while (head_ != tail_ && at(head_).reported) ++head_;
  if (empty()) return nullptr;
  const WorkSlot& slot = at(head_);
  if (slot.done || (!slot.signalled && head_ < reached_)) return &slot;
  return nullptr;
}

}  // namespace skiff::transport
