#ifndef SKIFF_TRANSPORT_SOFT_IWARP_TCP_ARRIVALS_H_
#define SKIFF_TRANSPORT_SOFT_IWARP_TCP_ARRIVALS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "transport/net/socket_address.h"

namespace skiff::transport {

// What a TCP connection of this network namespace has received, whoever has it:
// this process, another one, or a driver of the kernel's.
struct TcpArrivals {
  uint64_t bytes = 0;   // Since the connection began.
  uint32_t unread = 0;  // Of them, those that nobody has taken yet.

  bool operator==(const TcpArrivals&) const = default;
};

// Asks the kernel (sock_diag(7)), which needs no permission. Not found if there
// is no such connection. May load a kernel module, the first time.
absl::StatusOr<TcpArrivals> QueryTcpArrivals(const SocketAddress& local,
                                             const SocketAddress& peer);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_SOFT_IWARP_TCP_ARRIVALS_H_
