#ifndef SKIFF_TRANSPORT_TRANSPORT_H_
#define SKIFF_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/address.h"
#include "transport/byte_stream.h"
#include "transport/capabilities.h"
#include "transport/rdma_endpoint.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// A connection is one of the two endpoint kinds.
using Endpoint =
    std::variant<std::unique_ptr<ByteStream>, std::unique_ptr<RdmaEndpoint>>;
// Which of the two: a byte stream, or RDMA.
enum class EndpointKind : uint8_t { kByteStream, kRdma };

// What an RDMA endpoint is built from. Null: it makes one of its own.
struct EndpointResources {
  CompletionQueue* completion_queue = nullptr;
  SharedReceiveQueue* shared_receive_queue = nullptr;
  // In place of ConnectOptions::receive_queue, for those to whom the device
  // matters; 0: as said there.
  uint32_t receive_queue = 0;
};

// What a connection is made with. Transports copy what they need longer.
struct ConnectOptions {
  absl::Duration timeout = absl::Seconds(10);
  std::vector<uint8_t> private_data;  // RDMA only.
  uint32_t read_depth = 16;  // Outstanding READs wished for, both ways.

  // RDMA: what the endpoint must have room for. Connecting fails, naming the
  // limit, where the device has less.
  uint32_t send_queue = 256;     // Sends, reads, writes, binds outstanding.
  uint32_t receive_queue = 256;  // Unless the receive queue is shared.
  uint32_t max_sges = 4;         // Reads: at most Capabilities::max_read_sges.
  uint32_t inline_bytes = 128;   // Wished for; the endpoint says what it got.

  // RDMA, all on the endpoint's reactor. `resources` is asked once the device
  // is known. `prepare` gets the endpoint before the peer can send to it: the
  // place to post receives (iWARP breaks a connection whose message finds
  // none) and to register memory whose keys go into private data. Then
  // `private_data_of` is asked, if there is one, what is said in place of
  // `private_data`, by those to whom the device matters. An error of
  // `resources` or `prepare` ends the attempt with it. `on_disconnect` runs
  // once when the connection has ended, whoever ended it, never from inside a
  // call of the endpoint; completions may still wait. It does not run once the
  // endpoint is destroyed.
  std::function<absl::StatusOr<EndpointResources>(MemoryDomain&)> resources;
  std::function<absl::Status(RdmaEndpoint&)> prepare;
  std::function<std::vector<uint8_t>(RdmaEndpoint&)> private_data_of;
  std::function<void(RdmaEndpoint&)> on_disconnect;

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

// How to listen.
struct ListenOptions {
  int backlog = 1024;
  // Runs on the listener's reactor when listening has ended by itself: the
  // device went away. Nothing comes any more.
  std::function<void(absl::Status)> on_failure;
  // auto:// and PersistentListener: how often to try to listen again where
  // listening has ended by itself. Zero: never.
  absl::Duration retry_interval = absl::ZeroDuration();
  // Of the same: why listening has ended, in part perhaps, or cannot be
  // resumed, each reason once; OK when it goes on. On the listener's reactor;
  // may not destroy it.
  std::function<void(absl::Status)> on_change;
  // Connections that want to come cannot be taken for now, and wait: the
  // descriptors have run out, for example. Says what to do about it, every now
  // and then while that lasts. On the listener's reactor; may not destroy it.
  std::function<void(absl::Status)> on_trouble;
  // Asked where a transport is about to bind a socket: the descriptor that
  // Listener::ReleaseDescriptors() gave for this address, perhaps in another
  // process; -1: none. The transport takes it over, and who has connected to it
  // meanwhile is waiting there. Not asked by transports that can't.
  std::function<int(const Address&)> inherited;
};

// A socket that listens, and where.
struct ListeningDescriptor {
  Address address;
  int descriptor = -1;
};

// A peer that wants to connect. Answer with Accept or Reject; destroying it
// unanswered rejects. Lives on the listener's reactor.
class ConnectionRequest {
 public:
  virtual ~ConnectionRequest() = default;
  // Numeric `host:port` forms, for logs and limits.
  virtual std::string local_address() const = 0;
  // Numeric `host:port` of who asks.
  virtual std::string peer_address() const = 0;
  // What the peer gave to its Connect; valid until the request is answered.
  // Empty for byte streams.
  virtual absl::Span<const uint8_t> private_data() const = 0;
  // Accepts onto `home` (may be another reactor than the listener's). `done`
  // runs once on `home`'s thread. Byte streams cannot fail here except by
  // closing.
  virtual void Accept(
      Reactor* home, const AcceptOptions& options,
      absl::AnyInvocable<void(absl::StatusOr<Endpoint>)> done) = 0;
  // The peer's Connect fails, with `private_data` where the fabric has any
  // (kRejectPrivateData).
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
  // Of those that take connections of several transports (auto://): where each
  // of these listens, by its own scheme.
  virtual std::vector<Address> addresses() const { return {address()}; }
  // Gives up its sockets without closing them, so that another process goes on
  // with them (ListenOptions::inherited): the descriptors are the caller's.
  // Those of transports that can't are not among them, and stay as they are.
  // Nothing more comes by the others.
  virtual std::vector<ListeningDescriptor> ReleaseDescriptors() { return {}; }
};

// A connect in progress. Destroying it cancels; `done` then never runs. `done`
// may destroy the attempt that it is called by.
class ConnectAttempt {
 public:
  virtual ~ConnectAttempt() = default;
};

// One device or interface that a transport can use, or why it can't.
struct DeviceReport {
  std::string name;
  std::string detail;  // Link state, MTU, addresses: one readable line.
  bool usable = false;
  std::string problem;  // When unusable: why, and what to do about it.
  Capabilities capabilities;

