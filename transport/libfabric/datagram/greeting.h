#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_GREETING_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_GREETING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/libfabric/datagram/handshake.h"
#include "transport/libfabric/fabric/fabric_domain.h"

namespace skiff::transport {

// What the ends of a connection over datagrams tell each other of themselves
// when it begins.

// Puts into a kConnect or kAccept what this end is: its provider, its machine,
// its `address` in the fabric, and what can be read there.
void Introduce(const FabricDomain& domain, absl::Span<const uint8_t> address,
               HandshakeMessage* message);

// Whether this end can have to do with the sender of a kConnect or kAccept; an
// error is for people.
absl::Status CheckGreeting(const FabricDomain& domain,
                           const HandshakeMessage& message);

// Why there is no connection, of a kReject.
absl::Status WhyRejected(const FabricDomain& domain,
                         const HandshakeMessage& message);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_GREETING_H_
