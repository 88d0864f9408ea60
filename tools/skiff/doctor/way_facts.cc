#include "tools/skiff/doctor/way_facts.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/skiff/doctor/machine_facts.h"

namespace skiff::tools {
namespace {

constexpr absl::Duration kEchoWait = absl::Seconds(1);
constexpr absl::Duration kConnectWait = absl::Seconds(5);
constexpr uint32_t kShortEcho = 64;
// Of IPv4 and IPv6, without options (RFC 791, RFC 8200).
constexpr uint32_t kIpv4Header = 20;
constexpr uint32_t kIpv6Header = 40;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Null: `*problem` says why.
AddressList Resolve(const std::string& host, uint16_t port,
                    std::string* problem) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (error != 0) {
    *problem = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
    list = nullptr;
  }
  return {list, freeaddrinfo};
}

std::string Numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host = {};
  return getnameinfo(address, length, host.data(), host.size(), nullptr, 0,
                     NI_NUMERICHOST) == 0
             ? host.data()
             : "";
}

// Which interface has the address.
std::string InterfaceOf(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const absl::Cleanup freer = [list] { freeifaddrs(list); };
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length =
        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (Numeric(one->ifa_addr, length) == address) return one->ifa_name;
  }
  return "";
}

// Where the kernel would send from. Nothing is sent.
void FindRoute(const addrinfo& to, WayFact* way) {
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    way->no_route = std::strerror(errno);
    return;
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  sockaddr_storage local = {};
  socklen_t length = sizeof(local);
  auto* address = reinterpret_cast<sockaddr*>(&local);
  if (connect(fd, to.ai_addr, to.ai_addrlen) != 0 ||
      getsockname(fd, address, &length) != 0) {
    way->no_route = std::strerror(errno);
    return;
  }
  way->local_address = Numeric(address, length);
  way->interface = InterfaceOf(way->local_address);
}

bool SetDontFragment(int fd, int family) {
  const int probe = IP_PMTUDISC_PROBE;
  static_assert(IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE);
  return family == AF_INET ? setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe,
                                        sizeof(probe)) == 0
                           : setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
                                        &probe, sizeof(probe)) == 0;
}

// An echo request in an IP packet of so many bytes, by a socket that does
// without privileges (icmp(7)): the kernel fills in identifier and checksum,
// and hands back what answers it.
Echo TryEcho(const addrinfo& to, uint32_t packet_bytes) {
  const bool v4 = to.ai_family == AF_INET;
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC,
                        v4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6});
  if (fd < 0) return Echo::kNotAllowed;
  const absl::Cleanup closer = [fd] { close(fd); };
  std::vector<uint8_t> message(packet_bytes - (v4 ? kIpv4Header : kIpv6Header));
  message[0] = v4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
  if (!SetDontFragment(fd, to.ai_family) ||
      connect(fd, to.ai_addr, to.ai_addrlen) != 0 ||
      send(fd, message.data(), message.size(), 0) < 0) {
    return Echo::kSilent;
  }
  pollfd waiting = {fd, POLLIN, 0};
  if (poll(&waiting, 1,
           static_cast<int>(absl::ToInt64Milliseconds(kEchoWait))) != 1) {
    return Echo::kSilent;
  }
  return recv(fd, message.data(), message.size(), MSG_DONTWAIT) > 0
             ? Echo::kAnswered
             : Echo::kSilent;
}

void TryEchoes(const addrinfo& to, const InterfaceFact& interface,
               WayFact* way) {
  if (interface.loopback || interface.mtu <= kShortEcho) return;
  way->short_echo = TryEcho(to, kShortEcho);
  if (way->short_echo != Echo::kAnswered) return;
  way->long_echo = TryEcho(to, interface.mtu);
}

}  // namespace

void LookAtWay(WayFact* way, DoctorFacts* facts) {
  const absl::Time began = absl::Now();
  const AddressList addresses = Resolve(way->host, way->port, &way->no_address);
  way->resolved_in = absl::Now() - began;
  if (addresses == nullptr) return;
  way->address = Numeric(addresses->ai_addr, addresses->ai_addrlen);
  FindRoute(*addresses, way);
  ReadInterface(way->interface, facts);
  const auto found = facts->interfaces.find(way->interface);
  if (found != facts->interfaces.end()) {
    TryEchoes(*addresses, found->second, way);
  }
}

std::string TryTcp(const WayFact& way) {
  std::string problem;
  const AddressList addresses = Resolve(way.address, way.port, &problem);
  if (addresses == nullptr) return problem;
  const int fd = socket(addresses->ai_family,
                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::strerror(errno);
  const absl::Cleanup closer = [fd] { close(fd); };
  if (connect(fd, addresses->ai_addr, addresses->ai_addrlen) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd waiting = {fd, POLLOUT, 0};
  if (poll(&waiting, 1,
           static_cast<int>(absl::ToInt64Milliseconds(kConnectWait))) != 1) {
    return "no answer";
  }
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace skiff::tools
