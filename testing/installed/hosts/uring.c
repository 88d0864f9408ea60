/* A program whose loop is io_uring's. */
#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include "loopback.h"

static void watch(struct io_uring* ring, int fd) {
  struct io_uring_sqe* entry = io_uring_get_sqe(ring);
  io_uring_prep_poll_add(entry, fd, POLLIN);
  io_uring_submit(ring);
}

int main(void) {
  static loopback self;
  struct io_uring ring;
  skiff_context* context = loopback_context(0);
  const int ours = skiff_context_fd(context);

  loopback_check(io_uring_queue_init(8, &ring, 0) == 0, "io_uring_queue_init",
                 "this kernel has no io_uring");
  watch(&ring, ours);
  loopback_begin(&self, context);
  while (!loopback_finished(&self)) {
    struct io_uring_cqe* event = NULL;
    int timeout = -1;
    loopback_done(skiff_context_timeout(context, &timeout),
                  "skiff_context_timeout");
    struct __kernel_timespec until = {timeout / 1000,
                                      timeout % 1000 * 1000000LL};
    io_uring_wait_cqe_timeout(&ring, &event, timeout < 0 ? NULL : &until);
    loopback_check(skiff_context_poll(context) >= 0, "skiff_context_poll",
                   skiff_last_error());
    if (event != NULL) {
      io_uring_cqe_seen(&ring, event);
      watch(&ring, ours);
    }
  }
  io_uring_queue_exit(&ring);
  loopback_end(context);
  puts("uring: done");
  return 0;
}
