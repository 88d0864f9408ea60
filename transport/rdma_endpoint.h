#ifndef SKIFF_TRANSPORT_RDMA_ENDPOINT_H_
#define SKIFF_TRANSPORT_RDMA_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/capabilities.h"
#include "transport/memory.h"

namespace skiff::transport {

// The caller's name for an operation: an index and a generation, so that a late
// completion can never hit a slot that was used again.
struct OperationId {
  uint32_t index = 0;
  uint32_t generation = 0;
  friend bool operator==(OperationId a, OperationId b) {
    return a.index == b.index && a.generation == b.generation;
  }
};

// What was posted.
enum class OperationKind : uint8_t {
  kSend,
  kReceive,
  kRead,
  kWrite,
  kBind,
  kInvalidate,
};

// How an operation ended.
enum class CompletionStatus : uint8_t {
  kOk,
  kFlushed,         // The connection ended before the operation ran.
  kLocalError,      // Our own buffer, length or access was wrong.
  kRemoteAccess,    // The peer refused the key, the bounds or the permission.
  kRemoteNotReady,  // Retries for a missing RECEIVE ran out.
  kTooLong,         // The message did not fit the posted RECEIVE.
  kTransportError,  // Retries ran out, link lost, provider failure.
};

// How much is broken after a failed completion.
enum class DamageScope : uint8_t { kNone, kOperation, kConnection, kDevice };

// The end of one operation.
struct Completion {
  class RdmaEndpoint* endpoint = nullptr;
  OperationId id;
  OperationKind kind = OperationKind::kSend;
  CompletionStatus status = CompletionStatus::kOk;
  DamageScope scope = DamageScope::kNone;
  int32_t provider_code = 0;  // The provider's own code, for the log.
  uint32_t bytes = 0;         // Received bytes; kReceive only.
  bool invalidated = false;   // The peer's SEND invalidated `invalidated_key`.
  RemoteKey invalidated_key;
};

// A piece of registered local memory.
struct Sge {
  void* data = nullptr;
  size_t length = 0;
  const MemoryRegion* region = nullptr;
};

// What became of a post.
enum class PostResult : uint8_t {
  kAccepted,    // Exactly one completion will follow.
  kWouldBlock,  // A queue or the read depth is full; nothing was posted.
  kClosed,      // The connection is gone; nothing was posted.
};

// A place in the peer's memory, as the peer has told it.
struct RemoteBuffer {
  uint64_t address = 0;
  RemoteKey key;
};

// Where completions of any number of endpoints of one reactor arrive. Not
// thread-safe.
class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  // Takes up to `out.size()` completions. Completions of one queue pair
  // direction come in posting order. With an empty `out`, it says no more than
  // that somebody will poll soon: the queue need not work for its peers by
  // itself.
  virtual int Poll(absl::Span<Completion> out) = 0;
  // Asks for fd() to become readable at the next completion. Returns false when
  // completions are waiting already: poll again instead of sleeping.
  virtual bool Arm() = 0;
  // Call when fd() was readable, before polling.
  virtual void Disarm() = 0;
  // Readable after Arm(). Owned by the queue; for Reactor::WatchFd.
  virtual int fd() const = 0;
  // The reactor is kept awake to look at the queue for the time being: to poll
  // in every turn costs less than to wait for fd().
  virtual bool keeps_awake() const { return false; }
};

// Receives that many endpoints share; a message takes the oldest. Their
// completions arrive in the endpoints' completion queue with the endpoint that
// received; what is left when the queue is destroyed completes as kFlushed with
// a null `endpoint`. Not thread-safe.
class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  // As RdmaEndpoint::PostReceive.
  virtual PostResult PostReceive(OperationId id, absl::Span<const Sge> to) = 0;
  // Hands posts to the device. Transports that batch may hold posts back until
  // then.
  virtual void Flush() = 0;
};

// A connected, reliable message endpoint with one-sided operations, in the
// terms of InfiniBand verbs. Belongs to one reactor; not thread-safe.
//
// Every accepted post gets exactly one completion through the completion queue,
// never from inside the post: also when the peer dies, the link is lost, or the
// endpoint is closed. Buffers named by a post belong to the endpoint until
// then.
class RdmaEndpoint {
 public:
  virtual ~RdmaEndpoint() = default;

