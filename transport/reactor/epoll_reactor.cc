#include "transport/reactor/epoll_reactor.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/reactor/adaptive_spin.h"
#include "transport/reactor/epoll_wait.h"
#include "transport/reactor/idle_time.h"
#include "transport/reactor/poller_list.h"
#include "transport/reactor/post_queue.h"
#include "transport/reactor/processor_sharing.h"
#include "transport/reactor/timer_heap.h"
#include "transport/reactor/turn_shares.h"
#include "transport/system/spare_memory.h"

namespace skiff::transport {
namespace {

// Longer, and a reactor would seem to hang.
constexpr absl::Duration kMaxDescriptorInterval = absl::Milliseconds(100);

// Marks the events of the wakeup descriptor; no watched descriptor has this
// token.
constexpr uint64_t kWakeToken = ~uint64_t{0};

absl::Duration TimeUntil(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(deadline - EpollReactor::MonotonicNow(),
                  absl::ZeroDuration());
}

// What to do about an error of epoll_ctl(2).
const char* WatchHint(int error_number) {
  switch (error_number) {
    case EBADF:
    case ENOENT:
      return " - it was closed while this reactor watched it: does other code "
             "in this process close descriptors that are not its own?";
    case EPERM:
      return " - files and directories cannot be watched";
    case ENOSPC:
      return " - raise fs.epoll.max_user_watches";
    default:
      return "";
  }
}

absl::Status WatchError(const char* doing, int fd, int error_number) {
  return absl::ErrnoToStatus(error_number,
                             absl::StrCat("cannot ", doing, " descriptor ", fd,
                                          WatchHint(error_number)));
}

class EpollReactorImpl final : public EpollReactor {
 public:
  EpollReactorImpl(const EpollReactorOptions& options, int epoll_fd,
                   int wake_fd)
      : epoll_fd_(epoll_fd),
        wake_fd_(wake_fd),
        spin_(options.spin),
        adaptive_(options.adaptive_spin),
        adaptive_spin_(options.spin),
        descriptor_interval_(options.descriptor_interval),
        events_(options.max_events_per_turn) {
    idle_.Begin(now_);
    set_turn_time(now_);
  }

  ~EpollReactorImpl() override {
    DestroyOwned();
    // What was posted may hold objects that still need this reactor to let go,
    // and leave it what is to be done later.
    posts_.Discard();
    DestroyOwned();
    close(wake_fd_);
    close(epoll_fd_);
  }

  void Run() override {
    processor_.Begin(MonotonicNow());
    while (!stop_.load(std::memory_order_relaxed)) {
      if (pollers_.any_busy() || (spinning() && !pollers_.empty())) {
        BusyTurn();
      } else {
        const absl::Duration timeout = TimeUntil(NextDeadline());
        if (timeout > absl::ZeroDuration()) BeginIdle();
        if (Turn(timeout) == 0) GiveWay();
      }
    }
    stop_.store(false);
    gave_way_ = false;
    processor_.End();
    turn_shares().set_crowded(false);
    ExpectWakeups();
  }

  void Stop() override {
    stop_.store(true);
    Wake();
  }

  int fd() const override { return epoll_fd_; }

  int Poll() override {
    posts_.EndSleep();
    const int handled = Turn(absl::ZeroDuration());
    if (spin() == absl::ZeroDuration()) BeginIdle();
    ExpectWakeups();
    return handled;
  }

  absl::Time NextDeadline() const override {
    if (pollers_.any_busy() || !hooks_.empty() || posts_.pending() || Spins()) {
      return absl::InfinitePast();
    }
    return timers_.NextDeadline();
  }

  // Between turns the clock is read afresh, for a caller that sets timers
  // there.
  absl::Time Now() const override { return in_turn_ ? now_ : MonotonicNow(); }
  absl::Time NowInTurn() const override { return MonotonicNow(); }
  absl::Duration idle_time() const override {
    return idle_.Total(MonotonicNow());
  }

  void Post(absl::AnyInvocable<void()> fn) override {
    if (posts_.Push(std::move(fn))) Wake();
  }

  void AddPoller(Poller* poller, bool busy) override {
    pollers_.Add(poller, busy);
  }
  void RemovePoller(Poller* poller) override { pollers_.Remove(poller); }

  absl::Status WatchFd(int fd, uint32_t events, FdHandler* handler) override;
  absl::Status ModifyFd(int fd, uint32_t events) override;
  void UnwatchFd(int fd) override;

  void ScheduleTurnEnd(TurnHook* hook) override { hooks_.Add(hook); }

  bool spinning() const override { return spin_ == absl::InfiniteDuration(); }
  absl::Duration spin() const override {
    return adaptive_ ? adaptive_spin_.window(now_) : spin_;
  }

