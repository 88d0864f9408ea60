#ifndef SKIFF_TRANSPORT_VERBS_VERBS_CONNECTOR_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_CONNECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/net/host_connector.h"
#include "transport/net/socket_address.h"
#include "transport/transport.h"
#include "transport/verbs/cm_channel.h"
#include "transport/verbs/verbs_endpoint.h"
#include "transport/verbs/verbs_options.h"

namespace skiff::transport {

// For each address of a host: address resolution, route resolution, queue pair,
// connect.
class VerbsConnector final : public HostConnector, private CmHandler {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsConnector>> Create(
      Reactor* reactor, const Address& address, const ConnectOptions& options,
      const VerbsOptions& settings, ConnectCallback done);
  ~VerbsConnector() override = default;

 private:
  VerbsConnector(Reactor* reactor, Address address,
                 const ConnectOptions& options, const VerbsOptions& settings,
                 std::shared_ptr<CmChannel> channel, ConnectCallback done);

  void OnCmEvent(const CmEvent& event) override;
  absl::Status StartOne(const SocketAddress& candidate) override;
  void DropOne() override;
  absl::Status ResolveRoute();
  absl::Status SendRequest();
  absl::Status Complete(const CmEvent& event);
  int MillisecondsLeft() const;

  const VerbsOptions settings_;
  const std::shared_ptr<CmChannel> channel_;
  CmId id_;                                  // Until the endpoint has it.
  std::unique_ptr<VerbsEndpoint> endpoint_;  // Once the device is known.
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_CONNECTOR_H_
