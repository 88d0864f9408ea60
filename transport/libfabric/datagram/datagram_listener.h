#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LISTENER_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LISTENER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/datagram/control_stream.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/libfabric/fabric/fabric_request.h"
#include "transport/libfabric/fabric/libfabric_options.h"
#include "transport/tcp/tcp_listener.h"
#include "transport/transport.h"

namespace skiff::transport {

// Listens for connections over reliable datagrams: on a TCP port, where peers
// say who they are and where in the fabric. An endpoint is opened when a
// connection is accepted.
class DatagramListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<DatagramListener>> Create(
      Reactor* reactor, const Address& address,
      const FabricAddressOptions& fabric, const ListenOptions& options,
      const LibfabricOptions& settings, AcceptCallback on_request);
  ~DatagramListener() override;

  Address address() const override { return address_; }

 private:
  class Guest;

  DatagramListener(Reactor* reactor, Address address,
                   FabricAddressOptions fabric, const ListenOptions& options,
                   const LibfabricOptions& settings, AcceptCallback on_request);

  void OnConnection(std::unique_ptr<ConnectionRequest> request);
  void OnStream(absl::StatusOr<Endpoint> stream);
  void OnGreeting(Guest* guest, const HandshakeMessage& message);
  // Takes the guest out of the list.
  std::unique_ptr<Guest> Remove(Guest* guest);
  size_t unanswered() const { return coming_ + guests_.size() + open_->size(); }

  Reactor* const reactor_;
  Address address_;
  const FabricAddressOptions fabric_;
  const ListenOptions options_;
  const LibfabricOptions settings_;
  AcceptCallback on_request_;
  std::unique_ptr<TcpListener> tcp_;
  size_t coming_ = 0;  // Accepted by the kernel, and not yet guests.
  std::vector<std::unique_ptr<Guest>> guests_;
  const std::shared_ptr<OpenRequests> open_ = std::make_shared<OpenRequests>();
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LISTENER_H_
