#include "protocol/initiator/answer_coalescer.h"

#include <algorithm>

namespace skiff::protocol {
namespace {

// From waking up to new commands at the target, roughly: meanwhile it shall
// have something to do.
constexpr absl::Duration kTurnaround = absl::Microseconds(100);
// Beyond this the wake-up is a small part of the cost.
constexpr uint64_t kMaxAnswers = 64;

}  // namespace

size_t AnswerCoalescer::Update(absl::Time now, uint64_t answers, uint64_t bytes,
                               uint32_t outstanding) {
  rate_.Measure(now, answers, bytes, 4 * options_.max_delay);
  if (outstanding < options_.min_outstanding) return 1;
  const uint64_t keep = rate_.MessagesWithin(kTurnaround);
  const uint64_t least = outstanding / 4;
  const uint64_t most = outstanding - least;
  const uint64_t wanted =
      std::min({outstanding > keep + least ? outstanding - keep : least, most,
                rate_.MessagesWithin(options_.max_delay), kMaxAnswers});
  return wanted < 2 ? 1 : wanted * rate_.bytes_per_message();
}

}  // namespace skiff::protocol
