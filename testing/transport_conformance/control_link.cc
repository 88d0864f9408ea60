#include "testing/transport_conformance/control_link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"

namespace skiff::testing {
namespace {

// A message is a few kilobytes; more is not one of ours.
constexpr uint32_t kLongestMessage = 16 << 20;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const std::string& host, uint16_t port,
                                  int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("control connection: ", host, ": ", gai_strerror(error)));
  }
  return Addresses(found);
}

absl::Status Failure(const char* what, const std::string& host, uint16_t port) {
  return absl::ErrnoToStatus(
      errno, absl::StrCat("control connection: ", what, " ", host, ":", port));
}

void DisableDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

uint16_t PortOf(int fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

ControlLink::~ControlLink() { close(fd_); }

absl::StatusOr<std::unique_ptr<ControlLink>> ControlLink::Connect(
    const std::string& host, uint16_t port) {
  auto addresses = Resolve(host, port, 0);
  if (!addresses.ok()) return addresses.status();
  const addrinfo& address = **addresses;
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failure("socket for", host, port);
  if (connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    const absl::Status status = Failure("connect", host, port);
    close(fd);
    return status;
  }
  DisableDelay(fd);
  return std::make_unique<ControlLink>(fd);
}

absl::Status ControlLink::Send(const nlohmann::json& message) {
  std::vector<uint8_t> bytes = nlohmann::json::to_msgpack(message);
  const uint32_t size = htonl(static_cast<uint32_t>(bytes.size()));
  const auto* prefix = reinterpret_cast<const uint8_t*>(&size);
  bytes.insert(bytes.begin(), prefix, prefix + sizeof(size));
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t moved =
        send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return absl::ErrnoToStatus(errno, "control connection");
    sent += static_cast<size_t>(moved);
  }
  return absl::OkStatus();
}

absl::Status ControlLink::ReadExactly(char* to, size_t size) {
  for (size_t got = 0; got < size;) {
    const ssize_t moved = recv(fd_, to + got, size - got, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) {
      return absl::UnavailableError("control connection: the peer closed it");
    }
    if (moved < 0) return absl::ErrnoToStatus(errno, "control connection");
    got += static_cast<size_t>(moved);
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> ControlLink::Receive() {
  uint32_t size = 0;
  absl::Status status =
      ReadExactly(reinterpret_cast<char*>(&size), sizeof(size));
  if (!status.ok()) return status;
  size = ntohl(size);
  if (size > kLongestMessage) {
    return absl::InvalidArgumentError(
        "control connection: the peer is no conformance runner");
  }
  std::string bytes(size, '\0');
  status = ReadExactly(bytes.data(), bytes.size());
  if (!status.ok()) return status;
  nlohmann::json message = nlohmann::json::from_msgpack(bytes, true, false);
  if (message.is_discarded()) {
    return absl::InvalidArgumentError(
        "control connection: the peer is no conformance runner");
  }
  return message;
}

bool ControlLink::readable() const {
  pollfd wait = {fd_, POLLIN, 0};
  return poll(&wait, 1, 0) > 0;
}

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::Listen(
    const std::string& host, uint16_t port) {
  auto addresses = Resolve(host, port, AI_PASSIVE);
  if (!addresses.ok()) return addresses.status();
  const addrinfo& address = **addresses;
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failure("socket for", host, port);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 ||
      listen(fd, 1) != 0) {
    const absl::Status status = Failure("listen on", host, port);
    close(fd);
    return status;
  }
  return std::unique_ptr<ControlListener>(new ControlListener(fd, PortOf(fd)));
}

ControlListener::~ControlListener() { close(fd_); }

absl::StatusOr<std::unique_ptr<ControlLink>> ControlListener::Accept() {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "control connection: accept");
  DisableDelay(fd);
  return std::make_unique<ControlLink>(fd);
}

}  // namespace skiff::testing
