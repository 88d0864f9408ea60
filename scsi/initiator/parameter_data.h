#ifndef SKIFF_SCSI_INITIATOR_PARAMETER_DATA_H_
#define SKIFF_SCSI_INITIATOR_PARAMETER_DATA_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace skiff::scsi {

// Parsers of the data that other commands than INQUIRY return. `data` is what
// arrived. None of the lengths inside is believed.

// SBC-3 sections 5.15 and 5.16.
struct Capacity {
  uint64_t block_count = 0;
  uint32_t block_size = 0;                 // Bytes; a power of two.
  uint32_t blocks_per_physical_block = 1;  // From here on (16) only.
  uint16_t lowest_aligned_lba = 0;
  bool protection = false;             // Formatted with protection.
  bool provisioning = false;           // LBPME: can be unmapped.
  bool unmapped_reads_zeroes = false;  // LBPRZ.
};
// `block_count` is 2^32 when the device has more than READ CAPACITY (10) can
// say.
absl::StatusOr<Capacity> ParseReadCapacity10(absl::Span<const uint8_t> data);
absl::StatusOr<Capacity> ParseReadCapacity16(absl::Span<const uint8_t> data);

// SPC-4 section 6.33.
struct LunList {
  std::vector<uint64_t> luns;  // As in Command::lun.
  // What the device wants to list, in bytes of data: ask again with that many
  // when `data` were shorter.
  uint32_t needed_bytes = 0;
};
absl::StatusOr<LunList> ParseReportLuns(absl::Span<const uint8_t> data);

// SPC-4 section 7.5: the header, and one page out of what follows.
struct ModeData {
  bool write_protected = false;  // Of a block device (SBC-3 section 6.4.1).
  bool dpo_fua = false;          // READ and WRITE may have DPO and FUA.
  // The first page with the code that was asked for, header included; empty if
  // it is not there.
  std::vector<uint8_t> page;
};
absl::StatusOr<ModeData> ParseModeSense6(absl::Span<const uint8_t> data,
                                         uint8_t page);
absl::StatusOr<ModeData> ParseModeSense10(absl::Span<const uint8_t> data,
                                          uint8_t page);
// The caching mode page (SBC-3 section 6.4.5).
inline constexpr uint8_t kCachingModePage = 0x08;
// WCE; true when the page does not tell.
bool WriteCacheEnabled(const ModeData& data);

// SBC-3 section 5.6.
struct LbaStatus {
  uint64_t lba = 0;
  uint32_t blocks = 0;
  uint8_t provisioning =
      0;  // 0: mapped or unknown, 1: deallocated, 2: anchored
};
absl::StatusOr<std::vector<LbaStatus>> ParseGetLbaStatus(
    absl::Span<const uint8_t> data);

// SPC-4 section 6.35.
struct SupportedCommand {
  uint8_t operation_code = 0;
  bool has_service_action = false;
  uint16_t service_action = 0;
  uint16_t cdb_length = 0;
};
absl::StatusOr<std::vector<SupportedCommand>> ParseSupportedOperationCodes(
    absl::Span<const uint8_t> data);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_PARAMETER_DATA_H_
