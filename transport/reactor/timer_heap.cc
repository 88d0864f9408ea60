#include "transport/reactor/timer_heap.h"

namespace skiff::transport {

TimerHeap::~TimerHeap() {
  for (Timer* timer : heap_) timer->heap_index_ = Timer::kNotScheduled;
}

void TimerHeap::Add(Timer* timer) {
  timer->sequence_ = next_sequence_++;
  heap_.push_back(timer);
  SiftUp(timer, heap_.size() - 1);
}

void TimerHeap::Remove(Timer* timer) {
  const size_t index = timer->heap_index_;
  timer->heap_index_ = Timer::kNotScheduled;
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last == timer) return;
  // The last timer takes the gap, and may have to move either way from there.
  if (index > 0 && Before(last, heap_[(index - 1) / 2])) {
    SiftUp(last, index);
  } else {
    SiftDown(last, index);
  }
}

absl::Time TimerHeap::NextDeadline() const {
  return heap_.empty() ? absl::InfiniteFuture() : heap_.front()->deadline_;
}

int TimerHeap::ExpireUntil(absl::Time now) {
  const uint64_t first_new = next_sequence_;
  int expired = 0;
  while (!heap_.empty()) {
    Timer* timer = heap_.front();
    // A timer that was rescheduled into the past waits for the next call; so
    // may the ones behind it. Otherwise it could keep this loop going for ever.
    if (timer->deadline_ > now || timer->sequence_ >= first_new) break;
    Remove(timer);
    ++expired;
    timer->Expire();  // May destroy `timer`.
  }
  return expired;
}

bool TimerHeap::Before(const Timer* a, const Timer* b) {
  if (a->deadline_ != b->deadline_) return a->deadline_ < b->deadline_;
  return a->sequence_ < b->sequence_;
}

void TimerHeap::Place(Timer* timer, size_t index) {
  heap_[index] = timer;
  timer->heap_index_ = index;
}

void TimerHeap::SiftUp(Timer* timer, size_t index) {
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (!Before(timer, heap_[parent])) break;
    Place(heap_[parent], index);
    index = parent;
  }
  Place(timer, index);
}

void TimerHeap::SiftDown(Timer* timer, size_t index) {
  while (true) {
    size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && Before(heap_[child + 1], heap_[child])) {
      ++child;
    }
    if (!Before(heap_[child], timer)) break;
    Place(heap_[child], index);
    index = child;
  }
  Place(timer, index);
}

}  // namespace skiff::transport
