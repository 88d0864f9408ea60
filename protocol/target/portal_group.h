#ifndef SKIFF_PROTOCOL_TARGET_PORTAL_GROUP_H_
#define SKIFF_PROTOCOL_TARGET_PORTAL_GROUP_H_

#include <cstdint>
#include <vector>

#include "transport/address.h"

namespace skiff::protocol {

// A target's portal group: the portals through which initiators reach one SCSI
// port of it (RFC 7143 section 4.4.2). Another target may group the same
// portals in another way.
struct PortalGroup {
  // 1 to 65535; also the port's RELATIVE TARGET PORT IDENTIFIER, which is not
  // 0.
  uint16_t tag = 1;
  // As they are given to TargetServer::Listen, before or after. Empty: all that
  // there are, also those to come.
  std::vector<transport::Address> portals = {};
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_TARGET_PORTAL_GROUP_H_
