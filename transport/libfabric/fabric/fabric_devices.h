#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_DEVICES_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_DEVICES_H_

#include <vector>

#include "transport/libfabric/fabric/libfabric_options.h"
#include "transport/transport.h"

namespace skiff::transport {

// One report for each provider and domain that offers what this transport
// needs, and for each that would but cannot be used.
std::vector<DeviceReport> FabricDevices(const LibfabricOptions& settings);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_DEVICES_H_
