#ifndef SKIFF_TRANSPORT_TRACE_PCAPNG_FORMAT_H_
#define SKIFF_TRANSPORT_TRACE_PCAPNG_FORMAT_H_

#include <cstddef>
#include <cstdint>

// Numbers of draft-ietf-opsawg-pcapng that writer and reader share.

namespace skiff::transport {

inline constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
inline constexpr uint32_t kInterfaceDescriptionBlock = 1;
inline constexpr uint32_t kEnhancedPacketBlock = 6;
inline constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
// A block's type and its length before its body, and the length again after it.
inline constexpr size_t kBlockFrame = 12;
inline constexpr uint16_t kLinkTypeRaw = 101;  // IPv4 or IPv6.
inline constexpr uint16_t kOptionEnd = 0;
inline constexpr uint16_t kOptionComment = 1;
inline constexpr uint16_t kOptionTimestampResolution = 9;
inline constexpr uint8_t kIpProtocolTcp = 6;
inline constexpr size_t kTcpHeader = 20;

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TRACE_PCAPNG_FORMAT_H_
