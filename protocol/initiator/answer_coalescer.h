#ifndef SKIFF_PROTOCOL_INITIATOR_ANSWER_COALESCER_H_
#define SKIFF_PROTOCOL_INITIATOR_ANSWER_COALESCER_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "protocol/connection/arrival_rate.h"

namespace skiff::protocol {

// How long answers may wait for each other.
struct CoalesceOptions {
  static constexpr absl::Duration kMaxDelay = absl::Milliseconds(100);
  // About how long an answer may wait for others, so that one wake-up of a
  // sleeping reactor brings several; twice as long if they fail to come. Zero:
  // not at all. At most kMaxDelay.
  absl::Duration max_delay = absl::Microseconds(300);
  // With fewer commands outstanding nothing waits.
  uint32_t min_outstanding = 8;
};

// Decides how many bytes an initiator lets arrive before it wakes up, from how
// fast the target answers: as many answers as come within the delay, but so few
// that the target does not run dry before new commands reach it. What a network
// adapter does with its interrupts, for the same reason: a target that sends
// each answer by itself costs a wake-up each. Pure computation.
class AnswerCoalescer {
 public:
  // The options are taken as they are: the caller has checked their ranges.
  explicit AnswerCoalescer(const CoalesceOptions& options)
      : options_(options) {}

  // After each batch of input that brought answers, and after what they made
  // the user send. `answers` and `bytes` count
  // what was received since the session began; `outstanding` commands have no
  // answer yet. Returns the threshold in bytes; 1 means not to wait.
  size_t Update(absl::Time now, uint64_t answers, uint64_t bytes,
                uint32_t outstanding);

  // The threshold was not reached in time: the estimate is too high.
  void TimedOut() { rate_.Forget(); }

  // How long to wait for the threshold.
  absl::Duration patience() const { return 2 * options_.max_delay; }

 private:
  CoalesceOptions options_;
  ArrivalRate rate_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_ANSWER_COALESCER_H_
