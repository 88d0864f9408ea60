#ifndef SKIFF_TRANSPORT_REACTOR_EPOLL_REACTOR_H_
#define SKIFF_TRANSPORT_REACTOR_EPOLL_REACTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// How a reactor waits for events.
struct EpollReactorOptions {
  // Spin for this long, when there is nothing to do, before sleeping.
  // Zero: sleep at once (event-driven). InfiniteDuration(): never sleep
  // (polling).
  absl::Duration spin = absl::ZeroDuration();
  // Spin only where the events of late came that soon (adaptive_spin.h). A
  // `spin` of zero then is a time that suits the machine, SpinThatPays(), which
  // the first Create() takes some milliseconds to measure; it is at most a
  // minute. Run() yields the processor meanwhile, as far as the thread's
  // scheduling policy does that.
  bool adaptive_spin = false;
  // Events taken from the kernel in one turn.
  int max_events_per_turn = 64;
  // How often the kernel is asked for events at most, in Run() while pollers
  // keep the reactor from sleeping (busy ones, or any if it never sleeps):
  // asking costs several times what such a turn does otherwise. A descriptor is
  // noticed later by no more than this and one turn. Zero: ask in every turn.
  absl::Duration descriptor_interval = absl::Microseconds(1);
};

// The reactor over epoll. Drive it in one of two ways:
//  - Skiff's own thread: Run() until Stop();
//  - the caller's loop: wait until fd() is readable or NextDeadline() passes,
//  then
//    call Poll(). A busy poller or spin option makes NextDeadline() the past.
class EpollReactor : public Reactor {
 public:
  // On any thread. Errors name the system call that failed.
  static absl::StatusOr<std::unique_ptr<EpollReactor>> Create(
      const EpollReactorOptions& options = {});

  // Runs turns on the calling thread until Stop().
  virtual void Run() = 0;
  // Thread-safe and async-signal-safe. Makes the current or next Run() return.
  virtual void Stop() = 0;

  // Readable when there is something for Poll() to do. Owned by the reactor.
  virtual int fd() const = 0;
  // One turn, without sleeping. Returns the number of events handled.
  virtual int Poll() = 0;
  // When Poll() must be called next even if fd() stays quiet; InfiniteFuture()
  // if never. On the clock of MonotonicNow().
  virtual absl::Time NextDeadline() const = 0;

  // Thread-safe. How long, so far, it had nothing to do: it slept, or looked
  // for something in vain. Of the time since it was created; the rest is what
  // it was busy.
  virtual absl::Duration idle_time() const = 0;

  // The clock behind Now(), read afresh.
  static absl::Time MonotonicNow();
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_EPOLL_REACTOR_H_
