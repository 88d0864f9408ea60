#include "protocol/target/command_coalescer.h"

#include <algorithm>

namespace skiff::protocol {

size_t CommandCoalescer::Update(absl::Time now, uint64_t commands,
                                uint64_t bytes, uint32_t outstanding) {
  // Beyond these, the wake-up is a small part of what the input costs.
  constexpr uint64_t kMaxCommands = 64;
  constexpr uint64_t kMaxBytes = 64 << 10;
  rate_.Measure(now, commands, bytes, 4 * max_delay_);
  const uint64_t wanted =
      std::min({uint64_t{outstanding / 4}, rate_.MessagesWithin(max_delay_),
                kMaxCommands,
                kMaxBytes / std::max<uint64_t>(1, rate_.bytes_per_message())});
  return wanted < 2 ? 1 : wanted * rate_.bytes_per_message();
}

}  // namespace skiff::protocol
