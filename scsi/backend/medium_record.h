#ifndef SKIFF_SCSI_BACKEND_MEDIUM_RECORD_H_
#define SKIFF_SCSI_BACKEND_MEDIUM_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace skiff::scsi {

// What is kept with a medium beyond the process.
struct MediumRecord {
  std::string identity;  // 32 hexadecimal digits.
  // The file that the record was made for; a copy of it is another. 0: not
  // known.
  uint64_t inode = 0;
  int64_t born_ns = 0;   // Since 1970.
  int64_t lost_at = 0;   // A flush failed then, in seconds since 1970; 0: none.
  int32_t lost_for = 0;  // With this errno.
};

// Text of one length, whatever it says, so that it can be written over in place
// where no space is left.
inline constexpr size_t kMediumRecordBytes = 160;
std::string EncodeMediumRecord(const MediumRecord& record);
// Nothing, if the text is not such a record.
std::optional<MediumRecord> DecodeMediumRecord(absl::string_view text);

// 128 random bits, as an identity.
std::string MakeMediumIdentity();
// Of a name that is unique in the world already, such as a device's WWID: the
// same everywhere.
std::string MediumIdentityOf(absl::string_view name);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_MEDIUM_RECORD_H_
