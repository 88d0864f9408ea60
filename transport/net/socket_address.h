#ifndef SKIFF_TRANSPORT_NET_SOCKET_ADDRESS_H_
#define SKIFF_TRANSPORT_NET_SOCKET_ADDRESS_H_

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace skiff::transport {

// An IPv4 or IPv6 address with its port, as the socket calls take it.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  int family() const { return storage.ss_family; }
  bool any_ipv6() const;  // ::
  uint16_t port() const;
  // Numeric `host:port`; IPv4 addresses that came in over an IPv6 socket are
  // written as IPv4.
  std::string ToString() const;
  // Numeric host alone, without brackets.
  std::string HostToString() const;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);
};

// The address if `host` is a numeric literal (IPv6 may have a %zone).
absl::optional<SocketAddress> ParseLiteral(const std::string& host,
                                           uint16_t port);

// Looks `host` up; a numeric literal stands for itself. May block for as long
// as the resolver's timeouts allow.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host,
                                                   uint16_t port);

// What the socket is bound or connected to; no address on errors.
SocketAddress LocalAddress(int fd);
SocketAddress PeerAddress(int fd);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_NET_SOCKET_ADDRESS_H_
