#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPEN_DOMAINS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPEN_DOMAINS_H_

#include <rdma/fabric.h>

#include <memory>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/fabric_domain.h"
#include "transport/libfabric/fabric/libfabric_options.h"

namespace skiff::transport {

// The process' one domain for the fabric, domain and endpoint type of `info`
// with these settings, opened if need be. May block for milliseconds.
absl::StatusOr<std::shared_ptr<FabricDomain>> DomainFor(
    const fi_info& info, const LibfabricOptions& settings);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_OPEN_DOMAINS_H_
