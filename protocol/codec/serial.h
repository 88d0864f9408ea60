#ifndef SKIFF_PROTOCOL_CODEC_SERIAL_H_
#define SKIFF_PROTOCOL_CODEC_SERIAL_H_

#include <cstdint>

// Serial number arithmetic of RFC 1982 with SERIAL_BITS = 32, which RFC 7143
// section 4.2.2 prescribes for CmdSN, StatSN and DataSN. Two numbers exactly
// 2^31 apart have no order: neither is less than the other.

namespace skiff::protocol {

inline constexpr uint32_t kSerialHalf = 0x80000000u;

// How many steps lead from `from` to `to`; negative when `to` is behind.
inline constexpr int32_t SerialDistance(uint32_t from, uint32_t to) {
  return static_cast<int32_t>(to - from);
}

inline constexpr bool SerialLess(uint32_t a, uint32_t b) {
  return a != b && b - a < kSerialHalf;
}
inline constexpr bool SerialLessEqual(uint32_t a, uint32_t b) {
  return b - a < kSerialHalf;
}
inline constexpr bool SerialGreater(uint32_t a, uint32_t b) {
  return SerialLess(b, a);
}
inline constexpr bool SerialGreaterEqual(uint32_t a, uint32_t b) {
  return SerialLessEqual(b, a);
}

// first <= value <= last, in a window that may wrap.
inline constexpr bool SerialInWindow(uint32_t value, uint32_t first,
                                     uint32_t last) {
  return SerialLessEqual(first, value) && SerialLessEqual(value, last);
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_SERIAL_H_
