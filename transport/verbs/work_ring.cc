#include "transport/verbs/work_ring.h"

#include <algorithm>
#include <utility>

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
      owned_(new WorkSlot[mask_ + 1]),
      slots_(owned_.get()) {
  for (uint64_t i = 0; i <= mask_; ++i) slots_[i].queue_pair = owner;
}

uint64_t WorkRing::NumberOf(const WorkSlot* slot) const {
  const auto index = static_cast<uint64_t>(slot - slots_);
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

std::shared_ptr<void> WorkRing::Bury() {
  for (uint64_t i = 0; i <= mask_; ++i) slots_[i].Bury();
  return std::shared_ptr<WorkSlot[]>(std::move(owned_));
}

size_t WorkRing::Take(absl::Span<Completion> out) {
  Completion* next = out.data();
  Completion* const end = next + out.size();
  uint64_t head = head_;
  for (; head != tail_ && next != end; ++head) {
    const WorkSlot& slot = at(head);
    if (slot.reported) continue;
    if (!slot.done && (slot.signalled || head >= reached_)) break;
    *next++ = slot;
  }
  // What a user has been told already is not left to be the oldest.
  while (head != tail_ && at(head).reported) ++head;
  head_ = head;
  return static_cast<size_t>(next - out.data());
}

}  // namespace skiff::transport
