#ifndef SKIFF_SCSI_LUN_H_
#define SKIFF_SCSI_LUN_H_

#include <cstdint>
#include <optional>

namespace skiff::scsi {

// LUNs as SAM-5 section 4.7 encodes them: eight bytes, here as one big-endian
// number.

inline constexpr uint64_t kReportLunsWellKnownLun = 0xc101000000000000;

// Single-level LUNs: peripheral device addressing (bus 0) or flat space
// addressing. Nothing for any other.
inline std::optional<uint64_t> DecodeLun(uint64_t lun) {
  if ((lun & 0x0000ffffffffffff) != 0) return std::nullopt;
  const uint16_t first_level = static_cast<uint16_t>(lun >> 48);
  if (first_level <= 0x00ff) return first_level;
  if ((first_level & 0xc000) == 0x4000) return first_level & 0x3fff;
  return std::nullopt;
}

inline uint64_t EncodeLun(uint64_t number) {
  return (number <= 0xff ? number : number | 0x4000) << 48;
}

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_LUN_H_
