#ifndef SKIFF_TRANSPORT_TCP_TCP_CONNECTOR_H_
#define SKIFF_TRANSPORT_TCP_TCP_CONNECTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/net/host_connector.h"
#include "transport/net/scoped_fd.h"
#include "transport/net/socket_address.h"
#include "transport/reactor/reactor.h"
#include "transport/tcp/socket_options.h"
#include "transport/transport.h"

namespace skiff::transport {

// Connects a socket.
class TcpConnector final : public HostConnector, private FdHandler {
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
  absl::Status StartOne(const SocketAddress& candidate) override;
  void DropOne() override { DropSocket(); }
  absl::Status CheckConnected() const;
  void DropSocket();

  const TcpAddressOptions tcp_options_;
  ScopedFd socket_;
  bool watched_ = false;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_CONNECTOR_H_