  bool kept_awake() const override { return pollers_.any_busy(); }

  void ArmTimer(Timer* timer) override { timers_.Add(timer); }
  void DisarmTimer(Timer* timer) override { timers_.Remove(timer); }

 private:
  struct Watch {
    FdHandler* handler = nullptr;
    // Counts the watches of this descriptor number, so that an event that was
    // collected for an earlier one is recognized.
    uint32_t generation = 0;
  };

  static uint64_t Token(int fd, uint32_t generation) {
    return (uint64_t{generation} << 32) | static_cast<uint32_t>(fd);
  }

  bool Watched(int fd) const {
    return fd >= 0 && static_cast<size_t>(fd) < watches_.size() &&
           watches_[fd].handler != nullptr;
  }

  // The descriptor is registered edge-triggered: each write makes one event,
  // and nobody needs to read the counter back.
  void Wake() {
    const uint64_t one = 1;
    // Can only fail when the counter is full, and then a wakeup is under way.
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  }

  // Hands over to a caller's loop: whatever is posted from now on makes fd()
  // readable.
  void ExpectWakeups() {
    if (!posts_.BeginSleep()) Wake();
  }

  // Looks once more before it sleeps.
  bool Spins() const {
    const absl::Duration window = spin();
    return window > absl::ZeroDuration() && now_ - idle_.since() < window;
  }

  // After a look in vain, if the reactor is adaptive: whoever else wants this
  // processor may be who it waits for. Where nobody does, this is soon back.
  void GiveWay() {
    if (!adaptive_ || spin() == absl::ZeroDuration()) return;
    sched_yield();
    gave_way_ = true;
  }

  // There is nothing to do from now on; no news if there was nothing before.
  void BeginIdle() {
    if (!idle_.idle()) idle_.Begin(MonotonicNow());
  }
  // Of a turn in which something came.
  void EndIdle() {
    if (!idle_.idle()) return;
    if (adaptive_) adaptive_spin_.OnIdle(now_ - idle_.since());
    idle_.End(now_);
  }

  int Turn(absl::Duration timeout);
  void BusyTurn();
  // Reads the clock. It has waited for events since then, or did not wait.
  void BeginTurn(absl::Time since = absl::InfiniteFuture());
  void ShareProcessor();
  // What a turn does at the time now_, with so many events.
  int Handle(int count);
  int Dispatch(int count);

  const int epoll_fd_;
  const int wake_fd_;
  const absl::Duration spin_;
  const bool adaptive_;
  AdaptiveSpin adaptive_spin_;
  ProcessorSharing processor_;
  const absl::Duration descriptor_interval_;
  std::vector<epoll_event> events_;
  std::vector<Watch> watches_;  // By descriptor.
  PostQueue posts_;
  TimerHeap timers_;
  PollerList pollers_;
  TurnHookList hooks_;
  std::atomic<bool> stop_{false};
  bool in_turn_ = false;
  bool gave_way_ = false;            // Since the last turn.
  absl::Time now_ = MonotonicNow();  // The last turn's.
  // Since the first turn of late that found nothing to do. What a turn finds
  // may be followed by more.
  IdleTime idle_;
  absl::Time last_look_ = absl::InfinitePast();  // At descriptors.
};

absl::Status EpollReactorImpl::WatchFd(int fd, uint32_t events,
                                       FdHandler* handler) {
  if (fd < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot watch descriptor ", fd));
  }
  if (Watched(fd)) {
    return absl::AlreadyExistsError(
        absl::StrCat("descriptor ", fd, " is watched by this reactor already"));
  }
  if (static_cast<size_t>(fd) >= watches_.size()) watches_.resize(fd + 1);
  Watch& watch = watches_[fd];
  epoll_event event = {};
  event.events = events;
  event.data.u64 = Token(fd, watch.generation + 1);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return WatchError("watch", fd, errno);
  }
  ++watch.generation;
  watch.handler = handler;
  return absl::OkStatus();
}

absl::Status EpollReactorImpl::ModifyFd(int fd, uint32_t events) {
  if (!Watched(fd)) {
    return absl::NotFoundError(
        absl::StrCat("descriptor ", fd, " is not watched by this reactor"));
  }
  epoll_event event = {};
  event.events = events;
  event.data.u64 = Token(fd, watches_[fd].generation);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) != 0) {
    return WatchError("change what is watched of", fd, errno);
  }
  return absl::OkStatus();
}

