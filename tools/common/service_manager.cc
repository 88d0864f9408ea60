#include "tools/common/service_manager.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {
namespace {

absl::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

absl::Status CheckSocket(absl::string_view name) {
  if (name[0] != '/' && name[0] != '@') {
    return absl::InvalidArgumentError(absl::StrCat(
        "NOTIFY_SOCKET is '", name,
        "', but can only be an absolute path, or @ and an abstract name"));
  }
  if (name.size() < 2 || name.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("NOTIFY_SOCKET has ", name.size(), " bytes, but can have ",
                     "2 to ", sizeof(sockaddr_un::sun_path) - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> WatchdogLimit() {
  const absl::string_view usec = Variable("WATCHDOG_USEC");
  if (usec.empty()) return absl::ZeroDuration();
  // It may be of a process that has started this one.
  const absl::string_view pid = Variable("WATCHDOG_PID");
  if (!pid.empty() && pid != absl::StrCat(getpid())) {
    return absl::ZeroDuration();
  }
  int64_t microseconds = 0;
  if (!absl::SimpleAtoi(usec, &microseconds) || microseconds <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("WATCHDOG_USEC is '", usec,
                     "', but can only be a number of microseconds above 0"));
  }
  return absl::Microseconds(microseconds);
}

// What it keeps has one name, by which all of it is forgotten.
constexpr char kKeptName[] = "skiff";
// The kernel's limit is 253 (unix(7), SCM_MAX_FD).
constexpr size_t kDescriptorsAtOnce = 200;

// systemd leaves messages of more than 4096 bytes out, with what they say
// beside the status.
constexpr size_t kMaxStatus = 1024;

// A status is one line of the message.
std::string OneLine(absl::string_view status) {
  size_t size = std::min(status.size(), kMaxStatus);
  // No character of UTF-8 is cut.
  while (size > 0 && size < status.size() && (status[size] & 0xc0) == 0x80) {
    --size;
  }
  std::string line(status.substr(0, size));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

bool SendTo(int fd, absl::string_view name, absl::string_view message,
            const std::vector<int>& descriptors) {
  const timeval patience = absl::ToTimeval(ServiceManager::kPatience);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) !=
      0) {
    return false;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  // An abstract name has no byte more than its own (unix(7)).
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  iovec text = {const_cast<char*>(message.data()), message.size()};
  msghdr header = {};
  header.msg_name = &address;
  header.msg_namelen = size;
  header.msg_iov = &text;
  header.msg_iovlen = 1;
  std::vector<char> control;
  if (!descriptors.empty()) {
    const size_t bytes = descriptors.size() * sizeof(int);
    control.resize(CMSG_SPACE(bytes));
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), bytes);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

}  // namespace

absl::StatusOr<ServiceManager> ServiceManager::FromEnvironment() {
  const absl::string_view socket = Variable("NOTIFY_SOCKET");
  if (socket.empty()) return ServiceManager();
  if (absl::Status status = CheckSocket(socket); !status.ok()) return status;
  const absl::StatusOr<absl::Duration> watchdog = WatchdogLimit();
  if (!watchdog.ok()) return watchdog.status();
  return ServiceManager(std::string(socket), *watchdog);
}

absl::Status ServiceManager::Ready(absl::string_view status) const {
  return Send(absl::StrCat("READY=1\nSTATUS=", OneLine(status)));
}

absl::Status ServiceManager::Reloading() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  // systemd tells by the time which of its requests this is about.
  return Send(
      absl::StrCat("RELOADING=1\nMONOTONIC_USEC=",
                   absl::ToInt64Microseconds(absl::DurationFromTimespec(now))));
}

absl::Status ServiceManager::Stopping(absl::string_view status) const {
  return Send(absl::StrCat("STOPPING=1\nSTATUS=", OneLine(status)));
}

absl::Status ServiceManager::Alive() const { return Send("WATCHDOG=1"); }

absl::Status ServiceManager::Keep(const std::vector<int>& descriptors) const {
  if (socket_.empty()) {
    return absl::FailedPreconditionError(
        "no service manager keeps descriptors (NOTIFY_SOCKET is not set)");
  }
  for (size_t i = 0; i < descriptors.size(); i += kDescriptorsAtOnce) {
    const auto begin = descriptors.begin() + static_cast<std::ptrdiff_t>(i);
    const auto count = static_cast<std::ptrdiff_t>(
        std::min(kDescriptorsAtOnce, descriptors.size() - i));
    absl::Status sent = Send(absl::StrCat("FDSTORE=1\nFDNAME=", kKeptName),
                             {begin, begin + count});
    // The kernel limits those that are on their way.
    if (sent.ok()) sent = AwaitReader();
    if (!sent.ok()) return sent;
  }
  return absl::OkStatus();
}

absl::Status ServiceManager::Forget() const {
  absl::Status sent = Send(absl::StrCat("FDSTOREREMOVE=1\nFDNAME=", kKeptName));
  return sent.ok() && there() ? AwaitReader() : sent;
}

// It closes the descriptor when it has come to the message (sd_notify(3),
// BARRIER=1).
absl::Status ServiceManager::AwaitReader() const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe");
  }
  absl::Status sent = Send("BARRIER=1", {ends[1]});
  close(ends[1]);
  pollfd closed = {ends[0], 0, 0};
  const int found =
      sent.ok()
          ? poll(&closed, 1,
                 static_cast<int>(absl::ToInt64Milliseconds(kBarrierPatience)))
          : 0;
  close(ends[0]);
  if (!sent.ok() || found == 1) return sent;
  return absl::DeadlineExceededError(
      absl::StrCat("the service manager at NOTIFY_SOCKET ", socket_,
                   " did not take the descriptors within ",
                   absl::FormatDuration(kBarrierPatience)));
}

// Descriptors from 3 on (sd_listen_fds(3)).
std::vector<int> ServiceManager::TakeKept() {
  constexpr int kFirst = 3;
  int count = 0;
  if (Variable("LISTEN_PID") != absl::StrCat(getpid()) ||
      !absl::SimpleAtoi(Variable("LISTEN_FDS"), &count) || count <= 0) {
    return {};
  }
  unsetenv("LISTEN_PID");
  std::vector<int> kept;
  for (int fd = kFirst; fd < kFirst + count; ++fd) {
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) kept.push_back(fd);
  }
  return kept;
}

absl::Status ServiceManager::Send(absl::string_view message,
                                  const std::vector<int>& descriptors) const {
  if (socket_.empty()) return absl::OkStatus();
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent = fd >= 0 && SendTo(fd, socket_, message, descriptors);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (sent) return absl::OkStatus();
  return absl::ErrnoToStatus(
      error,
      absl::StrCat("cannot tell the service manager at NOTIFY_SOCKET ", socket_,
                   " '", message.substr(0, message.find('\n')), "'"));
}

}  // namespace skiff::tools
