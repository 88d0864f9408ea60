#ifndef SKIFF_TRANSPORT_REACTOR_ADAPTIVE_SPIN_H_
#define SKIFF_TRANSPORT_REACTOR_ADAPTIVE_SPIN_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace skiff::transport {

// Whether a reactor should look for events for a while before it sleeps, by
// how long it recently had nothing to do. A time that ended within the limit is
// a sleep that spinning saves, worth a limit of processor time; what is spent
// on it is spent for nothing in a longer one. It spins while the recent times
// were worth more than they cost.
//
// Whoever spins should yield the processor now and then. Where a yield takes a
// time slice, somebody is busy there, and who sleeps gets the processor back
// sooner: it does not spin then for as long as that took, and for longer and
// longer where that goes on, up to 128 times; a thousand quick yields halve it.
// Where reactors share a processor they have slices of their own
// (ProcessorSharing): `crowded`.
//
// Not thread-safe.
class AdaptiveSpin {
 public:
  static constexpr absl::Duration kMaxLimit = absl::Minutes(1);

  // `limit`, of at most kMaxLimit, is how long to spin at most.
  explicit AdaptiveSpin(absl::Duration limit)
      : limit_(limit), limit_ns_(absl::ToInt64Nanoseconds(limit)) {}

  // How long to look before sleeping: nothing or the limit.
  absl::Duration window(absl::Time now) const {
    return balance_ns_ > 0 && now >= resume_ ? limit_ : absl::ZeroDuration();
  }

  // There was nothing to do for so long, spinning or asleep.
  void OnIdle(absl::Duration idle) {
    const int64_t idle_ns = absl::ToInt64Nanoseconds(idle);
    // Too short to fall asleep in.
    if (idle_ns < std::min(limit_ns_ / 16, kShortestNs)) return;
    const int64_t won = idle_ns < limit_ns_ ? limit_ns_ - idle_ns : -limit_ns_;
    balance_ns_ =
        std::clamp(balance_ns_ + won, -kMost * limit_ns_, kMost * limit_ns_);
  }

  // The processor was yielded, and was back after so long.
  void OnYield(absl::Duration took, absl::Time now, bool crowded = false) {
    if (took > (crowded ? kLongYieldCrowded : kLongYield)) {
      resume_ = now + pause_ * std::min(took, kLongestYield);
      pause_ = std::min(2 * pause_, kLongestPause);
      quick_yields_ = 0;
    } else if (++quick_yields_ % kQuickYields == 0) {
      pause_ = std::max(pause_ / 2, int64_t{1});
    }
  }

 private:
  // What is remembered, in limits: as many are lost at most when events stop
  // coming soon; and where few did for long, more times than that have to be
  // short before it spins.
  static constexpr int64_t kMost = 3;
  static constexpr int64_t kShortestNs = 5000;
  // Linux's time slices are of 0.7 ms at least. Somebody who answers and sleeps
  // again, as the peer may, takes less.
  static constexpr absl::Duration kLongYield = absl::Microseconds(600);
  // Less than ProcessorSharing::kMostWork.
  static constexpr absl::Duration kLongYieldCrowded = absl::Microseconds(50);
  // As of a machine that was suspended.
  static constexpr absl::Duration kLongestYield = absl::Milliseconds(100);
  // In times of what the yield took.
  static constexpr int64_t kLongestPause = 128;
  static constexpr uint64_t kQuickYields = 1000;

  absl::Duration limit_;
  int64_t limit_ns_;
  int64_t balance_ns_ = 0;
  int64_t pause_ = 1;
  uint64_t quick_yields_ = 0;
  absl::Time resume_ = absl::InfinitePast();
};

// A limit that suits this machine: eight times what it takes for a thread that
// sleeps to run, at least 100 us and at most 1 ms. The first call measures that
// on the calling thread: it sleeps nine times for 100 us, and longer where
// wake-ups take long. Thread-safe.
absl::Duration SpinThatPays();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_ADAPTIVE_SPIN_H_
