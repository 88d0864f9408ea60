#ifndef SKIFF_TRANSPORT_REACTOR_TIMER_HEAP_H_
#define SKIFF_TRANSPORT_REACTOR_TIMER_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// The timers of one reactor; for reactor implementations. A binary heap ordered
// by deadline, then by order of scheduling. Each timer knows its own place, so
// that cancelling costs O(log n) and nothing is allocated once the heap has
// grown.
class TimerHeap {
 public:
  TimerHeap() = default;
  TimerHeap(const TimerHeap&) = delete;
  TimerHeap& operator=(const TimerHeap&) = delete;
  // Timers that are still scheduled become unscheduled.
  ~TimerHeap();

  // `timer` must not be scheduled.
  void Add(Timer* timer);
  // `timer` must be scheduled here.
  void Remove(Timer* timer);

  bool empty() const { return heap_.empty(); }
  // InfiniteFuture() when empty.
  absl::Time NextDeadline() const;

  // Expires the timers whose deadline is `now` or earlier, apart from those
  // that were scheduled during this very call. Returns how many. A timer may
  // destroy or reschedule itself and any other timer.
  int ExpireUntil(absl::Time now);

 private:
  static bool Before(const Timer* a, const Timer* b);
  void Place(Timer* timer, size_t index);
  void SiftUp(Timer* timer, size_t index);
  void SiftDown(Timer* timer, size_t index);

  std::vector<Timer*> heap_;
  uint64_t next_sequence_ = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_TIMER_HEAP_H_
