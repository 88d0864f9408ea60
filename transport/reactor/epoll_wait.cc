#include "transport/reactor/epoll_wait.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "transport/log/log.h"

namespace skiff::transport {
namespace {

// Waits with the resolution of the clock. The C library's function is not used:
// ThreadSanitizer does not know it.
int PreciseWait(int epoll_fd, epoll_event* events, int max_events,
                const timespec* timeout) {
  return static_cast<int>(syscall(SYS_epoll_pwait2, epoll_fd, events,
                                  max_events, timeout, nullptr, size_t{0}));
}

bool HasPreciseWait() {
  // A kernel that has the call refuses these arguments with another error.
  // EPERM is what a system call filter says that knows no such call.
  epoll_event event;
  const timespec zero = {};
  if (PreciseWait(-1, &event, 1, &zero) >= 0 ||
      (errno != ENOSYS && errno != EPERM)) {
    return true;
  }
  LogToProcess(
      LogLevel::kWarning,
      absl::StrCat("this system has no epoll_pwait2 (", std::strerror(errno),
                   "), which Linux 5.11 and later have: timers are up to a "
                   "millisecond late"));
  return false;
}

}  // namespace

int RoundUpToMilliseconds(absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) return -1;
  const int64_t rounded =
      absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1)));
  return static_cast<int>(
      std::clamp<int64_t>(rounded, 0, std::numeric_limits<int>::max()));
}

int WaitForEvents(int epoll_fd, std::vector<epoll_event>* events,
                  absl::Duration timeout) {
  static const bool kPrecise = HasPreciseWait();
  const auto max_events = static_cast<int>(events->size());
  if (!kPrecise) {
    return epoll_wait(epoll_fd, events->data(), max_events,
                      RoundUpToMilliseconds(timeout));
  }
  const timespec limit = absl::ToTimespec(timeout);
  return PreciseWait(epoll_fd, events->data(), max_events,
                     timeout == absl::InfiniteDuration() ? nullptr : &limit);
}

}  // namespace skiff::transport
