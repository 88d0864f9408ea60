#ifndef SKIFF_TRANSPORT_VERBS_CM_ERRORS_H_
#define SKIFF_TRANSPORT_VERBS_CM_ERRORS_H_

#include <sys/socket.h>

#include "absl/status/status.h"
#include "transport/net/socket_address.h"
#include "transport/verbs/cm_channel.h"

namespace skiff::transport {

// Why the connection manager says that there is no connection. A rejection by
// the peer's program carries what it said as kRejectPrivateData.
absl::Status CmEventError(const CmEvent& event);

SocketAddress ToSocketAddress(const sockaddr* address);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_CM_ERRORS_H_
