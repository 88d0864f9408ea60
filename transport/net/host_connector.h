#ifndef SKIFF_TRANSPORT_NET_HOST_CONNECTOR_H_
#define SKIFF_TRANSPORT_NET_HOST_CONNECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/net/connector.h"
#include "transport/net/resolver.h"
#include "transport/net/socket_address.h"

namespace skiff::transport {

// Connects to the first address of a host that answers. They are tried in
// order, each with its share of the time that is left, so that one that
// swallows packets does not use up the others' chance. How one address is
// tried, a transport says.
class HostConnector : public Connector {
 protected:
  // Whether a failure is that of one address, or would be any other's, too.
  enum class Concerns : uint8_t { kThisAddress, kAll };

  // `doubts`: what a person is to check where an address does not answer.
  HostConnector(Reactor* reactor, Address address, ConnectOptions options,
                ConnectCallback done, const char* doubts);

  // Looks the name up, and goes on from there. If it fails, nothing is told.
  absl::Status Start();

  // Begins with an address. If that is OK, Finish() or FailOne() follows, not
  // from inside the call.
  virtual absl::Status StartOne(const SocketAddress& candidate) = 0;
  // Frees what is left of an address that failed, at whatever point.
  virtual void DropOne() = 0;
  // The address that was begun with is no good. Last, as Finish() is.
  void FailOne(const absl::Status& why,
               Concerns concerns = Concerns::kThisAddress);

 private:
  void OnTimer() final;
  void OnResolved(absl::StatusOr<std::vector<SocketAddress>> resolved);
  void TryNext();
  absl::Status Summary() const;

  const char* const doubts_;
  std::unique_ptr<NameLookup> lookup_;
  std::vector<SocketAddress> candidates_;
  size_t next_ = 0;                     // The candidate to try next.
  std::vector<absl::Status> failures_;  // One per candidate tried.
  bool trying_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_HOST_CONNECTOR_H_
