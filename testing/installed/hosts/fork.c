/* A program that forks while it has a context: the child is told that it has no
   part in it, makes one of its own, and the parent goes on. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loopback.h"

static void child(loopback* parents) {
  loopback_check(skiff_context_poll(parents->context) == -ECHILD,
                 "skiff_context_poll in a child", "is not -ECHILD");
  loopback_check(skiff_disk_flush(parents->disk, skiff_ignore, NULL) == -ECHILD,
                 "skiff_disk_flush in a child", "is not -ECHILD");
  loopback_check(skiff_context_close(parents->context) == -ECHILD,
                 "skiff_context_close in a child", "is not -ECHILD");
  loopback_run();
  _exit(0);
}

int main(void) {
  static loopback self;
  int status = -1;
  skiff_context* context = loopback_context(0);
  loopback_begin(&self, context);
  for (int turns = 0; !loopback_finished(&self); ++turns) {
    if (turns == 2) {
      const pid_t forked = fork();
      if (forked == 0) child(&self);
      waitpid(forked, &status, 0);
    }
    loopback_check(skiff_context_wait(context, 100) >= 0, "skiff_context_wait",
                   skiff_last_error());
  }
  loopback_end(context);
  loopback_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child",
                 "failed");
  puts("fork: done");
  return 0;
}
