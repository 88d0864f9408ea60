#include "transport/tcp/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

absl::Status SetOption(int fd, int level, int option, int value,
                       const char* name) {
  if (setsockopt(fd, level, option, &value, sizeof(value)) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("cannot set ", name, " to ", value));
}

absl::Status ParseSize(const std::string& key, const std::string& value,
                       int* out) {
  constexpr int kMax = 1 << 30;
  if (absl::SimpleAtoi(value, out) && *out > 0 && *out <= kMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "option ", key, "=", value, " is not a number from 1 to ", kMax));
}

// Whole units, rounded up, so that a positive duration never becomes "off".
int CeilUnits(absl::Duration duration, absl::Duration unit, int64_t max) {
  const int64_t units = absl::Ceil(duration, unit) / unit;
  return static_cast<int>(std::clamp<int64_t>(units, 0, max));
}

}  // namespace

absl::StatusOr<TcpAddressOptions> ParseTcpOptions(const Address& address) {
  TcpAddressOptions out;
  for (const auto& [key, value] : address.options) {
    absl::Status status;
    if (key == "send_buffer") {
      status = ParseSize(key, value, &out.send_buffer);
    } else if (key == "receive_buffer") {
      status = ParseSize(key, value, &out.receive_buffer);
    } else if (key == "v6only") {
      if (value != "0" && value != "1") {
        status = absl::InvalidArgumentError(
            absl::StrCat("option v6only=", value, " is neither 0 nor 1"));
      }
      out.v6only = value == "1";
    } else {
      status = absl::InvalidArgumentError(
          absl::StrCat("option \"", key,
                       "\" is unknown; tcp has send_buffer, receive_buffer "
                       "and v6only"));
    }
    if (!status.ok()) return status;
  }
  return out;
}

absl::Status SetBuffers(int fd, const TcpAddressOptions& options) {
  if (options.send_buffer > 0) {
    absl::Status status =
        SetOption(fd, SOL_SOCKET, SO_SNDBUF, options.send_buffer, "SO_SNDBUF");
    if (!status.ok()) return status;
  }
  if (options.receive_buffer > 0) {
    return SetOption(fd, SOL_SOCKET, SO_RCVBUF, options.receive_buffer,
                     "SO_RCVBUF");
  }
  return absl::OkStatus();
}

absl::Status SetConnectionOptions(int fd, const ConnectOptions& options) {
  // The kernel's limits: include/net/tcp.h, MAX_TCP_KEEPIDLE and its
  // neighbours.
  constexpr int kMaxKeepaliveSeconds = 32767;
  constexpr int kMaxKeepaliveProbes = 127;
  absl::Status status =
      SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  if (!status.ok()) return status;
  const int idle =
      CeilUnits(options.keepalive_idle, absl::Seconds(1), kMaxKeepaliveSeconds);
  const int interval = CeilUnits(options.keepalive_interval, absl::Seconds(1),
                                 kMaxKeepaliveSeconds);
  if (idle > 0 && interval > 0 && options.keepalive_probes > 0) {
    const struct {
      int option;
      int value;
      const char* name;
    } settings[] = {
        {TCP_KEEPIDLE, idle, "TCP_KEEPIDLE"},
        {TCP_KEEPINTVL, interval, "TCP_KEEPINTVL"},
        {TCP_KEEPCNT, std::min(options.keepalive_probes, kMaxKeepaliveProbes),
         "TCP_KEEPCNT"},
    };
    for (const auto& setting : settings) {
      status = SetOption(fd, IPPROTO_TCP, setting.option, setting.value,
                         setting.name);
      if (!status.ok()) return status;
    }
    status = SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
    if (!status.ok()) return status;
  }
  const int user_timeout =
      CeilUnits(options.user_timeout, absl::Milliseconds(1), 1 << 30);
  return SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout,
                   "TCP_USER_TIMEOUT");
}

void SetAbortiveClose(int fd) {
  const linger abortive = {/*l_onoff=*/1, /*l_linger=*/0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
}

}  // namespace skiff::transport
