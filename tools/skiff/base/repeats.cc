#include "tools/skiff/base/repeats.h"

#include <cstdint>
#include <optional>

#include "scsi/initiator/command.h"
#include "scsi/initiator/scsi_error.h"
#include "scsi/sense.h"

namespace skiff::tools {
namespace {

using scsi::Command;

constexpr uint8_t kTaskAborted = 0x40;  // SAM-6 section 5.3.1.

Repeats::Cause CauseOf(const Command& command) {
  switch (command.outcome) {
    case Command::Outcome::kCompleted:
      break;
    case Command::Outcome::kAborted:
      return Repeats::Cause::kInterruption;
    case Command::Outcome::kTimedOut:
      return Repeats::Cause::kTimeout;
    default:
      return Repeats::Cause::kNone;
  }
  if (command.status == kTaskAborted) return Repeats::Cause::kInterruption;
  const std::optional<scsi::ScsiError> error =
      scsi::GetScsiError(scsi::CommandStatus(command));
  return error.has_value() && error->sense.has_value() &&
                 error->sense->key == scsi::SenseKey::kUnitAttention
             ? Repeats::Cause::kInterruption
             : Repeats::Cause::kNone;
}

}  // namespace

Repeats::Cause Repeats::Next(const Command& command) {
  const Cause cause = command.idempotent ? CauseOf(command) : Cause::kNone;
  switch (cause) {
    case Cause::kInterruption:
      return interruptions_++ < kMaxInterruptions ? cause : Cause::kNone;
    case Cause::kTimeout:
      return timeouts_++ < kMaxTimeouts ? cause : Cause::kNone;
    case Cause::kNone:
      break;
  }
  return Cause::kNone;
}

}  // namespace skiff::tools
