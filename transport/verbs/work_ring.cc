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
      slots_(owned_.get()),
      next_(slots_) {
  for (uint64_t i = 0; i <= mask_; ++i) {
    slots_[i].queue_pair = owner;
    slots_[i].next = &at(i + 1);
  }
}

void WorkRing::SetEndpoint(RdmaEndpoint* endpoint) {
  // Nothing is taken any more.
  if (owned_ == nullptr) return;
  for (uint64_t i = 0; i <= mask_; ++i) slots_[i].endpoint = endpoint;
}

void WorkRing::Fail(WorkSlot* slot, CompletionStatus status,
                    int32_t provider_code) {
  Complete(slot);
  slot->flags |= WorkSlot::kNoteworthy;
  slot->status = status;
  slot->provider_code = provider_code;
}

void WorkRing::Retire(WorkSlot* slot) {
  slot->flags |= WorkSlot::kDone | WorkSlot::kReported;
  PassReported(head_);
}

void WorkRing::FailNewest(uint32_t count, CompletionStatus first) {
  for (uint64_t number = tail_ - count; number != tail_; ++number) {
    at(number).flags |= WorkSlot::kDone | WorkSlot::kNoteworthy;
    at(number).status = first;
    first = CompletionStatus::kFlushed;
  }
}

void WorkRing::FlushAll() {
  for (uint64_t number = head_; number != tail_; ++number) {
    WorkSlot& slot = at(number);
    if (slot.has(WorkSlot::kDone)) continue;
    slot.flags |= WorkSlot::kDone;
    if (!slot.has(WorkSlot::kSignalled) && number < reached_) continue;
    slot.flags |= WorkSlot::kNoteworthy;
    slot.status = CompletionStatus::kFlushed;
  }
}

std::shared_ptr<void> WorkRing::Bury() {
  for (uint64_t i = 0; i <= mask_; ++i) slots_[i].Bury();
  return std::shared_ptr<WorkSlot[]>(std::move(owned_));
}

size_t WorkRing::Take(absl::Span<Completion> out, bool* noteworthy) {
  Completion* next = out.data();
  // What the loop writes could be these, for all that a compiler knows.
  const WorkSlot* const slots = slots_;
  const uint64_t mask = mask_;
  const uint64_t reached = reached_;
  const uint64_t tail = tail_;
  uint64_t head = head_;
  uint64_t end = head + std::min<uint64_t>(out.size(), tail - head);
  uint8_t seen = 0;
  for (; head != end; ++head) {
    const WorkSlot& slot = slots[head & mask];
    const uint8_t flags = slot.flags;
    if (flags == 0) {
      if (head >= reached) break;
    } else {
      if ((flags & WorkSlot::kReported) != 0) {
        end = std::min(end + 1, tail);  // It takes no room.
        continue;
      }
      if ((flags & WorkSlot::kDone) == 0 &&
          ((flags & WorkSlot::kSignalled) != 0 || head >= reached)) {
        break;
      }
      seen |= flags;
    }
    *next++ = slot;
  }
  // What a user has been told already is not left to be the oldest.
  const uint64_t first = head_;
  PassReported(head);
  *noteworthy = (seen & WorkSlot::kNoteworthy) != 0;
  if (*noteworthy) {
    // For the next ones there.
    for (uint64_t i = first; i != head_; ++i) at(i).provider_code = 0;
  }
  return static_cast<size_t>(next - out.data());
}

}  // namespace skiff::transport
