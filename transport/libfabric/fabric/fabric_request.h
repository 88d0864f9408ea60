#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_REQUEST_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/libfabric/fabric/fabric_endpoint.h"
#include "transport/transport.h"

namespace skiff::transport {

// What is known of a peer that wants to connect, of either endpoint type. Moves
// to the reactor that accepts.
class PendingConnection {
 public:
  using Outcome =
      absl::AnyInvocable<void(absl::StatusOr<std::vector<uint8_t>>)>;

  virtual ~PendingConnection() = default;
  // Before it moves from the listener's reactor to another.
  virtual void LeaveReactor() {}
  // An endpoint on `home` that is about to be connected. `outcome` runs once,
  // unless the endpoint is destroyed first. The peer hears of an error.
  virtual absl::StatusOr<std::unique_ptr<FabricEndpoint>> Accept(
      Reactor* home, const AcceptOptions& options, Outcome outcome) = 0;
  // This side's address, once accepted.
  virtual std::string AcceptedAt() const = 0;
  virtual void Reject(absl::Span<const uint8_t> private_data) = 0;

  std::vector<uint8_t> private_data;
  std::string local_address;
  std::string peer_address;
};

// A connection request that nobody answered yet.
class OpenRequest {
 public:
  virtual ~OpenRequest() = default;
  virtual void OnListenerGone() = 0;
};
// Those of one listener, on its reactor.
using OpenRequests = std::vector<OpenRequest*>;

// A request for the user to answer. It is in `open` until then.
std::unique_ptr<ConnectionRequest> MakeFabricRequest(
    std::unique_ptr<PendingConnection> pending,
    std::shared_ptr<OpenRequests> open);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_REQUEST_H_
