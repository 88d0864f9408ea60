#include "tools/skiff/interruption.h"

#include <cstdint>
#include <optional>

#include "scsi/initiator/scsi_error.h"
#include "scsi/sense.h"

namespace skiff::tools {
namespace {

constexpr uint8_t kTaskAborted = 0x40;  // SAM-6 section 5.3.1.

}  // namespace

bool WasInterrupted(const absl::Status& status) {
  const std::optional<scsi::ScsiError> error = scsi::GetScsiError(status);
  if (!error.has_value()) return false;
  if (error->sense.has_value()) {
    return error->sense->key == scsi::SenseKey::kUnitAttention;
  }
  return error->outcome == scsi::Command::Outcome::kCompleted &&
         error->status == kTaskAborted;
}

}  // namespace skiff::tools
