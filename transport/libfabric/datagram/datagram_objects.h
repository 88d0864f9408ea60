#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_OBJECTS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_OBJECTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/libfabric/fabric/datagram_traffic.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {

// An unconnected endpoint for one peer, enabled, with what it is bound to.
struct OpenedDatagrams {
  DatagramObjects objects;
  std::vector<uint8_t> address;  // Of the endpoint, in the fabric.
};
absl::StatusOr<OpenedDatagrams> OpenDatagrams(FabricQueuePair* queue_pair,
                                              const fi_info& info);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_OBJECTS_H_
