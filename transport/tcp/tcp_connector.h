#ifndef SKIFF_TRANSPORT_TCP_TCP_CONNECTOR_H_
#define SKIFF_TRANSPORT_TCP_TCP_CONNECTOR_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/backend.h"
#include "transport/net/resolver.h"
#include "transport/net/scoped_fd.h"
#include "transport/net/socket_address.h"
#include "transport/reactor/reactor.h"
#include "transport/tcp/socket_options.h"

namespace skiff::transport {

// Connects to the first address of a host that answers. They are tried in
// order, each with its share of the time that is left, so that one that
// swallows packets does not use up the others' chance.
class TcpConnector final : public ConnectAttempt, private FdHandler {
 public:
  static absl::StatusOr<std::unique_ptr<TcpConnector>> Create(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      ConnectCallback done);
  ~TcpConnector() override;

 private:
  TcpConnector(Reactor* reactor, Address address,
               const TcpAddressOptions& tcp_options,
               const ConnectOptions& options, ConnectCallback done);

  void OnFdReady(uint32_t events) override;
  void OnTimer();
  void OnResolved(absl::StatusOr<std::vector<SocketAddress>> resolved);
  void TryNext();
  absl::Status StartOne(const SocketAddress& candidate);
  absl::Status CheckConnected() const;
  void Failed(const absl::Status& why);
  void Finish(absl::StatusOr<Endpoint> result);
  void DropSocket();
  absl::Status Summary() const;

  Reactor* const reactor_;
  const Address address_;
  const TcpAddressOptions tcp_options_;
  const ConnectOptions options_;
  ConnectCallback done_;
  const absl::Time deadline_;
  std::unique_ptr<NameLookup> lookup_;
  std::vector<SocketAddress> candidates_;
  size_t next_ = 0;                     // The candidate to try next.
  std::vector<absl::Status> failures_;  // One per candidate tried.
  ScopedFd socket_;
  bool watched_ = false;
  Timer timer_;  // When the candidate's, or the lookup's, time is up.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_CONNECTOR_H_
