#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_PRIVATE_DATA_LIMIT_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_PRIVATE_DATA_LIMIT_H_

#include <cstddef>

namespace skiff::transport {

// Of private data, in bytes, where connections over datagrams begin.
inline constexpr size_t kMaxHandshakePrivateData = 512;

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_PRIVATE_DATA_LIMIT_H_
