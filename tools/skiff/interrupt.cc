#include "tools/skiff/interrupt.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <mutex>
#include <thread>
#include <utility>

#include "tools/common/process.h"

namespace skiff::tools {
namespace {

constexpr int kSignalled = 128;  // And the signal's number.

struct Watch {
  std::atomic<int> exit_status{0};
  int fd = -1;
  std::mutex mutex;
  absl::AnyInvocable<void()> stop;  // Null outside of a scope.
  absl::AnyInvocable<void(int)> ended;
};

// Lives as long as the thread, which nothing ends.
Watch& TheWatch() {
  static Watch* const kWatch = new Watch;
  return *kWatch;
}

void HandleSignals(sigset_t set) {
  Watch& watch = TheWatch();
  while (true) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    const int status = kSignalled + number;
    int none = 0;
    if (!watch.exit_status.compare_exchange_strong(none, status)) {
      // What else is under way may never end.
      _exit(status);
    }
    const std::lock_guard<std::mutex> lock(watch.mutex);
    if (watch.stop == nullptr) {
      // It may wait for a reader that has stopped, or for who does: a second
      // signal ends that.
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      watch.ended(status);
      _exit(status);
    }
    watch.stop();
    // Whoever this wakes may be done before the lock is free.
    eventfd_write(watch.fd, 1);
  }
}

}  // namespace

void WatchForInterrupts(absl::AnyInvocable<void(int)> ended) {
  TheWatch().ended = std::move(ended);
  TheWatch().fd = eventfd(0, EFD_CLOEXEC);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!StartedIgnoring(number)) sigaddset(&set, number);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(HandleSignals, set).detach();
}

int InterruptFd() { return TheWatch().fd; }

int InterruptedExitStatus() { return TheWatch().exit_status.load(); }

InterruptScope::InterruptScope(absl::AnyInvocable<void()> stop) {
  Watch& watch = TheWatch();
  const std::lock_guard<std::mutex> lock(watch.mutex);
  assert(watch.stop == nullptr);
  watch.stop = std::move(stop);
}

InterruptScope::~InterruptScope() {
  Watch& watch = TheWatch();
  const std::lock_guard<std::mutex> lock(watch.mutex);
  watch.stop = nullptr;
}

}  // namespace skiff::tools
