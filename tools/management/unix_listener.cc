#include "tools/management/unix_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {
namespace {

constexpr int kBacklog = 16;
// While the system has no descriptor for a connection that waits.
constexpr int kPauseMillis = 100;

absl::Status Failed(const std::string& path, absl::string_view what,
                    absl::string_view advice) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot be managed at ", path,
                                                 ": ", what, "; ", advice));
}

// Whether somebody listens at the path.
bool Answers(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;
  const bool refused = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) != 0 &&
                       errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Start(
    const Options& options, Accept accept, Warn warn) {
  auto self = absl::WrapUnique(
      new UnixListener(options, std::move(accept), std::move(warn)));
  const absl::Status bound = self->Bind();
  if (!bound.ok()) return bound;
  self->stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->stop_fd_ < 0) {
    return Failed(options.path, "eventfd", "check the limit of open files");
  }
  self->thread_ = std::thread([raw = self.get()] { raw->Run(); });
  return self;
}

UnixListener::UnixListener(Options options, Accept accept, Warn warn)
    : options_(std::move(options)),
      accept_(std::move(accept)),
      warn_(std::move(warn)) {}

absl::Status UnixListener::Bind() {
  const std::string& path = options_.path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot be managed at ", path, ": a socket's path has ",
        sizeof(address.sun_path) - 1, " bytes at most; name a shorter one"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) return Failed(path, "socket", "check the limit of open files");
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  int status = bind(fd_, raw, sizeof(address));
  if (status != 0 && errno == EADDRINUSE) {
    struct stat there = {};
    if (lstat(path.c_str(), &there) != 0 || !S_ISSOCK(there.st_mode)) {
      errno = EEXIST;
      return Failed(path, "something else is there", "name another path");
    }
    if (Answers(address)) {
      errno = EADDRINUSE;
      return Failed(path, "another process listens there",
                    "end it, or name another path");
    }
    unlink(path.c_str());
    status = bind(fd_, raw, sizeof(address));
  }
  if (status != 0) {
    return Failed(path, "bind", "check that its directory is there, and ours");
  }
  return Own();
}

// Until it listens, nobody can connect.
absl::Status UnixListener::Own() {
  const std::string& path = options_.path;
  // What is there, also if somebody exchanges it; no link is followed.
  const int at = open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  struct stat made = {};
  if (at < 0 || fstat(at, &made) != 0 || !S_ISSOCK(made.st_mode)) {
    if (at >= 0) close(at);
    return Failed(path, "it is gone", "name a folder that is yours alone");
  }
  device_ = made.st_dev;
  inode_ = made.st_ino;
  // A daemon without the right to give files away may still name itself.
  const bool its = (options_.user < 0 || options_.user == made.st_uid) &&
                   (options_.group < 0 || options_.group == made.st_gid);
  const bool given =
      its || fchownat(at, "", static_cast<uid_t>(options_.user),
                      static_cast<gid_t>(options_.group), AT_EMPTY_PATH) == 0;
  const bool permitted =
      given &&
      chmod(absl::StrCat("/proc/self/fd/", at).c_str(), options_.mode) == 0;
  const int error = errno;
  close(at);
  errno = error;
  if (!given) {
    return Failed(path, "its owner cannot be set",
                  "start as root, or name a group that the user is in");
  }
  if (!permitted) return Failed(path, "chmod", "check that /proc is there");
  if (listen(fd_, kBacklog) != 0) return Failed(path, "listen", "try again");
  return absl::OkStatus();
}

UnixListener::~UnixListener() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof(one));
    thread_.join();
  }
  struct stat there = {};
  if (inode_ != 0 && lstat(options_.path.c_str(), &there) == 0 &&
      there.st_dev == device_ && there.st_ino == inode_) {
    unlink(options_.path.c_str());
  }
  for (const int fd : connections_) close(fd);
  for (const int fd : {fd_, stop_fd_}) {
    if (fd >= 0) close(fd);
  }
}

void UnixListener::Run() {
  std::vector<pollfd> fds;
  while (true) {
    fds.assign({{stop_fd_, POLLIN, 0}, {fd_, POLLIN, 0}});
    // Without POLLIN: only what both ends see of a close counts.
    for (const int fd : connections_) fds.push_back({fd, POLLRDHUP, 0});
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) return;
    for (size_t i = 2; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      close(fds[i].fd);
      connections_.erase(
          std::find(connections_.begin(), connections_.end(), fds[i].fd));
    }
    if (fds[1].revents != 0) Take();
  }
}

void UnixListener::Take() {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // It goes on waiting: others give a descriptor back sometime.
    if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, kPauseMillis);
    return;
  }
  const bool full =
      connections_.size() >= static_cast<size_t>(options_.max_connections);
  if (full && !full_) {
    warn_(absl::StrCat(options_.path, ": refuses connections, as there are ",
                       connections_.size(), " already"));
  }
  full_ = full;
  const int same = full ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (same < 0) {
    close(fd);
    return;
  }
  connections_.push_back(same);
  accept_(fd);
}

}  // namespace skiff::tools
