#include "transport/reactor/epoll_wait.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/system/refuse_system_call.h"

namespace skiff::transport {
namespace {

TEST(EpollWaitTest, RoundsUpToMilliseconds) {
  EXPECT_EQ(RoundUpToMilliseconds(absl::InfiniteDuration()), -1);
  EXPECT_EQ(RoundUpToMilliseconds(absl::ZeroDuration()), 0);
  EXPECT_EQ(RoundUpToMilliseconds(absl::Nanoseconds(1)), 1);
  EXPECT_EQ(RoundUpToMilliseconds(absl::Milliseconds(7)), 7);
  EXPECT_EQ(RoundUpToMilliseconds(absl::Microseconds(7001)), 8);
  EXPECT_EQ(RoundUpToMilliseconds(absl::Hours(24 * 365)),
            std::numeric_limits<int>::max());
}

// The choice is made once in a process, so each of these asks a process of its
// own, which exits with 0 if it waited for a millisecond and a half, and as
// long as it was told to, not longer.
[[noreturn]] void WaitAndExit() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  std::vector<epoll_event> events(1);
  const absl::Duration timeout = absl::Microseconds(1500);
  bool well = true;
  for (int i = 0; i < 3; ++i) {
    const absl::Time start = EpollReactor::MonotonicNow();
    well = well && WaitForEvents(epoll_fd, &events, timeout) == 0 &&
           EpollReactor::MonotonicNow() - start >= timeout &&
           WaitForEvents(epoll_fd, &events, absl::ZeroDuration()) == 0;
  }
  well = well && WaitForEvents(-1, &events, timeout) == -1 && errno == EBADF;
  _exit(well ? 0 : 1);
}

TEST(EpollWaitDeathTest, IsSilentWhereTheKernelHasTheCall) {
  EXPECT_EXIT(WaitAndExit(), ::testing::ExitedWithCode(0), "^$");
}

TEST(EpollWaitDeathTest, SaysOnceThatTheKernelHasNotTheCall) {
  for (const int error : {ENOSYS, EPERM}) {
    EXPECT_EXIT(
        {
          RefuseSystemCall(SYS_epoll_pwait2, error);
          WaitAndExit();
        },
        ::testing::ExitedWithCode(0),
        "warn  this system has no epoll_pwait2 [^\n]* late\n$");
  }
}

}  // namespace
}  // namespace skiff::transport
