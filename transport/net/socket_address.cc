#include "transport/net/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

const sockaddr_in6* AsIpv6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6*>(&address.storage);
}
const sockaddr_in* AsIpv4(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in*>(&address.storage);
}

// getaddrinfo() with its result in our own form. `flags` are AI_*.
int Lookup(const std::string& host, uint16_t port, int flags,
           std::vector<SocketAddress>* out) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return error;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    out->push_back(address);
  }
  freeaddrinfo(list);
  return 0;
}

}  // namespace

bool SocketAddress::any_ipv6() const {
  return family() == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&AsIpv6(*this)->sin6_addr);
}

uint16_t SocketAddress::port() const {
  if (family() == AF_INET6) return ntohs(AsIpv6(*this)->sin6_port);
  if (family() == AF_INET) return ntohs(AsIpv4(*this)->sin_port);
  return 0;
}

std::string SocketAddress::HostToString() const {
  char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &AsIpv4(*this)->sin_addr, text, sizeof(text));
    return text;
  }
  if (family() != AF_INET6) return "unknown";
  const in6_addr& ip = AsIpv6(*this)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    inet_ntop(AF_INET, &ip.s6_addr[12], text, sizeof(text));
    return text;
  }
  // Writes the zone of a link-local address too.
  if (getnameinfo(get(), length, text, sizeof(text), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return text;
}

std::string SocketAddress::ToString() const {
  const std::string host = HostToString();
  if (host.find(':') == std::string::npos) {
    return absl::StrCat(host, ":", port());
  }
  return absl::StrCat("[", host, "]:", port());
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  if (a.family() == AF_INET) {
    return AsIpv4(a)->sin_addr.s_addr == AsIpv4(b)->sin_addr.s_addr;
  }
  return a.family() == AF_INET6 &&
         AsIpv6(a)->sin6_scope_id == AsIpv6(b)->sin6_scope_id &&
         std::memcmp(&AsIpv6(a)->sin6_addr, &AsIpv6(b)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

absl::optional<SocketAddress> ParseLiteral(const std::string& host,
                                           uint16_t port) {
  std::vector<SocketAddress> found;
  if (Lookup(host, port, AI_NUMERICHOST, &found) != 0 || found.empty()) {
    return absl::nullopt;
  }
  return found.front();
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host,
                                                   uint16_t port) {
  std::vector<SocketAddress> found;
  // AI_ADDRCONFIG may leave out what a literal says, such as ::1.
  if (auto literal = ParseLiteral(host, port)) return {{*literal}};
  const int error = Lookup(host, port, AI_ADDRCONFIG, &found);
  if (error == EAI_AGAIN) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve \"", host,
                     "\": the name service does not answer; try again later "
                     "or use a numeric address"));
  }
  if (error != 0) {
    // Not "not found", which is what a target that is there says of a name.
    return absl::UnavailableError(
        absl::StrCat("cannot resolve \"", host, "\": ", gai_strerror(error)));
  }
  return found;
}

SocketAddress LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.length) != 0) {
    return {};
  }
  return address;
}

SocketAddress PeerAddress(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.length) != 0) {
    return {};
  }
  return address;
}

}  // namespace skiff::transport
