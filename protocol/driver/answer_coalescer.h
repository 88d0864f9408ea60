#ifndef SKIFF_PROTOCOL_DRIVER_ANSWER_COALESCER_H_
#define SKIFF_PROTOCOL_DRIVER_ANSWER_COALESCER_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace skiff::protocol {

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
  explicit AnswerCoalescer(const CoalesceOptions& options)
      : options_(options) {}

  // After each batch of input that brought answers, and after what they made
  // the user send. `answers` and `bytes` count
  // what was received since the session began; `outstanding` commands have no
  // answer yet. Returns the threshold in bytes; 1 means not to wait.
  size_t Update(absl::Time now, uint64_t answers, uint64_t bytes,
                uint32_t outstanding);

  // The threshold was not reached in time: the estimate is too high.
  void TimedOut() { answers_per_second_ = 0; }

  // How long to wait for the threshold.
  absl::Duration patience() const { return 2 * options_.max_delay; }

 private:
  uint64_t AnswersWithin(absl::Duration time) const;
  void Measure(absl::Time now, uint64_t answers, uint64_t bytes);

  CoalesceOptions options_;
  // The measurement under way, and what the last one found.
  absl::Time begin_ = absl::InfinitePast();
  uint64_t begin_answers_ = 0;
  uint64_t begin_bytes_ = 0;
  double answers_per_second_ = 0;
  uint64_t bytes_per_answer_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DRIVER_ANSWER_COALESCER_H_