  // The same as `detail`, for programs, as far as it is known.
  std::string kind;                    // "InfiniBand", "RoCE", "iWARP", "tcp".
  std::string link;                    // "up", or what is wrong with it.
  uint32_t mtu = 0;                    // Bytes; 0: unknown.
  std::vector<std::string> addresses;  // IP addresses or GIDs.

  // The options of an address that make the transport use this device and its
  // like; empty when the address alone chooses.
  std::map<std::string, std::string> address_options;
  // One-sided operations that software makes out of plain sockets: they work
  // everywhere, and gain nothing over TCP.
  bool emulated = false;
  // The kernel's RDMA device behind it, such as "mlx5_0"; empty: none.
  std::string rdma_device;
  // It reaches the same peers by the same ports as that device does by verbs,
  // only through more layers. auto:// leaves it out where another transport
  // has the device itself, whether that can be used or not.
  bool layered = false;
  // Why auto:// leaves it out although it is usable; empty: it does not.
  std::string not_for_auto;
};

// Runs on the listener's reactor for each peer.
using AcceptCallback =
    absl::AnyInvocable<void(std::unique_ptr<ConnectionRequest>)>;
// Runs once, on the connecting reactor. An error says what to do about it.
using ConnectCallback = absl::AnyInvocable<void(absl::StatusOr<Endpoint>)>;

// A way to reach peers: tcp, verbs, libfabric, sim, or an embedder's own.
// Stateless and thread-safe; what it creates belongs to the given reactor.
class Transport {
 public:
  virtual ~Transport() = default;

  // What addresses of this transport begin with; valid for its life.
  virtual absl::string_view scheme() const = 0;
  // What its devices can have at best; each endpoint says what it has.
  virtual Capabilities capabilities() const = 0;
  // Looks at the machine now.
  virtual std::vector<DeviceReport> Devices() const = 0;
  // Whether an address of this scheme makes sense as it is written, its options
  // above all: what Listen and Connect would refuse without looking at the
  // machine or the network.
  virtual absl::Status CheckAddress(const Address& address) const {
    (void)address;
    return absl::OkStatus();
  }

  // For transports that take RDMA where it can be had, and byte streams
  // otherwise: the same address for one of the two only. By this, whoever got a
  // byte stream finds out later whether RDMA can be had by now, and whoever got
  // RDMA that does not work gets a byte stream. Empty elsewhere.
  virtual std::optional<Address> Only(const Address& address,
                                      EndpointKind kind) const {
    (void)address, (void)kind;
    return std::nullopt;
  }

  // `on_request` runs on the reactor's thread, never from inside this call.
  // Errors name the address and what is wrong.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(
      Reactor* reactor, const Address& address, const ListenOptions& options,
      AcceptCallback on_request) = 0;
  // `done` runs once, on the reactor's thread, never from inside this call.
  virtual absl::StatusOr<std::unique_ptr<ConnectAttempt>> Connect(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done) = 0;
  // A byte stream of a descriptor that ByteStream::ReleaseDescriptor() of this
  // transport gave, perhaps in another process. It takes the descriptor over,
  // also where it fails. `unread` is read first: what had been received
  // already. On the reactor's thread, or while it is not running.
  virtual absl::StatusOr<std::unique_ptr<ByteStream>> Adopt(Reactor* reactor,
                                                            int descriptor,
                                                            std::string unread);
};

// For transports: what no transport can connect to, or listen with.
absl::Status CheckConnect(const Address& address,
                          const ConnectOptions& options);
// The same for Listen().
absl::Status CheckListen(const Address& address, const ListenOptions& options);
// For transports, of the device that an RDMA endpoint is about to be made with:
// asks `resources`, and puts the length of the receive queue into the options.
absl::StatusOr<EndpointResources> ResourcesOf(MemoryDomain& domain,
                                              ConnectOptions* options);
// For transports, of an endpoint that is about to be connected: lets the caller
// prepare it. Returns the private data to be sent.
absl::StatusOr<std::vector<uint8_t>> PrepareEndpoint(
    RdmaEndpoint& endpoint, const ConnectOptions& options);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TRANSPORT_H_
