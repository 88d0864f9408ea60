#include "protocol/codec/digest.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace skiff::protocol {

uint32_t ExtendDigest(uint32_t state, const void* data, size_t size) {
  // ISA-L's crc32_iscsi carries the raw, reflected register: it neither
  // complements its seed nor its result, so pieces chain. Its length is an int,
  // and it takes, but never writes through, a pointer to non-const.
  auto* bytes =
      const_cast<unsigned char*>(static_cast<const unsigned char*>(data));
  while (size > 0) {
    const int chunk = static_cast<int>(
        std::min<size_t>(size, std::numeric_limits<int>::max()));
    state = crc32_iscsi(bytes, chunk, state);
    bytes += chunk;
    size -= static_cast<size_t>(chunk);
  }
  return state;
}

// The polynomial's x**31 coefficient travels as bit 7 of the first byte. The
// reflected register has it in bit 0, so the least significant byte goes first.
void StoreDigest(uint32_t digest, uint8_t* out) {
  out[0] = static_cast<uint8_t>(digest);
  out[1] = static_cast<uint8_t>(digest >> 8);
  out[2] = static_cast<uint8_t>(digest >> 16);
  out[3] = static_cast<uint8_t>(digest >> 24);
}

uint32_t LoadDigest(const uint8_t* in) {
  return static_cast<uint32_t>(in[0]) | static_cast<uint32_t>(in[1]) << 8 |
         static_cast<uint32_t>(in[2]) << 16 |
         static_cast<uint32_t>(in[3]) << 24;
}

}  // namespace skiff::protocol
