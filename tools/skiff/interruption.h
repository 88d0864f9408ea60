#ifndef SKIFF_TOOLS_SKIFF_INTERRUPTION_H_
#define SKIFF_TOOLS_SKIFF_INTERRUPTION_H_

#include "absl/status/status.h"

namespace skiff::tools {

// True for a command's status (scsi::CommandStatus) which says that the command
// was not carried out, or not to its end, for a reason that is over: a unit
// attention, which reports an event such as a reset, or TASK ABORTED, by which
// another initiator did away with it (SAM-6 section 5.3.1). A command that may
// be executed twice is sent again.
bool WasInterrupted(const absl::Status& status);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_INTERRUPTION_H_
