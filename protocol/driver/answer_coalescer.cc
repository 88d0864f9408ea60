#include "protocol/driver/answer_coalescer.h"

#include <algorithm>
#include <cmath>

namespace skiff::protocol {
namespace {

// From waking up to new commands at the target, roughly: meanwhile it shall
// have something to do.
constexpr absl::Duration kTurnaround = absl::Microseconds(100);
// Answers of one measurement. Few, so that it follows the target's pace.
constexpr uint64_t kSample = 32;
// Beyond this the wake-up is a small part of the cost.
constexpr uint64_t kMaxAnswers = 64;

}  // namespace

size_t AnswerCoalescer::Update(absl::Time now, uint64_t answers, uint64_t bytes,
                               uint32_t outstanding) {
  Measure(now, answers, bytes);
  if (outstanding < options_.min_outstanding) return 1;
  const uint64_t keep = AnswersWithin(kTurnaround);
  const uint64_t least = outstanding / 4;
  const uint64_t most = outstanding - least;
  const uint64_t wanted =
      std::min({outstanding > keep + least ? outstanding - keep : least, most,
                AnswersWithin(options_.max_delay), kMaxAnswers});
  return wanted < 2 ? 1 : wanted * bytes_per_answer_;
}

uint64_t AnswerCoalescer::AnswersWithin(absl::Duration time) const {
  return static_cast<uint64_t>(
      std::lround(answers_per_second_ * absl::ToDoubleSeconds(time)));
}

void AnswerCoalescer::Measure(absl::Time now, uint64_t answers,
                              uint64_t bytes) {
  // What came in less than this came at once.
  constexpr absl::Duration kShortest = absl::Microseconds(1);
  const absl::Duration time = std::max(now - begin_, kShortest);
  const uint64_t count = answers - begin_answers_;
  if (count == 0) return;
  if (count < kSample && time < 4 * options_.max_delay) return;
  answers_per_second_ =
      static_cast<double>(count) / absl::ToDoubleSeconds(time);
  bytes_per_answer_ = std::max<uint64_t>(1, (bytes - begin_bytes_) / count);
  begin_ = now;
  begin_answers_ = answers;
  begin_bytes_ = bytes;
}

}  // namespace skiff::protocol
