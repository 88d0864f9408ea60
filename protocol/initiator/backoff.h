#ifndef SKIFF_PROTOCOL_INITIATOR_BACKOFF_H_
#define SKIFF_PROTOCOL_INITIATOR_BACKOFF_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace skiff::protocol {

// Pauses between attempts: doubled each time up to a limit, and spread by
// chance, so that many who lost the same peer do not all come back at once.
// The chance is all in the seed.
class Backoff {
 public:
  struct Options {
    absl::Duration first = absl::Milliseconds(100);
    absl::Duration max = absl::Seconds(5);
    double jitter = 0.25;  // 0 to 1.
    uint64_t seed = 1;
  };

  explicit Backoff(const Options& options)
      : options_(options), delay_(options.first), random_(options.seed) {}

  // The next pause: at least `minimum`, and longer by a random part of up to
  // `jitter` times itself.
  absl::Duration Next(absl::Duration minimum) {
    const absl::Duration pause = std::max(minimum, delay_);
    delay_ = std::min(2 * delay_, options_.max);
    // The upper 53 bits: a double in [0, 1), the same with every library.
    const double part =
        static_cast<double>(random_() >> 11) / static_cast<double>(1ull << 53);
    return pause + pause * (options_.jitter * part);
  }
  // The first pause comes next again.
  void Reset() { delay_ = options_.first; }

 private:
  const Options options_;
  absl::Duration delay_;
  std::mt19937_64 random_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_BACKOFF_H_
