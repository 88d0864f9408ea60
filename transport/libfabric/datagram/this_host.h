#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_THIS_HOST_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_THIS_HOST_H_

#include <array>
#include <cstdint>

namespace skiff::transport {

// The machine since its last boot; zeros if it does not say.
std::array<uint8_t, 16> ThisHost();

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_THIS_HOST_H_
