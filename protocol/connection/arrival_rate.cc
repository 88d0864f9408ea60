#include "protocol/connection/arrival_rate.h"

#include <algorithm>
#include <cmath>

namespace skiff::protocol {

uint64_t ArrivalRate::MessagesWithin(absl::Duration time) const {
  return static_cast<uint64_t>(
      std::lround(per_second_ * absl::ToDoubleSeconds(time)));
}

void ArrivalRate::Measure(absl::Time now, uint64_t messages, uint64_t bytes,
                          absl::Duration longest) {
  // Messages of one measurement. Few, so that it follows the peer's pace.
  constexpr uint64_t kSample = 32;
  // What came in less than this came at once.
  constexpr absl::Duration kShortest = absl::Microseconds(1);
  const absl::Duration time = std::max(now - begin_, kShortest);
  const uint64_t count = messages - begin_messages_;
  if (count == 0 || (count < kSample && time < longest)) return;
  per_second_ = static_cast<double>(count) / absl::ToDoubleSeconds(time);
  bytes_per_message_ = std::max<uint64_t>(1, (bytes - begin_bytes_) / count);
  begin_ = now;
  begin_messages_ = messages;
  begin_bytes_ = bytes;
}

}  // namespace skiff::protocol
