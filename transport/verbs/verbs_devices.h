#ifndef SKIFF_TRANSPORT_VERBS_VERBS_DEVICES_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_DEVICES_H_

#include <vector>

#include "transport/transport.h"

namespace skiff::transport {

// One report for each port of each RDMA device of this machine. Without any,
// one that says why and what to do.
std::vector<DeviceReport> VerbsDevices();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_DEVICES_H_
