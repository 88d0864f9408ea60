#ifndef SKIFF_SCSI_LUN_H_
#define SKIFF_SCSI_LUN_H_

#include <cstdint>
#include <optional>

namespace skiff::scsi {

// LUNs as SAM-5 section 4.7 encodes them: eight bytes, here as one big-endian
// number.

inline constexpr uint64_t kReportLunsWellKnownLun = 0xc101000000000000;

// Single-level LUNs: peripheral device addressing or flat space addressing.
// Nothing for any other.
//
// The upper bits of peripheral device addressing would name a bus. libiscsi,
// QEMU and Linux's target put numbers above 255 there instead, and there is no
// second bus here that could be meant: both methods are the same 14 bits.
inline std::optional<uint64_t> DecodeLun(uint64_t lun) {
  constexpr uint16_t kPeripheralOrFlat = 0x7fff;
  if ((lun & 0x0000ffffffffffff) != 0) return std::nullopt;
  const uint16_t first_level = static_cast<uint16_t>(lun >> 48);
  if (first_level > kPeripheralOrFlat) return std::nullopt;
  return first_level & 0x3fff;
}

// Whether two LUNs are one, in whichever way they are written.
inline bool SameLun(uint64_t a, uint64_t b) {
  return a == b || (DecodeLun(a).has_value() && DecodeLun(a) == DecodeLun(b));
}

// As the standard has it: flat space addressing above 255.
inline uint64_t EncodeLun(uint64_t number) {
  return (number <= 0xff ? number : number | 0x4000) << 48;
}

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_LUN_H_
