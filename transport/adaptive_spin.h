#ifndef SKIFF_TRANSPORT_ADAPTIVE_SPIN_H_
#define SKIFF_TRANSPORT_ADAPTIVE_SPIN_H_

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
// Not thread-safe.
class AdaptiveSpin {
 public:
  explicit AdaptiveSpin(absl::Duration limit)
      : limit_(limit), limit_ns_(absl::ToInt64Nanoseconds(limit)) {}

  // How long to look now before sleeping: nothing or the limit.
  absl::Duration window() const {
    return balance_ns_ > 0 ? limit_ : absl::ZeroDuration();
  }
  absl::Duration limit() const { return limit_; }

  // There was nothing to do for so long, spinning or asleep.
  void OnIdle(absl::Duration idle) {
    const int64_t idle_ns = absl::ToInt64Nanoseconds(idle);
    const int64_t won = idle_ns < limit_ns_ ? limit_ns_ - idle_ns : -limit_ns_;
    balance_ns_ =
        std::clamp(balance_ns_ + won, -kMost * limit_ns_, kMost * limit_ns_);
  }

 private:
  // What is remembered, in limits: as many are lost at most when events stop
  // coming soon, and more times than that are short before it spins again.
  static constexpr int64_t kMost = 3;

  absl::Duration limit_;
  int64_t limit_ns_;
  int64_t balance_ns_ = 0;
};

// A limit that suits this machine: four times what it takes for a thread that
// sleeps to run, as measured by the first call, in a millisecond or two; at
// least 50 us and at most 1 ms. Thread-safe.
absl::Duration SpinThatPays();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_ADAPTIVE_SPIN_H_
