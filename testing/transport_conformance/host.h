#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_HOST_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_HOST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/capabilities.h"
#include "transport/memory.h"
#include "transport/rdma_endpoint.h"
#include "transport/transport.h"

namespace skiff::testing {

// The vocabulary of the tests: one side of every connection of a test. All that
// is exchanged are plain values, so a host can as well be another machine.
//
// A host checks by itself, at every completion, what holds in every test: one
// completion for each accepted post, in the order of posting, with the endpoint
// that it belongs to; and guard patterns around all memory. Violations() says
// what went wrong.

// How one end of a connection is made.
struct EndPlan {
  std::string private_data;
  // What private_data_of() returns; empty: it is not asked.
  std::string private_data_when_prepared;
  absl::Duration timeout = absl::Seconds(10);
  uint32_t read_depth = 16;
  uint32_t send_queue = 64;
  uint32_t receive_queue = 64;
  uint32_t max_sges = 4;
  uint32_t inline_bytes = 64;
  // RECEIVEs that are posted before the connection opens: their number and
  // size. The first `receives` operations of the end are theirs.
  uint32_t receives = 0;
  size_t receive_bytes = 0;
  // What resources() says of the receive queue; 0: nothing.
  uint32_t receive_queue_of_device = 0;
  int queue = -1;               // NewQueue(); -1: a queue of its own.
  bool share_receives = false;  // Those of that queue.
  // What prepare() returns, if it is to fail.
  std::string prepare_error;
};

enum class Answer : uint8_t {
  kAccept,
  kReject,
  kIgnore,  // The request is kept, unanswered.
  kDrop,    // The request is destroyed, unanswered.
  kAcceptOnOtherReactor,
};

struct ListenPlan {
  Answer answer = Answer::kAccept;
  EndPlan accept;
  std::string reject_private_data;
  int backlog = 1024;
};

enum class EndPhase : uint8_t { kConnecting, kOpen, kFailed };

struct EndState {
  EndPhase phase = EndPhase::kConnecting;
  absl::Status status;  // Why it failed.
  bool connected = false;
  absl::Status error;
  int disconnects = 0;  // Calls of on_disconnect.
  std::string peer_private_data;
  std::string local_address;
  std::string peer_address;
  std::string scheme;
  transport::Capabilities capabilities;
  size_t outstanding = 0;   // Accepted posts without a completion.
  int receive_buffer = -1;  // Of EndPlan::receives, one after the other.
};

struct ListenerState {
  std::vector<int> ends;  // In the order of their requests.
  // Of the requests.
  std::vector<std::string> private_data;
  std::vector<std::string> local_addresses;
  std::vector<std::string> peer_addresses;
  absl::Status failure;
};

struct BufferSpec {
  size_t size = 0;
  transport::Access access = transport::Access::kLocal;
  bool registered = true;
  size_t misalignment = 0;  // Of the first byte, from a page boundary.
};

// The seed of what new buffers contain.
inline constexpr uint64_t kUntouched = 0xdead;

// A part of a buffer.
struct Piece {
  int buffer = -1;
  size_t offset = 0;
  size_t length = 0;
  bool unregistered = false;  // Post it with a null region.
};

struct Operation {
  transport::OperationKind kind = transport::OperationKind::kSend;
  std::vector<Piece> pieces;
  transport::RemoteBuffer remote;  // READ and WRITE.
  bool invalidate = false;         // SEND with `key`.
  transport::RemoteKey key;        // Also of an invalidate.
  int window = -1;                 // Of a bind, with one piece and `access`.
  transport::Access access = transport::Access::kLocal;
};

struct Posted {
  transport::PostResult result = transport::PostResult::kClosed;
  uint32_t id = 0;  // Of the end, counted from 0; valid if accepted.
};

// A completion without its pointers.
struct Arrived {
  uint32_t id = 0;
  transport::OperationKind kind = transport::OperationKind::kSend;
  transport::CompletionStatus status = transport::CompletionStatus::kOk;
  transport::DamageScope scope = transport::DamageScope::kNone;
  uint32_t bytes = 0;
  bool invalidated = false;
  uint64_t invalidated_key = 0;
  bool orphan = false;  // It came with a null endpoint.
  bool shared = false;  // `id` is one of PostShared().
};

class ConformanceHost {
 public:
  virtual ~ConformanceHost() = default;

  // Connections. Handles count up from 0 and are never used again.
  virtual absl::StatusOr<int> Listen(const ListenPlan& plan) = 0;
  virtual std::string ListenAddress(int listener) = 0;
  virtual std::vector<std::string> ListenAddresses(int listener) = 0;
  virtual ListenerState StateOfListener(int listener) = 0;
  virtual void CloseListener(int listener) = 0;
  virtual int Connect(const std::string& address, const EndPlan& plan) = 0;
  virtual void CancelConnect(int end) = 0;
  virtual EndState State(int end) = 0;
  // Of the end's device, before anything was negotiated.
  virtual transport::Capabilities DeviceCapabilities(int end) = 0;
  virtual void Disconnect(int end) = 0;
  virtual void Destroy(int end) = 0;
  // Of at least `entries`, with a shared receive queue of `receives` if that
  // is not 0. Made by the first end that uses it.
  virtual int NewQueue(uint32_t entries, uint32_t receives) = 0;

  // Memory, of the domain of an end.
  virtual absl::StatusOr<int> NewBuffer(int end, const BufferSpec& spec) = 0;
  virtual transport::RemoteBuffer Remote(int buffer) = 0;
  virtual void Deregister(int buffer) = 0;
  virtual void Fill(int buffer, size_t offset, size_t length,
                    uint64_t seed) = 0;
  // The first byte, counted from `offset`, that differs from the pattern that
  // Fill() makes of `seed`, of which `skip` bytes are left out; -1 if none
  // does.
  virtual int64_t Mismatch(int buffer, size_t offset, size_t length,
                           uint64_t seed, size_t skip) = 0;
  virtual absl::StatusOr<int> NewWindow(int end) = 0;
  virtual transport::RemoteKey KeyOfWindow(int window) = 0;
  virtual void DestroyWindow(int window) = 0;

  // Operations.
  virtual Posted Post(int end, const Operation& operation) = 0;
  // Of kind kReceive, on a shared receive queue.
  virtual Posted PostShared(int queue, const Operation& receive) = 0;
  virtual void Flush(int end) = 0;
  // Completions of that end that came since the last call; also once it is
  // destroyed, if its queue is shared.
  virtual std::vector<Arrived> Poll(int end) = 0;
  // The same for RECEIVEs of a shared receive queue that no end took.
  virtual std::vector<Arrived> PollShared(int queue) = 0;
  // Destroys the shared receive queue; ends keep theirs.
  virtual void DropSharedReceives(int queue) = 0;
  virtual bool Arm(int end) = 0;
  // Whether the queue's descriptor became readable since Arm().
  virtual bool Woken(int end) = 0;

  // What broke the contract so far, one sentence each; then forgets it.
  virtual std::vector<std::string> Violations() = 0;
  // Ends all, waits for what is outstanding, and checks the guards.
  virtual void Finish() = 0;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_HOST_H_
