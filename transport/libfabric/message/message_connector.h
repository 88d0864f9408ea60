#ifndef SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_CONNECTOR_H_
#define SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_CONNECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_lookup.h"
#include "transport/libfabric/message/message_endpoint.h"
#include "transport/net/connector.h"
#include "transport/transport.h"

namespace skiff::transport {

// Connects an FI_EP_MSG endpoint: lookup, endpoint, fi_connect, all within one
// deadline.
class MessageConnector final : public Connector {
 public:
  static absl::StatusOr<std::unique_ptr<MessageConnector>> Create(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      const LibfabricOptions& settings, ConnectCallback done);
  ~MessageConnector() override = default;

 private:
  MessageConnector(Reactor* reactor, Address address,
                   const ConnectOptions& options,
                   const LibfabricOptions& settings, ConnectCallback done);

  void OnResolved(absl::StatusOr<InfoPtr> resolved);
  absl::Status Start(const fi_info& info);
  void OnTimer() override;
  void OnOutcome(absl::StatusOr<std::vector<uint8_t>> outcome);
  // Fails, and drops the endpoint.
  void GiveUp(const absl::Status& why);

  const LibfabricOptions settings_;
  std::unique_ptr<FabricLookup> lookup_;
  std::unique_ptr<FabricEndpoint> endpoint_;
  MessageLink* link_ = nullptr;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_CONNECTOR_H_
