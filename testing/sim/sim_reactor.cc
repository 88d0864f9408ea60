#include "testing/sim/sim_reactor.h"

#include <sys/epoll.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/system/spare_memory.h"

namespace skiff::testing {
namespace {

constexpr absl::Duration kBusyTurn = absl::Microseconds(1);

}  // namespace

SimEventSource::SimEventSource(SimWorld* world)
    : world_(world), fd_(world->next_source_fd_++) {
  world_->sources_[fd_] = this;
}

SimEventSource::~SimEventSource() {
  if (watcher_ != nullptr) watcher_->UnwatchFd(fd_);
  world_->sources_.erase(fd_);
}

void SimEventSource::SetReadable(bool readable) {
  readable_ = readable;
  if (watcher_ != nullptr) watcher_->SourceChanged(this);
}

// A watched descriptor. Being scheduled as a hook means that an event waits.
struct SimReactor::Watch final : transport::TurnHook {
  bool WantsInput() const { return (events & EPOLLIN) != 0; }
  bool LevelReady() const {
    return WantsInput() && (events & EPOLLET) == 0 && source->readable();
  }
  // The handler may unwatch, and so destroy this.
  void OnTurnEnd() override {
    if (!source->readable()) return;
    ++source->watcher_->wakeups_;
    handler->OnFdReady(EPOLLIN);
  }

  SimEventSource* source = nullptr;
  uint32_t events = 0;
  transport::FdHandler* handler = nullptr;
};

SimReactor::SimReactor(SimWorld* world, std::string host)
    : world_(world), host_(std::move(host)) {
  set_turn_time(world_->now());
}

SimReactor::~SimReactor() {
  DestroyOwned();
  posts_.Discard();
  DestroyOwned();
  while (!watches_.empty()) UnwatchFd(watches_.begin()->first);
}

void SimReactor::Post(absl::AnyInvocable<void()> fn) {
  posts_.Push(std::move(fn));
}

void SimReactor::AddPoller(transport::Poller* poller, bool busy) {
  pollers_.Add(poller, busy);
}

void SimReactor::RemovePoller(transport::Poller* poller) {
  pollers_.Remove(poller);
}

absl::Status SimReactor::WatchFd(int fd, uint32_t events,
                                 transport::FdHandler* handler) {
  auto found = world_->sources_.find(fd);
  if (found == world_->sources_.end()) {
    return absl::UnimplementedError(
        absl::StrCat("descriptor ", fd,
                     " is not of the simulated world; a SimReactor "
                     "watches completion queues of the sim transport only"));
  }
  SimEventSource* source = found->second;
  if (source->watcher_ != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("descriptor ", fd, " is watched already"));
  }
  auto watch = std::make_unique<Watch>();
  watch->source = source;
  watch->events = events;
  watch->handler = handler;
  source->watcher_ = this;
  if (source->readable() && watch->WantsInput()) ready_.Add(watch.get());
  watches_[fd] = std::move(watch);
  return absl::OkStatus();
}

absl::Status SimReactor::ModifyFd(int fd, uint32_t events) {
  auto found = watches_.find(fd);
  if (found == watches_.end()) {
    return absl::NotFoundError(
        absl::StrCat("descriptor ", fd, " is not watched by this reactor"));
  }
  found->second->events = events;
  SourceChanged(found->second->source);
  return absl::OkStatus();
}

void SimReactor::UnwatchFd(int fd) {
  auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  found->second->source->watcher_ = nullptr;
  watches_.erase(found);
}

void SimReactor::SourceChanged(SimEventSource* source) {
  Watch* watch = watches_.at(source->fd()).get();
  if (source->readable() && watch->WantsInput()) ready_.Add(watch);
}

void SimReactor::ScheduleTurnEnd(transport::TurnHook* hook) {
  hooks_.Add(hook);
}
void SimReactor::ArmTimer(transport::Timer* timer) { timers_.Add(timer); }
void SimReactor::DisarmTimer(transport::Timer* timer) { timers_.Remove(timer); }

absl::Time SimReactor::WakeTime() const {
  absl::Time wake = timers_.NextDeadline();
  if (posts_.pending()) wake = absl::InfinitePast();
  // What a turn did not get done waits for the next one, as time goes on.
  if (!ready_.empty() || !hooks_.empty()) {
    wake = std::min(
        wake, unfinished_ ? last_turn_ + kBusyTurn : absl::InfinitePast());
  }
  for (const auto& [fd, watch] : watches_) {
    if (watch->LevelReady()) wake = absl::InfinitePast();
  }
  if (busy()) {
    wake = std::min(wake, last_turn_ + kBusyTurn);
  }
  return std::max(wake, stalled_until_);
}

constinit thread_local const SimReactor* SimReactor::turning_now = nullptr;

void SimReactor::Turn() {
  last_turn_ = world_->now();
  set_turn_time(last_turn_);
  turning_now = this;
  world_->Trace("turn", std::hash<std::string>()(host_));
  for (const auto& [fd, watch] : watches_) {
    if (watch->LevelReady()) ready_.Add(watch.get());
  }
  ready_.RunAll();
  posts_.RunAll();
  timers_.ExpireUntil(world_->now());
  pollers_.PollAll();
  hooks_.RunAll();
  turning_now = nullptr;
  transport::SpareMemory::Refill();
  unfinished_ = !ready_.empty() || !hooks_.empty();
}

}  // namespace skiff::testing
