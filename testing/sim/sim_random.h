#ifndef SKIFF_TESTING_SIM_SIM_RANDOM_H_
#define SKIFF_TESTING_SIM_SIM_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"

namespace skiff::testing {

// The simulator's one source of chance: splitmix64, which yields the same
// numbers with every compiler and library, unlike <random>'s distributions.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // From 0 to `bound` - 1; 0 if `bound` is 0.
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  // From `low` to `high`, both included.
  uint64_t Between(uint64_t low, uint64_t high) {
    return high <= low ? low : low + Below(high - low + 1);
  }
  bool Chance(double probability) {
    if (probability <= 0) return false;
    return static_cast<double>(Next() >> 11) * 0x1.0p-53 < probability;
  }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + absl::Nanoseconds(Below(static_cast<uint64_t>(
                     absl::ToInt64Nanoseconds(high - low) + 1)));
  }

 private:
  uint64_t state_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_RANDOM_H_
