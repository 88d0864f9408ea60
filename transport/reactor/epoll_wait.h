#ifndef SKIFF_TRANSPORT_REACTOR_EPOLL_WAIT_H_
#define SKIFF_TRANSPORT_REACTOR_EPOLL_WAIT_H_

#include <sys/epoll.h>

#include <vector>

#include "absl/time/time.h"

namespace skiff::transport {

// epoll_wait(2) for at most `timeout` (zero: does not wait; InfiniteDuration():
// without limit), to the nanosecond where the kernel has epoll_pwait2 (Linux
// 5.11). Elsewhere (older kernels, valgrind, some containers' system call
// filters) up to a millisecond longer, which is said once on standard error;
// and waits of more than 24 days end after 24 days. Fills `events` up to its
// size. Returns how many there are, or -1 with errno. Thread-safe.
int WaitForEvents(int epoll_fd, std::vector<epoll_event>* events,
                  absl::Duration timeout);

// `timeout` in epoll_wait()'s milliseconds: rounded up, so that no timer's turn
// comes too early and spins until its time has come; -1 for InfiniteDuration().
int RoundUpToMilliseconds(absl::Duration timeout);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_EPOLL_WAIT_H_
