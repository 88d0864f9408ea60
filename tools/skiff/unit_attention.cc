#include "tools/skiff/unit_attention.h"

#include <optional>

#include "scsi/initiator/scsi_error.h"
#include "scsi/sense.h"

namespace skiff::tools {

bool IsUnitAttention(const absl::Status& status) {
  const std::optional<scsi::ScsiError> error = scsi::GetScsiError(status);
  return error.has_value() && error->sense.has_value() &&
         error->sense->key == scsi::SenseKey::kUnitAttention;
}

}  // namespace skiff::tools
