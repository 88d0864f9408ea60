#ifndef SKIFF_TRANSPORT_REACTOR_REACTOR_H_
#define SKIFF_TRANSPORT_REACTOR_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace skiff::transport {

// Called with the epoll event bits of a watched descriptor.
class FdHandler {
 public:
  virtual ~FdHandler() = default;
  // May unwatch any descriptor, also its own.
  virtual void OnFdReady(uint32_t events) = 0;
};

// Called once every turn while registered. A reactor with at least one *busy*
// poller does not sleep.
class Poller {
 public:
  virtual ~Poller() = default;
  // Returns the number of events handled (0 = idle).
  virtual int Poll() = 0;
};

// Called once at the end of the turn in which it was scheduled. Intrusive: a
// hook that is scheduled twice in a turn runs once. Hooks scheduled by hooks
// run in the same turn, unless that goes on and on: the rest then waits for the
// next turn, which comes at once. Destroying a scheduled hook unschedules it.
class TurnHook {
 public:
  TurnHook() = default;
  TurnHook(const TurnHook&) = delete;
  TurnHook& operator=(const TurnHook&) = delete;
  virtual ~TurnHook() {
    if (list_ != nullptr) Unlink();
  }
  // May schedule hooks, this one too.
  virtual void OnTurnEnd() = 0;

 private:
  friend class TurnHookList;
  inline void Unlink();
  class TurnHookList* list_ = nullptr;
  TurnHook* prev_ = nullptr;
  TurnHook* next_ = nullptr;
};

// The intrusive list behind Reactor::ScheduleTurnEnd; for reactor
// implementations.
class TurnHookList {
 public:
  TurnHookList() = default;
  TurnHookList(const TurnHookList&) = delete;
  TurnHookList& operator=(const TurnHookList&) = delete;
  ~TurnHookList() {
    while (head_ != nullptr) Remove(head_);
  }

  // Puts it at the end, unless it is in a list.
  void Add(TurnHook* hook) {
    if (hook->list_ != nullptr) return;
    hook->list_ = this;
    hook->prev_ = tail_;
    hook->next_ = nullptr;
    (tail_ != nullptr ? tail_->next_ : head_) = hook;
    tail_ = hook;
    ++size_;
  }
  // Only what is in this list.
  void Remove(TurnHook* hook) {
    (hook->prev_ != nullptr ? hook->prev_->next_ : head_) = hook->next_;
    (hook->next_ != nullptr ? hook->next_->prev_ : tail_) = hook->prev_;
    hook->list_ = nullptr;
    --size_;
  }
  // Whether no hook waits.
  bool empty() const { return head_ == nullptr; }
  // Runs what is there, then what that has scheduled, and so on: kMaxRounds at
  // most, so that no hook can keep a turn from ending. Returns how many ran.
  int RunAll() {
    int ran = 0;
    for (int round = 0; round < kMaxRounds && head_ != nullptr; ++round) {
      for (size_t left = size_; left > 0 && head_ != nullptr; --left) {
        TurnHook* hook = head_;
        Remove(hook);
        hook->OnTurnEnd();
        ++ran;
      }
    }
    return ran;
  }

 private:
  // More than any work takes that is passed on from hook to hook.
  static constexpr int kMaxRounds = 8;

  size_t size_ = 0;
  TurnHook* head_ = nullptr;
  TurnHook* tail_ = nullptr;
};

void TurnHook::Unlink() { list_->Remove(this); }

// Something under way that nobody holds, such as a connection that is being
// accepted: Reactor::Own() keeps it.
class ReactorObject {
 public:
  ReactorObject() = default;
  ReactorObject(const ReactorObject&) = delete;
  ReactorObject& operator=(const ReactorObject&) = delete;
  virtual ~ReactorObject() = default;

 private:
  friend class Reactor;
  ReactorObject* prev_ = nullptr;
  ReactorObject* next_ = nullptr;
};

class Newcomers;  // newcomers.h
class Reactor;
class TurnShares;  // turn_shares.h

// A one-shot timer of one reactor. Not thread-safe: lives on its reactor's
// thread. Destroying it cancels it. Rescheduling replaces the deadline.
class Timer {
 public:
  // `on_expire` runs in the reactor's turn. It may schedule the timer again, or
  // destroy it.
  Timer(Reactor* reactor, absl::AnyInvocable<void()> on_expire)
      : reactor_(reactor), on_expire_(std::move(on_expire)) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  inline ~Timer();

  // On the clock of Reactor::Now(). What is past expires in this turn or in the
  // next, never from inside the call.
  inline void ScheduleAt(absl::Time when);
  // From Reactor::Now() on.
  inline void ScheduleAfter(absl::Duration delay);
  // `on_expire` does not run. Nothing to do if it is not scheduled.
  inline void Cancel();
  // Whether it will expire.
  bool scheduled() const { return heap_index_ != kNotScheduled; }
  // When, if it is scheduled.
  absl::Time deadline() const { return deadline_; }

  // For reactor implementations only.
  static constexpr size_t kNotScheduled = ~size_t{0};
  size_t heap_index_ = kNotScheduled;
  absl::Time deadline_ = absl::InfiniteFuture();
  uint64_t sequence_ = 0;  // Ties expire in the order of scheduling.
  // Runs `on_expire`, with the timer not scheduled any more.
  void Expire() { on_expire_(); }

