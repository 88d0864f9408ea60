#ifndef SKIFF_TOOLS_SKIFF_INTERRUPT_H_
#define SKIFF_TOOLS_SKIFF_INTERRUPT_H_

#include "absl/functional/any_invocable.h"

// What Ctrl-C does (SIGINT), and with it SIGTERM and SIGHUP, unless whoever
// started the program has it ignore them: a subcommand that has something to
// show for its work is asked to stop and report it; others end at once. A
// second signal ends each at once. The exit status is 128 and the number of the
// signal, as shells have it.

namespace skiff::tools {

// Once, before any other thread, since all of them must leave the signals to
// the one that this starts. `ended` runs on that thread before a signal ends
// the program at once, and gets the exit status.
void WatchForInterrupts(absl::AnyInvocable<void(int)> ended);

// The exit status after a signal; 0 when there was none. Thread-safe.
int InterruptedExitStatus();

// Readable after a signal, for those that wait for a descriptor; -1 where
// signals are not watched.
int InterruptFd();

// While it lives, the first signal calls `stop`, on a thread of its own, and
// nothing else. One at a time.
class InterruptScope {
 public:
  explicit InterruptScope(absl::AnyInvocable<void()> stop);
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  // Waits for `stop` where it runs.
  ~InterruptScope();
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_INTERRUPT_H_
