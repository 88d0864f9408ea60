#ifndef SKIFF_PROTOCOL_INITIATOR_BACKOFF_H_
#define SKIFF_PROTOCOL_INITIATOR_BACKOFF_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace skiff::protocol {

// How an initiator comes back to a target that it lost.
struct ReconnectPolicy {
  // How long a lost session is tried to be restored before its commands fail
  // with kConnectionLost. Zero: they fail at once. Restored sessions retry
  // them, but for those that are not idempotent and had been sent, and those
  // under which a session was lost for the first time longer ago than this.
  absl::Duration replacement_timeout = absl::Seconds(120);
  // Between attempts: doubled from the first, which is more than zero, to the
  // second, which is at least the first, and finite. It is the first again once
  // a session was up for as long as the second.
  absl::Duration delay = absl::Milliseconds(100);
  absl::Duration max_delay = absl::Seconds(5);
  // The longest pause that a target can ask for, by DefaultTime2Wait or when it
  // drops the session: it may name 18 hours. Zero or more.
  absl::Duration max_time2wait = absl::Minutes(5);
  // Each of these pauses, also the one that the target asks for, is longer by a
  // random part of up to this share of itself (0 to 1), so that the initiators
  // of a target that was away do not all come back at the same moment. A
  // nonzero seed makes the pauses the same every time.
  double jitter = 0.25;
  uint64_t seed = 0;
};

// Pauses between attempts: doubled each time up to a limit, and spread by
// chance, so that many who lost the same peer do not all come back at once.
// The chance is all in the seed.
class Backoff {
 public:
  // The policy is copied.
  explicit Backoff(const ReconnectPolicy& policy)
      : policy_(policy), delay_(policy.delay), random_(policy.seed) {}

  // The next pause: at least `minimum`, and longer by a random part of up to
  // `jitter` times itself.
  absl::Duration Next(absl::Duration minimum) {
    const absl::Duration pause = std::max(minimum, delay_);
    delay_ = std::min(2 * delay_, policy_.max_delay);
    // The upper 53 bits: a double in [0, 1), the same with every library.
    const double part =
        static_cast<double>(random_() >> 11) / static_cast<double>(1ull << 53);
    return pause + pause * (policy_.jitter * part);
  }
  // The first pause comes next again.
  void Reset() { delay_ = policy_.delay; }

 private:
  const ReconnectPolicy policy_;
  absl::Duration delay_;
  std::mt19937_64 random_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_BACKOFF_H_
