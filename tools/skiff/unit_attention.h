#ifndef SKIFF_TOOLS_SKIFF_UNIT_ATTENTION_H_
#define SKIFF_TOOLS_SKIFF_UNIT_ATTENTION_H_

#include "absl/status/status.h"

namespace skiff::tools {

// True for a command's status (scsi::CommandStatus) which says that the unit
// reports an event, such as a reset, and has not run the command.
bool IsUnitAttention(const absl::Status& status);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_UNIT_ATTENTION_H_
