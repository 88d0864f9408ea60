#ifndef SKIFF_PROTOCOL_CODEC_ENDIAN_H_
#define SKIFF_PROTOCOL_CODEC_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>

// Big-endian loads and stores at any alignment. Each compiles to one move and
// one byte swap.

namespace skiff::protocol {

static_assert(std::endian::native == std::endian::little ||
              std::endian::native == std::endian::big);

inline constexpr uint16_t BigEndian(uint16_t value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  return __builtin_bswap16(value);
}
inline constexpr uint32_t BigEndian(uint32_t value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  return __builtin_bswap32(value);
}
inline constexpr uint64_t BigEndian(uint64_t value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  return __builtin_bswap64(value);
}

template <typename T>
inline T LoadBigEndian(const uint8_t* in) {
  T value;
  std::memcpy(&value, in, sizeof(value));
  return BigEndian(value);
}
template <typename T>
inline void StoreBigEndian(T value, uint8_t* out) {
  value = BigEndian(value);
  std::memcpy(out, &value, sizeof(value));
}

inline uint16_t Load16(const uint8_t* in) {
  return LoadBigEndian<uint16_t>(in);
}
inline uint32_t Load32(const uint8_t* in) {
  return LoadBigEndian<uint32_t>(in);
}
inline uint64_t Load64(const uint8_t* in) {
  return LoadBigEndian<uint64_t>(in);
}
inline void Store16(uint16_t value, uint8_t* out) {
  StoreBigEndian(value, out);
}
inline void Store32(uint32_t value, uint8_t* out) {
  StoreBigEndian(value, out);
}
inline void Store64(uint64_t value, uint8_t* out) {
  StoreBigEndian(value, out);
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_ENDIAN_H_
