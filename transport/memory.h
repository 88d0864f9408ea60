#ifndef SKIFF_TRANSPORT_MEMORY_H_
#define SKIFF_TRANSPORT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/capabilities.h"

namespace skiff::transport {

class CompletionQueue;
class MemoryDomain;
class Reactor;
class SharedReceiveQueue;

// What a peer names memory by. 64 bits wide because some fabrics need it; a
// user that needs 32 bits (iSER's STag) checks Capabilities::remote_key_bits at
// start-up.
struct RemoteKey {
  uint64_t value = 0;
};

// What a peer may do with memory; a set.
enum class Access : uint32_t {
  kLocal = 0,
  kRemoteRead = 1u << 0,
  kRemoteWrite = 1u << 1,
};
inline constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<uint32_t>(a) |
                             static_cast<uint32_t>(b));
}
// Whether `bit` is in the set.
inline constexpr bool Has(Access set, Access bit) {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(bit)) != 0;
}

// A registered range of memory. RAII: destroying it deregisters. The memory
// itself belongs to the caller and must outlive the region; the region must
// outlive every operation posted on it. Operations of the peer end with the
// region, or with their endpoint where Capabilities::deregistration_ends_access
// is false: after both, nobody touches the memory.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  // Who registered it: by this, a transport knows its own.
  const MemoryDomain* domain() const { return domain_; }
  // Where it begins; the caller's memory.
  virtual void* data() const = 0;
  // In bytes.
  virtual size_t size() const = 0;
  // As it was registered.
  virtual Access access() const = 0;
  // By which the peer names it; of no use without remote access.
  virtual RemoteKey remote_key() const = 0;
  // The address by which the peer names the first byte (a virtual address, or 0
  // on fabrics that count from the region's start).
  virtual uint64_t remote_base() const = 0;

 protected:
  // The domain outlives the region.
  explicit MemoryRegion(const MemoryDomain* domain) : domain_(domain) {}

 private:
  const MemoryDomain* const domain_;
};

// A key without memory until RdmaEndpoint::PostBind gives it a part of a
// region; the peer's SEND with invalidate, or PostInvalidate, takes it away
// again. This is how user space on verbs devices gets keys that a peer can
// invalidate. Only where Capabilities::memory_windows. The window must outlive
// the operations posted on it; destroying it ends a binding.
class MemoryWindow {
 public:
  virtual ~MemoryWindow() = default;
  // The key of the newest accepted PostBind; it works once that bind completed.
  virtual RemoteKey remote_key() const = 0;
};

// One device as one process uses it: the scope in which registrations, queues
// and endpoints may meet (a verbs protection domain). Shared by every endpoint
// of that device and lives until the last object made from it is gone. Control
// path: calls may block; thread-safe.
class MemoryDomain {
 public:
  virtual ~MemoryDomain() = default;

  // What the device can do; an endpoint may have negotiated less.
  virtual const Capabilities& capabilities() const = 0;
  // For people: "rxe0 port 1", "libfabric tcp on lo".
  virtual std::string name() const = 0;
  // The device is gone for good; one that comes back is another domain. What
  // was made of this one is of no use any more, and its driver may wait until
  // all of it was destroyed.
  virtual bool removed() const { return false; }

  // Errors name the device, the size and the limit that was hit
  // (RLIMIT_MEMLOCK, the device's regions, keys that are too wide). An empty
  // range, or one at the null address, is an InvalidArgument.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(
      void* data, size_t size, Access access) = 0;

  // An unbound window. Unimplemented where there are none.
  virtual absl::StatusOr<std::unique_ptr<MemoryWindow>> AllocateWindow();

  // A queue for any number of this domain's endpoints on `reactor`. Each
  // endpoint takes its send_queue + receive_queue entries out of `entries`
  // (those of a shared receive queue are taken once); creating an endpoint
  // that does not fit fails with ResourceExhausted, so that a queue can never
  // overflow. Endpoints keep the queue alive.
  virtual absl::StatusOr<std::shared_ptr<CompletionQueue>>
  CreateCompletionQueue(Reactor* reactor, uint32_t entries);

  // Receives that any endpoint of the same completion queue may take.
  // Unimplemented where Capabilities::shared_receive_queue is false.
  virtual absl::StatusOr<std::shared_ptr<SharedReceiveQueue>>
  CreateSharedReceiveQueue(Reactor* reactor, uint32_t entries,
                           uint32_t max_sges);
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_MEMORY_H_
