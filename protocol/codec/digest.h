#ifndef SKIFF_PROTOCOL_CODEC_DIGEST_H_
#define SKIFF_PROTOCOL_CODEC_DIGEST_H_

#include <cstddef>
#include <cstdint>

namespace skiff::protocol {

// CRC32C as iSCSI's digests use it (RFC 7143 section 13.1). Start with
// kDigestInit, extend over the pieces, finish, and store with StoreDigest.
inline constexpr uint32_t kDigestInit = 0xffffffffu;
uint32_t ExtendDigest(uint32_t state, const void* data, size_t size);
inline uint32_t FinishDigest(uint32_t state) { return ~state; }

inline constexpr size_t kDigestSize = 4;
// The digest's bytes as they travel (least significant byte first,
// section 13.1).
void StoreDigest(uint32_t digest, uint8_t* out);
uint32_t LoadDigest(const uint8_t* in);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_DIGEST_H_
