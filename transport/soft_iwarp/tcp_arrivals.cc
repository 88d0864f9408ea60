#include "transport/soft_iwarp/tcp_arrivals.h"

#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

// TCP_LISTEN of netinet/tcp.h, which does not go with linux/tcp.h.
constexpr uint8_t kListening = 10;

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

// Addresses and ports stay in network order.
void SetEnd(const SocketAddress& from, __be32* address, __be16* port) {
  if (from.family() == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(from.storage);
    std::memcpy(address, &ipv6.sin6_addr, sizeof(ipv6.sin6_addr));
    *port = ipv6.sin6_port;
  } else {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(from.storage);
    address[0] = ipv4.sin_addr.s_addr;
    *port = ipv4.sin_port;
  }
}

// The one that has the address, or 0. Sockets of a listener on all addresses
// of a device are bound to it (siw_create_listen()), and only found with it.
uint32_t InterfaceOf(const SocketAddress& local) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  uint32_t index = 0;
  for (const ifaddrs* at = all; at != nullptr && index == 0;
       at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != local.family()) {
      continue;
    }
    if (local.family() == AF_INET) {
      const auto* found = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      const auto& wanted = reinterpret_cast<const sockaddr_in&>(local.storage);
      if (found->sin_addr.s_addr != wanted.sin_addr.s_addr) continue;
    } else if (local.family() == AF_INET6) {
      const auto* found = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      const auto& wanted = reinterpret_cast<const sockaddr_in6&>(local.storage);
      if (std::memcmp(&found->sin6_addr, &wanted.sin6_addr,
                      sizeof(wanted.sin6_addr)) != 0 ||
          (wanted.sin6_scope_id != 0 &&
           wanted.sin6_scope_id != found->sin6_scope_id)) {
        continue;
      }
    } else {
      continue;
    }
    index = if_nametoindex(at->ifa_name);
  }
  freeifaddrs(all);
  return index;
}

Request MakeRequest(const SocketAddress& local, const SocketAddress& peer) {
  Request request = {};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& body = request.body;
  body.sdiag_family = static_cast<uint8_t>(local.family());
  body.sdiag_protocol = IPPROTO_TCP;
  body.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  SetEnd(local, body.id.idiag_src, &body.id.idiag_sport);
  SetEnd(peer, body.id.idiag_dst, &body.id.idiag_dport);
  body.id.idiag_if = InterfaceOf(local);
  std::fill(std::begin(body.id.idiag_cookie), std::end(body.id.idiag_cookie),
            INET_DIAG_NOCOOKIE);
  return request;
}

absl::Status Failed(int error) {
  return absl::ErrnoToStatus(error,
                             "cannot ask the kernel for a TCP connection");
}

absl::StatusOr<TcpArrivals> Parse(const nlmsghdr* header, size_t size) {
  if (!NLMSG_OK(header, size)) return Failed(EBADMSG);
  if (header->nlmsg_type == NLMSG_ERROR &&
      header->nlmsg_len >= NLMSG_LENGTH(sizeof(nlmsgerr))) {
    const int error = static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    return error == -ENOENT ? absl::NotFoundError("no such TCP connection")
                            : Failed(-error);
  }
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      header->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) {
    return Failed(EBADMSG);
  }
  const auto* message = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  // Without such a connection, the kernel finds who listens there.
  if (message->idiag_state == kListening) {
    return absl::NotFoundError("no such TCP connection");
  }
  auto left =
      static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof(*message)));
  for (const auto* attribute = reinterpret_cast<const rtattr*>(message + 1);
       RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type != INET_DIAG_INFO) continue;
    // Kernels differ in how much they tell.
    tcp_info info = {};
    std::memcpy(&info, RTA_DATA(attribute),
                std::min<size_t>(sizeof(info), RTA_PAYLOAD(attribute)));
    return TcpArrivals{.bytes = info.tcpi_bytes_received,
                       .unread = message->idiag_rqueue};
  }
  return Failed(EBADMSG);
}

}  // namespace

absl::StatusOr<TcpArrivals> QueryTcpArrivals(const SocketAddress& local,
                                             const SocketAddress& peer) {
  const ScopedFd diag(
      socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diag.valid()) return Failed(errno);
  const Request request = MakeRequest(local, peer);
  if (send(diag.get(), &request, sizeof(request), 0) < 0) return Failed(errno);
  alignas(nlmsghdr) char answer[4096];
  // The kernel has answered by now.
  const ssize_t size = recv(diag.get(), answer, sizeof(answer), MSG_DONTWAIT);
  if (size < 0) return Failed(errno);
  return Parse(reinterpret_cast<const nlmsghdr*>(answer),
               static_cast<size_t>(size));
}

}  // namespace skiff::transport
