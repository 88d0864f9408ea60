#ifndef SKIFF_TRANSPORT_TCP_TCP_DEVICES_H_
#define SKIFF_TRANSPORT_TCP_TCP_DEVICES_H_

#include <vector>

#include "transport/transport.h"

namespace skiff::transport {

// What TCP can do: bytes, and nothing one-sided.
Capabilities TcpCapabilities();

// The machine's network interfaces, in the order of getifaddrs().
std::vector<DeviceReport> TcpDevices();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_TCP_TCP_DEVICES_H_
