#ifndef SKIFF_TRANSPORT_MEMORY_H_
#define SKIFF_TRANSPORT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace skiff::transport {

// What a peer names memory by. 64 bits wide because some fabrics need it; a
// user that needs 32 bits (iSER's STag) checks Capabilities::remote_key_bits at
// start-up.
struct RemoteKey {
  uint64_t value = 0;
};

enum class Access : uint32_t {
  kLocal = 0,
  kRemoteRead = 1u << 0,
  kRemoteWrite = 1u << 1,
};
inline constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<uint32_t>(a) |
                             static_cast<uint32_t>(b));
}
inline constexpr bool Has(Access set, Access bit) {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(bit)) != 0;
}

// A registered range of memory. RAII: destroying it deregisters. The memory
// itself belongs to the caller and must outlive the region; the region must
// outlive every operation posted on it.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  virtual void* data() const = 0;
  virtual size_t size() const = 0;
  virtual Access access() const = 0;
  virtual RemoteKey remote_key() const = 0;
  // The address by which the peer names the first byte (a virtual address, or 0
  // on fabrics that count from the region's start).
  virtual uint64_t remote_base() const = 0;
};

// The scope in which registrations and endpoints may meet (a verbs protection
// domain). Control path: may block; thread-safe.
class MemoryDomain {
 public:
  virtual ~MemoryDomain() = default;
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(
      void* data, size_t size, Access access) = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_MEMORY_H_
