/* A program with an epoll loop of its own, in which the library is one
   descriptor of several. */
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "loopback.h"

static void watch(int loop, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  loopback_check(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl",
                 "refused");
}

int main(void) {
  static loopback self;
  const struct itimerspec often = {{0, 1000000}, {0, 1000000}};
  const int loop = epoll_create1(EPOLL_CLOEXEC);
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  int ticks = 0;
  skiff_context* context = loopback_context(0);
  const int ours = skiff_context_fd(context);

  timerfd_settime(timer, 0, &often, NULL);
  watch(loop, timer);
  watch(loop, ours);
  loopback_begin(&self, context);
  while (!loopback_finished(&self) || ticks == 0) {
    struct epoll_event events[4];
    int timeout = -1;
    loopback_done(skiff_context_timeout(context, &timeout),
                  "skiff_context_timeout");
    const int count = epoll_wait(loop, events, 4, timeout);
    for (int i = 0; i < count; ++i) {
      uint64_t expired;
      if (events[i].data.fd == timer &&
          read(timer, &expired, sizeof(expired)) == sizeof(expired)) {
        ++ticks;
      }
    }
    /* Also when its time has come, and when callbacks began something. */
    loopback_check(skiff_context_poll(context) >= 0, "skiff_context_poll",
                   skiff_last_error());
  }
  loopback_end(context);
  close(timer);
  close(loop);
  puts("epoll: done");
  return 0;
}