  // What the connection has: at most what its device can do.
  virtual const Capabilities& capabilities() const = 0;
  // Where its memory is registered. Lives at least as long as the endpoint.
  virtual MemoryDomain* domain() = 0;
  // Its own, or that of EndpointResources. Valid while the endpoint lives.
  virtual CompletionQueue* completion_queue() = 0;

  // kClosed on an endpoint with a shared receive queue: post there.
  virtual PostResult PostReceive(OperationId id, absl::Span<const Sge> to) = 0;
  // Messages of at most capabilities().max_inline_bytes may lie in memory that
  // is not registered (a null Sge::region); it is free again when the post
  // returns.
  virtual PostResult PostSend(OperationId id, absl::Span<const Sge> from) = 0;
  // As PostSend; the peer's key is invalidated when the message is delivered.
  // Only where capabilities().send_with_invalidate.
  virtual PostResult PostSendWithInvalidate(OperationId id,
                                            absl::Span<const Sge> from,
                                            RemoteKey key) = 0;
  // Reads from the peer's memory into ours. `to` has at most
  // capabilities().max_read_sges entries.
  virtual PostResult PostRead(OperationId id, absl::Span<const Sge> to,
                              RemoteBuffer from) = 0;
  // Writes our memory into the peer's. The completion says that ours is free
  // again, not that the peer has looked.
  virtual PostResult PostWrite(OperationId id, absl::Span<const Sge> from,
                               RemoteBuffer to) = 0;
  // Lets the peer use `length` bytes of `region` from `offset` on under a new
  // key, window->remote_key(), until it is invalidated. Operations posted later
  // on this endpoint come after it. `region` must be registered for at least
  // `access` and outlive the binding. kClosed where there are no windows.
  virtual PostResult PostBind(OperationId id, MemoryWindow* window,
                              const MemoryRegion* region, size_t offset,
                              size_t length, Access access);
  // Takes `key`, one that a bind on this endpoint gave, out of use. Not for a
  // key that the peer's SEND may take out of use meanwhile: what devices make
  // of the second invalidation differs, and Soft-RoCE's ends in a kernel oops.
  // Destroying the window does for such a key.
  virtual PostResult PostInvalidate(OperationId id, RemoteKey key);
  // Hands posts to the device. Transports that batch may hold posts back until
  // then.
  virtual void Flush() = 0;

  // Ends the connection; outstanding operations complete as kFlushed, those of
  // a shared receive queue stay in it. The endpoint may be destroyed once every
  // completion was polled; destroying it earlier delivers the rest with a null
  // `endpoint`.
  virtual void Disconnect() = 0;
  // False once the connection has ended, whoever ended it.
  virtual bool connected() const = 0;
  // Why the connection ended; OK while it lives.
  virtual absl::Status error() const = 0;

  // What the peer gave to its Connect or Accept. Valid while the endpoint
  // lives. Fabrics may pad it with zeros (rdma_accept(3)).
  virtual absl::Span<const uint8_t> peer_private_data() const { return {}; }

  // Of the transport that made it, as in its addresses: "verbs".
  virtual absl::string_view scheme() const = 0;
  // Numeric `host:port` forms, for logs and portal choice.
  virtual std::string local_address() const = 0;
  // The other end's.
  virtual std::string peer_address() const = 0;
  // For people: what carries the connection, "rxe0 port 1, MTU 1024, RoCE v2
  // GID ::ffff:10.0.0.1 (index 1)". Empty where there is nothing to say.
  virtual std::string path() const { return {}; }
  // For people: why READs that this end posts are slower than they could be,
  // and what would help. Empty where they are not.
  virtual std::string slow_reads() const { return {}; }
};

inline PostResult RdmaEndpoint::PostBind(OperationId, MemoryWindow*,
                                         const MemoryRegion*, size_t, size_t,
                                         Access) {
  return PostResult::kClosed;
}
inline PostResult RdmaEndpoint::PostInvalidate(OperationId, RemoteKey) {
  return PostResult::kClosed;
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_RDMA_ENDPOINT_H_
