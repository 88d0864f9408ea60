#ifndef SKIFF_PROTOCOL_CONNECTION_ARRIVAL_RATE_H_
#define SKIFF_PROTOCOL_CONNECTION_ARRIVAL_RATE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace skiff::protocol {

// How fast messages arrive, and how long they are, measured over the last few.
// Pure computation.
class ArrivalRate {
 public:
  // After each batch of input. `messages` and `bytes` count what was received
  // since the session began. A measurement without enough messages ends after
  // `longest`.
  void Measure(absl::Time now, uint64_t messages, uint64_t bytes,
               absl::Duration longest);

  // Nothing is known until the next measurement ends.
  void Forget() { per_second_ = 0; }

  uint64_t MessagesWithin(absl::Duration time) const;
  uint64_t bytes_per_message() const { return bytes_per_message_; }

 private:
  // The measurement under way, and what the last one found.
  absl::Time begin_ = absl::InfinitePast();
  uint64_t begin_messages_ = 0;
  uint64_t begin_bytes_ = 0;
  double per_second_ = 0;
  uint64_t bytes_per_message_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_ARRIVAL_RATE_H_
