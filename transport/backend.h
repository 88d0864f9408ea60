#ifndef SKIFF_TRANSPORT_BACKEND_H_
#define SKIFF_TRANSPORT_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/address.h"
#include "transport/byte_stream.h"
#include "transport/capabilities.h"
#include "transport/rdma_endpoint.h"
#include "transport/reactor.h"

namespace skiff::transport {

// A connection is one of the two endpoint kinds.
using Endpoint =
    std::variant<std::unique_ptr<ByteStream>, std::unique_ptr<RdmaEndpoint>>;

struct ConnectOptions {
  absl::Duration timeout = absl::Seconds(10);
  std::vector<uint8_t> private_data;  // RDMA only.
  uint32_t read_depth = 16;  // Outstanding READs wished for, both ways.
  CompletionQueue* completion_queue = nullptr;  // RDMA; null: one of its own.
  // Byte streams: probe a silent peer after `keepalive_idle`, give up after
  // `keepalive_probes` probes `keepalive_interval` apart, and drop a connection
  // whose sent data stays unacknowledged for `user_timeout`. Zero turns each
  // off.
  absl::Duration keepalive_idle = absl::Seconds(30);
  absl::Duration keepalive_interval = absl::Seconds(5);
  int keepalive_probes = 3;
  absl::Duration user_timeout = absl::Seconds(30);
};

struct AcceptOptions : ConnectOptions {};

struct ListenOptions {
  int backlog = 1024;
};

// A peer that wants to connect. Answer with Accept or Reject; destroying it
// unanswered rejects. Lives on the listener's reactor.
class ConnectionRequest {
 public:
  virtual ~ConnectionRequest() = default;
  virtual std::string local_address() const = 0;
  virtual std::string peer_address() const = 0;
  virtual absl::Span<const uint8_t> private_data() const = 0;
  // Accepts onto `home` (may be another reactor than the listener's). `done`
  // runs once on `home`'s thread. Byte streams cannot fail here except by
  // closing.
  virtual void Accept(
      Reactor* home, const AcceptOptions& options,
      absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) = 0;
  virtual void Reject(absl::Span<const uint8_t> private_data) = 0;
};

// The status of a Connect that the peer rejected carries the peer's private
// data as a payload under this name (absl::Status::GetPayload), where the
// fabric has any.
inline constexpr char kRejectPrivateData[] =
    "skiff.transport/reject-private-data";

// Listens until destroyed. Connections that nobody accepted are then rejected.
class Listener {
 public:
  virtual ~Listener() = default;
  // The address with the port that was really bound.
  virtual Address address() const = 0;
};

// A connect in progress. Destroying it cancels; `done` then never runs.
class ConnectAttempt {
 public:
  virtual ~ConnectAttempt() = default;
};

// One device or interface that a backend can use, or why it can't.
struct DeviceReport {
  std::string name;
  std::string detail;  // Link state, MTU, addresses: one readable line.
  bool usable = false;
  std::string problem;  // When unusable: why, and what to do about it.
  Capabilities capabilities;
};

using AcceptCallback =
    absl::AnyInvocable<void(std::unique_ptr<ConnectionRequest>)>;
using ConnectCallback = absl::AnyInvocable<void(absl::StatusOr<Endpoint>)>;

// A way to reach peers: tcp, verbs, libfabric, sim, or an embedder's own.
// Stateless and thread-safe; what it creates belongs to the given reactor.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::string_view scheme() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Looks at the machine now.
  virtual std::vector<DeviceReport> Devices() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) = 0;
  // `done` runs once, on the reactor's thread, never from inside this call.
  virtual absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_BACKEND_H_
