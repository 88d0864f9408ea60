#include "transport/reactor/adaptive_spin.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <array>

namespace skiff::transport {
namespace {

constexpr int kWakeUps = 8;
constexpr absl::Duration kLeast = absl::Microseconds(100);
constexpr absl::Duration kMost = absl::Milliseconds(1);

constexpr absl::Duration kSleep = absl::Microseconds(100);
constexpr int kSleeps = 9;

absl::Duration Clock() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

// By how much a thread that sleeps is late: what the interrupt, the processor
// and the scheduler take until it runs, as with any event.
absl::Duration MeasureWakeUp() {
  // Otherwise the kernel lets timers be late, so that several end together.
  const int slack = prctl(PR_GET_TIMERSLACK);
  if (slack > 0) prctl(PR_SET_TIMERSLACK, 1UL);
  const timespec sleep = absl::ToTimespec(kSleep);
  std::array<absl::Duration, kSleeps> late;
  for (absl::Duration& each : late) {
    const absl::Duration start = Clock();
    // One that a signal ends counts as not late.
    nanosleep(&sleep, nullptr);
    each = Clock() - start - kSleep;
  }
  if (slack > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
  std::nth_element(late.begin(), late.begin() + kSleeps / 2, late.end());
  return late[kSleeps / 2];
}

}  // namespace

absl::Duration SpinThatPays() {
  static const absl::Duration kSpin =
      std::clamp(kWakeUps * MeasureWakeUp(), kLeast, kMost);
  return kSpin;
}

}  // namespace skiff::transport
