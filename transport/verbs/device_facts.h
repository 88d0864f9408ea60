#ifndef SKIFF_TRANSPORT_VERBS_DEVICE_FACTS_H_
#define SKIFF_TRANSPORT_VERBS_DEVICE_FACTS_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/capabilities.h"

namespace skiff::transport {

// What a device says about itself.
struct DeviceFacts {
  std::string name;
  bool iwarp = false;
  // Linux' siw and rxe, which need some care.
  bool soft_iwarp = false;
  bool soft_roce = false;
  ibv_device_attr device = {};
  // The largest message of any of its ports.
  size_t max_message_bytes = 0;
  uint32_t max_inline_bytes = 0;
  std::vector<ibv_port_attr> ports;  // The first is number 1.
};

// Asks. Makes and destroys queue pairs to find the limit on inline data, which
// no query tells.
absl::StatusOr<DeviceFacts> QueryDevice(ibv_context* context);

Capabilities ToCapabilities(const DeviceFacts& facts);

// The most private data that a caller can give with connect and accept.
size_t PrivateDataLimit(bool iwarp);
// And with a rejection.
size_t RejectDataLimit(bool iwarp);

// "RoCE v2 GID ::ffff:10.0.0.1 (index 1)".
std::string GidToString(const ibv_gid_entry& entry);
// "::ffff:10.0.0.1".
std::string GidAddress(const union ibv_gid& gid);
// 0 if unknown.
uint32_t MtuBytes(ibv_mtu mtu);
// "1024", or "unknown".
std::string MtuToString(ibv_mtu mtu);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_DEVICE_FACTS_H_