 private:
  Reactor* reactor_;
  absl::AnyInvocable<void()> on_expire_;
};

// A Reactor is one event loop. Everything that belongs to it (endpoints,
// timers, pollers, sessions, transport channels) is created, used and destroyed
// on the thread that runs it, so none of it locks. The one thread-safe entry is
// Post().
//
// Two implementations exist: EpollReactor (real time, epoll_reactor.h) and the
// simulator's reactor (virtual time, testing/sim).
//
// One turn of a reactor, in order: ready file descriptors, posted functions,
// expired timers, pollers, then the turn-end hooks. Work queued by any of these
// is batched until the hooks run, so that one turn makes one send call per
// connection.
class Reactor {
 public:
  Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;
  virtual ~Reactor();

  // Keeps `object` until Disown(), or until the reactor is destroyed: then it
  // is, too, and what it would have called back is not called.
  inline void Own(std::unique_ptr<ReactorObject> object);
  // Gives it back.
  inline std::unique_ptr<ReactorObject> Disown(ReactorObject* object);

  // A monotonic clock, read once per turn. Its epoch means nothing; only
  // differences do.
  virtual absl::Time Now() const = 0;
  // That clock, read afresh: what parts of a turn took. In virtual time, it is
  // Now().
  virtual absl::Time NowInTurn() const { return Now(); }
  // Now() of the turn under way, or of the last one, in nanoseconds: for what
  // is measured of each command.
  int64_t turn_nanos() const { return turn_nanos_; }

  // Runs `fn` on this reactor's thread in a later turn; wakes it if it sleeps.
  // Thread-safe; functions from one thread keep their order. Functions still
  // queued when the reactor is destroyed are destroyed unrun.
  virtual void Post(absl::AnyInvocable<void()> fn) = 0;

  // `busy` pollers keep the reactor from sleeping. The poller must outlive its
  // registration; adding or removing from inside Poll() is allowed.
  virtual void AddPoller(Poller* poller, bool busy) = 0;
  // Poll() of it is not called any more when this returns.
  virtual void RemovePoller(Poller* poller) = 0;

  // Watches `fd` (not owned) for `events` (EPOLLIN | EPOLLOUT | EPOLLET ...).
  // After UnwatchFd returns, `handler` is not called any more, even for events
  // that were already collected.
  virtual absl::Status WatchFd(int fd, uint32_t events, FdHandler* handler) = 0;
  // Watches for other events.
  virtual absl::Status ModifyFd(int fd, uint32_t events) = 0;
  // Before the descriptor is closed.
  virtual void UnwatchFd(int fd) = 0;

  // Schedules `hook` for the end of the current turn (of the next one when
  // called between turns).
  virtual void ScheduleTurnEnd(TurnHook* hook) = 0;

  // True when the reactor was configured to spin instead of sleeping:
  // connections may then read speculatively each turn instead of waiting for
  // readiness.
  virtual bool spinning() const { return false; }
  // How long it goes on looking, when there is nothing to do, before it sleeps:
  // connections may be busy pollers meanwhile instead of asking to be woken.
  // Adaptive reactors change it.
  virtual absl::Duration spin() const { return absl::ZeroDuration(); }

  // True while busy pollers keep it from sleeping: to look along with them
  // costs no sleep.
  virtual bool kept_awake() const { return false; }

  // How those who have work in its turns share them.
  TurnShares& turn_shares() { return *turn_shares_; }
  // Those who come, log in and go.
  Newcomers& newcomers() { return *newcomers_; }

  // For Timer only.
  virtual void ArmTimer(Timer* timer) = 0;
  // Takes it out again.
  virtual void DisarmTimer(Timer* timer) = 0;

 protected:
  // For destructors of reactor implementations: what is destroyed here still
  // uses the whole reactor, and may post.
  inline void DestroyOwned();
  // Each turn, before anything else runs.
  void set_turn_time(absl::Time now) { turn_nanos_ = absl::ToUnixNanos(now); }

 private:
  int64_t turn_nanos_ = 0;
  ReactorObject* owned_ = nullptr;
  const std::unique_ptr<TurnShares> turn_shares_;
  const std::unique_ptr<Newcomers> newcomers_;
};

void Reactor::Own(std::unique_ptr<ReactorObject> object) {
  ReactorObject* const added = object.release();
  added->next_ = owned_;
  if (owned_ != nullptr) owned_->prev_ = added;
  owned_ = added;
}

std::unique_ptr<ReactorObject> Reactor::Disown(ReactorObject* object) {
  (object->prev_ != nullptr ? object->prev_->next_ : owned_) = object->next_;
  if (object->next_ != nullptr) object->next_->prev_ = object->prev_;
  object->prev_ = object->next_ = nullptr;
  return std::unique_ptr<ReactorObject>(object);
}

void Reactor::DestroyOwned() {
  while (owned_ != nullptr) Disown(owned_);
}

Timer::~Timer() { Cancel(); }
void Timer::ScheduleAt(absl::Time when) {
  Cancel();
  deadline_ = when;
  reactor_->ArmTimer(this);
}
void Timer::ScheduleAfter(absl::Duration delay) {
  ScheduleAt(reactor_->Now() + delay);
}
void Timer::Cancel() {
  if (scheduled()) reactor_->DisarmTimer(this);
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_REACTOR_H_
