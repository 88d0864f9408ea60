#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_ENDPOINT_SETUP_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_ENDPOINT_SETUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/fabric_endpoint.h"
#include "transport/transport.h"

namespace skiff::transport {

// An error if the domain cannot carry the private data of `options`.
absl::Status CheckPrivateData(const FabricDomain& domain,
                              const ConnectOptions& options);

// An endpoint without its connection, of the resources that the caller chose.
absl::StatusOr<std::unique_ptr<FabricEndpoint>> MakeEndpoint(
    const std::shared_ptr<FabricDomain>& domain, Reactor* reactor,
    ConnectOptions options);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_ENDPOINT_SETUP_H_
