#ifndef SKIFF_SCSI_INITIATOR_INQUIRY_DATA_H_
#define SKIFF_SCSI_INITIATOR_INQUIRY_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace skiff::scsi {

// Parsers of what INQUIRY returns (SPC-4 sections 6.6 and 7.8). `data` is what
// arrived. None of the lengths inside is believed; data that do not hold what
// they say, or too little to be of use, give an error. Text is cleaned: padding
// is cut, and what is not printable ASCII becomes '?'.

struct InquiryData {
  static constexpr uint8_t kNoLogicalUnit = 3;  // A peripheral qualifier.

  uint8_t peripheral_qualifier =
      0;                    // 0: a logical unit is there; 3: cannot be.
  uint8_t device_type = 0;  // 0: direct access block device.
  bool removable = false;
  uint8_t version = 0;  // 6: SPC-4.
  bool command_queuing = false;
  uint8_t target_port_group_support = 0;
  bool third_party_copy = false;
  std::string vendor;
  std::string product;
  std::string revision;
};
absl::StatusOr<InquiryData> ParseInquiry(absl::Span<const uint8_t> data);

// Vital product data pages.
inline constexpr uint8_t kVpdSupportedPages = 0x00;
inline constexpr uint8_t kVpdUnitSerialNumber = 0x80;
inline constexpr uint8_t kVpdDeviceIdentification = 0x83;
inline constexpr uint8_t kVpdBlockLimits = 0xb0;
inline constexpr uint8_t kVpdBlockDeviceCharacteristics = 0xb1;
inline constexpr uint8_t kVpdLogicalBlockProvisioning = 0xb2;

absl::StatusOr<std::vector<uint8_t>> ParseSupportedVpdPages(
    absl::Span<const uint8_t> data);
absl::StatusOr<std::string> ParseUnitSerialNumber(
    absl::Span<const uint8_t> data);

struct Designator {
  enum class Association : uint8_t { kLogicalUnit, kTargetPort, kTargetDevice };
  Association association = Association::kLogicalUnit;
  uint8_t code_set = 0;  // 1: binary, 2: ASCII, 3: UTF-8.
  // 1: T10 vendor id, 2: EUI-64, 3: NAA, 4: relative target port, 8: SCSI name.
  uint8_t type = 0;
  std::vector<uint8_t> value;

  // "naa.600140512345678", "eui.0123456789abcdef", "t10.SKIFF disk", a SCSI
  // name as it is, or "type 5: 0001" for the rest.
  std::string ToString() const;
};
absl::StatusOr<std::vector<Designator>> ParseDeviceIdentification(
    absl::Span<const uint8_t> data);
// The one that identifies the logical unit best (NAA, EUI-64, SCSI name, T10),
// or null.
const Designator* BestLogicalUnitDesignator(
    absl::Span<const Designator> designators);

// SBC-3 section 6.5.3. In logical blocks; 0 where the device does not say.
struct BlockLimits {
  bool write_same_non_zero = false;  // WSNZ: zero blocks are not allowed.
  uint8_t max_compare_and_write_length = 0;  // 0: not supported.
  uint16_t optimal_transfer_granularity = 0;
  uint32_t max_transfer_length = 0;
  uint32_t optimal_transfer_length = 0;
  uint32_t max_unmap_lba_count = 0;         // 0: not supported.
  uint32_t max_unmap_descriptor_count = 0;  // 0: not supported.
  uint32_t optimal_unmap_granularity = 0;
  uint32_t unmap_granularity_alignment = 0;
  uint64_t max_write_same_length = 0;
};
absl::StatusOr<BlockLimits> ParseBlockLimits(absl::Span<const uint8_t> data);

// SBC-3 section 6.5.2.
struct BlockDeviceCharacteristics {
  uint16_t rotation_rate = 0;  // 0: not reported, 1: does not rotate, else rpm.
};
absl::StatusOr<BlockDeviceCharacteristics> ParseBlockDeviceCharacteristics(
    absl::Span<const uint8_t> data);

// SBC-3 section 6.5.4.
struct LogicalBlockProvisioning {
  bool unmap = false;          // LBPU: UNMAP.
  bool write_same_16 = false;  // LBPWS: WRITE SAME (16) with UNMAP.
  bool write_same_10 = false;  // LBPWS10.
  uint8_t read_zeroes = 0;  // LBPRZ: nonzero: unmapped blocks read as zeroes.
  uint8_t type = 0;         // 1: resource provisioned, 2: thin.
};
absl::StatusOr<LogicalBlockProvisioning> ParseLogicalBlockProvisioning(
    absl::Span<const uint8_t> data);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_INQUIRY_DATA_H_
