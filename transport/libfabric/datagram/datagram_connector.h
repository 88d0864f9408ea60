#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_CONNECTOR_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_CONNECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/libfabric/datagram/control_stream.h"
#include "transport/libfabric/datagram/datagram_link.h"
#include "transport/libfabric/fabric/fabric_endpoint.h"
#include "transport/libfabric/fabric/fabric_info.h"
#include "transport/net/connector.h"
#include "transport/tcp/tcp_connector.h"
#include "transport/transport.h"

namespace skiff::transport {

struct DatagramEndpoint {
  std::unique_ptr<FabricEndpoint> endpoint;
  DatagramLink* link = nullptr;
  std::vector<uint8_t> private_data;  // To be sent.
};
// An unconnected endpoint beside `control`, of the resources that the caller
// chose and prepared by him.
absl::StatusOr<DatagramEndpoint> MakeDatagramEndpoint(
    const FabricAddressOptions& fabric, std::unique_ptr<ControlStream> control,
    Reactor* reactor, const ConnectOptions& options,
    const LibfabricOptions& settings);

// Connects over reliable datagrams: the TCP connection, then the endpoint and
// the handshake, all within one deadline.
class DatagramConnector final : public Connector {
 public:
  static absl::StatusOr<std::unique_ptr<DatagramConnector>> Create(
      Reactor* reactor, const Address& address,
      const FabricAddressOptions& fabric, const ConnectOptions& options,
      const LibfabricOptions& settings, ConnectCallback done);
  ~DatagramConnector() override = default;

 private:
  DatagramConnector(Reactor* reactor, Address address,
                    FabricAddressOptions fabric, const ConnectOptions& options,
                    const LibfabricOptions& settings, ConnectCallback done);

  void OnStream(absl::StatusOr<Endpoint> stream);
  absl::Status Start(std::unique_ptr<ControlStream> control);
  void OnTimer() override;
  void OnOutcome(absl::StatusOr<std::vector<uint8_t>> outcome);
  // Fails, and drops what there is.
  void GiveUp(const absl::Status& why);

  const FabricAddressOptions fabric_;
  const LibfabricOptions settings_;
  std::unique_ptr<TcpConnector> tcp_;
  std::unique_ptr<FabricEndpoint> endpoint_;
  DatagramLink* link_ = nullptr;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_CONNECTOR_H_
