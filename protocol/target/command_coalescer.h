#ifndef SKIFF_PROTOCOL_TARGET_COMMAND_COALESCER_H_
#define SKIFF_PROTOCOL_TARGET_COMMAND_COALESCER_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "protocol/connection/arrival_rate.h"

namespace skiff::protocol {

// Decides how many bytes a target lets arrive before it wakes up: as many
// commands as come within the delay, but at most a quarter of those that the
// initiator keeps outstanding, so that he always has answers to go on with.
// An initiator that sends each command by itself otherwise costs a wake-up, a
// read and a write for each. Pure computation.
//
// An initiator that lets answers gather (AnswerCoalescer) waits for three
// quarters at most: the two never wait for each other.
class CommandCoalescer {
 public:
  // About how long a command may wait for others; twice as long if they fail
  // to come. Zero: not at all.
  explicit CommandCoalescer(absl::Duration max_delay) : max_delay_(max_delay) {}

  // After each batch of input that brought commands. `commands` and `bytes`
  // count what was received since the session began; for `outstanding`
  // commands the initiator had no answer when it sent the last of them. Returns
  // the threshold in bytes; 1 means not to wait.
  size_t Update(absl::Time now, uint64_t commands, uint64_t bytes,
                uint32_t outstanding);

  // The threshold was not reached in time: the estimate is too high.
  void TimedOut() { rate_.Forget(); }

  // How long to wait for the threshold.
  absl::Duration patience() const { return 2 * max_delay_; }

 private:
  absl::Duration max_delay_;
  ArrivalRate rate_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_COMMAND_COALESCER_H_
