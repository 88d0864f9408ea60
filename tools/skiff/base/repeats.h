#ifndef SKIFF_TOOLS_SKIFF_BASE_REPEATS_H_
#define SKIFF_TOOLS_SKIFF_BASE_REPEATS_H_

#include <cstdint>

#include "scsi/initiator/command.h"

namespace skiff::tools {

// How often a command was sent again, and whether it is to be once more. A new
// one for each command.
class Repeats {
 public:
  static constexpr uint8_t kMaxInterruptions = 8;
  // Each can take as long again as the first attempt.
  static constexpr uint8_t kMaxTimeouts = 1;

  enum class Cause : uint8_t { kNone, kInterruption, kTimeout };

  // Why a command that has ended is to be sent again:
  //
  // An interruption says that it was not carried out, or not to its end, for a
  // reason that is over: a unit attention, which reports an event such as a
  // reset; TASK ABORTED, by which another initiator did away with it (SAM-6
  // section 5.3.1); a reset of our own, for a command that did not end.
  //
  // A timeout is one after which the target says that the command has ended.
  // Targets lose answers: Linux's does at resets by other initiators.
  //
  // Or kNone, where it was neither, or often enough, or where executing the
  // command twice is not as good as once.
  Cause Next(const scsi::Command& command);

 private:
  uint8_t interruptions_ = 0;
  uint8_t timeouts_ = 0;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_REPEATS_H_