void EpollReactorImpl::UnwatchFd(int fd) {
  if (!Watched(fd)) return;
  watches_[fd].handler = nullptr;
  // Fails only if the descriptor was closed first, and epoll forgot it then.
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void EpollReactorImpl::BeginTurn(absl::Time since) {
  const absl::Time before = std::exchange(now_, MonotonicNow());
  processor_.OnWaited(since, now_);
  if (std::exchange(gave_way_, false)) {
    adaptive_spin_.OnYield(now_ - before, now_, processor_.crowded());
    processor_.OnYielded(now_);
  }
  if (processor_.due(now_)) ShareProcessor();
  set_turn_time(now_);
}

void EpollReactorImpl::ShareProcessor() {
  const bool yielded = processor_.Attend(now_);
  turn_shares().set_crowded(processor_.crowded());
  if (!yielded) return;
  now_ = MonotonicNow();
  processor_.OnYielded(now_);
}

int EpollReactorImpl::Turn(absl::Duration timeout) {
  const bool sleep = timeout > absl::ZeroDuration() && posts_.BeginSleep();
  const absl::Time since =
      sleep && processor_.crowded() ? MonotonicNow() : absl::InfiniteFuture();
  const int count = WaitForEvents(epoll_fd_, &events_,
                                  sleep ? timeout : absl::ZeroDuration());
  if (sleep) {
    posts_.EndSleep();
    gave_way_ = false;  // The turn before was followed by more than a yield.
  }
  BeginTurn(since);
  last_look_ = now_;
  return Handle(count);
}

// One that pollers keep from sleeping. What is posted needs no descriptor then.
void EpollReactorImpl::BusyTurn() {
  BeginTurn();
  int count = 0;
  if (now_ - last_look_ >= descriptor_interval_) {
    count = WaitForEvents(epoll_fd_, &events_, absl::ZeroDuration());
    last_look_ = now_;
  }
  if (Handle(count) == 0 && last_look_ == now_) GiveWay();
}

int EpollReactorImpl::Handle(int count) {
  if (count < 0) count = 0;  // A signal.
  in_turn_ = true;
  int came = Dispatch(count);
  came += posts_.RunAll();
  const int expired = timers_.ExpireUntil(now_);
  came += pollers_.PollAll();
  const int ran = hooks_.RunAll();
  SpareMemory::Refill();
  in_turn_ = false;
  // Timers, and what follows from them, come when they were said to: whoever
  // waits for nothing else may as well sleep.
  if (came > 0 || (ran > 0 && expired == 0)) {
    EndIdle();
  } else if (!idle_.idle()) {
    idle_.Begin(now_);
  }
  return came + expired + ran;
}

int EpollReactorImpl::Dispatch(int count) {
  int handled = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event event = events_[i];
    if (event.data.u64 == kWakeToken) continue;
    const auto fd = static_cast<uint32_t>(event.data.u64);
    const Watch watch = watches_[fd];
    if (watch.handler == nullptr ||
        watch.generation != static_cast<uint32_t>(event.data.u64 >> 32)) {
      continue;
    }
    watch.handler->OnFdReady(event.events);
    ++handled;
  }
  return handled;
}

}  // namespace

absl::Time EpollReactor::MonotonicNow() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return absl::TimeFromTimespec(ts);
}

absl::StatusOr<std::unique_ptr<EpollReactor>> EpollReactor::Create(
    const EpollReactorOptions& options) {
  if (options.max_events_per_turn < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_events_per_turn must be at least 1, not ",
                     options.max_events_per_turn));
  }
  if (options.spin < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("spin must not be negative, but is ",
                     absl::FormatDuration(options.spin)));
  }
  if (options.adaptive_spin && options.spin > AdaptiveSpin::kMaxLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("an adaptive spin must be at most ",
                     absl::FormatDuration(AdaptiveSpin::kMaxLimit), ", but is ",
                     absl::FormatDuration(options.spin)));
  }
  if (options.descriptor_interval < absl::ZeroDuration() ||
      options.descriptor_interval > kMaxDescriptorInterval) {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor_interval must be between 0 and ",
                     absl::FormatDuration(kMaxDescriptorInterval), ", but is ",
                     absl::FormatDuration(options.descriptor_interval)));
  }
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) {
    return absl::ErrnoToStatus(
        errno,
        "cannot create an epoll descriptor; raise the limit on open "
        "files (ulimit -n) if it was reached");
  }
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kWakeToken;
  if (wake_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    absl::Status status = absl::ErrnoToStatus(
        errno,
        "cannot create a reactor's wakeup descriptor; raise the limit "
        "on open files (ulimit -n) if it was reached");
    if (wake_fd >= 0) close(wake_fd);
    close(epoll_fd);
    return status;
  }
  EpollReactorOptions chosen = options;
  if (options.adaptive_spin && options.spin == absl::ZeroDuration()) {
    chosen.spin = SpinThatPays();
  }
  return std::make_unique<EpollReactorImpl>(chosen, epoll_fd, wake_fd);
}

}  // namespace skiff::transport
