#ifndef SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_ENDPOINT_H_
#define SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_endpoint.h"
#include "transport/libfabric/message/message_link.h"
#include "transport/transport.h"

namespace skiff::transport {

struct ConnectableEndpoint {
  std::unique_ptr<FabricEndpoint> endpoint;
  MessageLink* link = nullptr;
  std::vector<uint8_t> private_data;  // To be sent.
};
// An endpoint that is bound to libfabric's connection manager, without its
// connection, of the resources that the caller chose, and prepared by it.
// `opened` tells, also of a failure, whether libfabric made its endpoint: from
// then on it and not the caller has the connection of a request's `info`.
absl::StatusOr<ConnectableEndpoint> MakeConnectable(
    const std::shared_ptr<FabricDomain>& domain, const fi_info& info,
    Reactor* reactor, const ConnectOptions& options, bool* opened);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_MESSAGE_MESSAGE_ENDPOINT_H_
