#ifndef SKIFF_TRANSPORT_LIBFABRIC_ENDPOINT_SETUP_H_
#define SKIFF_TRANSPORT_LIBFABRIC_ENDPOINT_SETUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/backend.h"
#include "transport/libfabric/fabric_domain.h"
#include "transport/libfabric/fabric_endpoint.h"
#include "transport/libfabric/message_link.h"

namespace skiff::transport {

// An error if the domain cannot carry the private data of `options`.
absl::Status CheckPrivateData(const FabricDomain& domain,
                              const ConnectOptions& options);

// An endpoint without its connection, of the resources that the caller chose.
absl::StatusOr<std::unique_ptr<FabricEndpoint>> MakeEndpoint(
    const std::shared_ptr<FabricDomain>& domain, Reactor* reactor,
    ConnectOptions options);

struct ConnectableEndpoint {
  std::unique_ptr<FabricEndpoint> endpoint;
  MessageLink* link = nullptr;
  std::vector<uint8_t> private_data;  // To be sent.
};
// The same, bound to libfabric's connection manager and prepared by the caller.
// `opened` tells, also of a failure, whether libfabric made its endpoint: from
// then on it and not the caller has the connection of a request's `info`.
absl::StatusOr<ConnectableEndpoint> MakeConnectable(
    const std::shared_ptr<FabricDomain>& domain, const fi_info& info,
    Reactor* reactor, const ConnectOptions& options, bool* opened);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_ENDPOINT_SETUP_H_
