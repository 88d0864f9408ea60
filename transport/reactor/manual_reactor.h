#ifndef SKIFF_TRANSPORT_REACTOR_MANUAL_REACTOR_H_
#define SKIFF_TRANSPORT_REACTOR_MANUAL_REACTOR_H_

#include <sys/epoll.h>

#include <algorithm>
#include <map>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// A reactor whose clock and turns are a test's.
class ManualReactor final : public Reactor {
 public:
  // `descriptors`: has some, of which the test tells.
  explicit ManualReactor(bool descriptors = false)
      : descriptors_(descriptors) {}
  ~ManualReactor() override { DestroyOwned(); }
  void Turn() {
    turn_ = now_ += absl::Microseconds(1);
    set_turn_time(turn_);
    for (const auto& [poller, busy] : std::map(pollers_)) poller->Poll();
    hooks_.RunAll();
  }
  void Pass(absl::Duration time) { now_ += time; }
  bool busy() const { return !pollers_.empty(); }
  // Before a turn: there is something at this descriptor.
  void Ready(int fd) {
    if (const auto watch = watches_.find(fd); watch != watches_.end()) {
      watch->second->OnFdReady(EPOLLIN);
    }
  }

  absl::Time Now() const override { return turn_; }
  absl::Time NowInTurn() const override { return now_; }
  void Post(absl::AnyInvocable<void()>) override {}
  void AddPoller(Poller* poller, bool busy) override {
    pollers_.emplace(poller, busy);
  }
  void RemovePoller(Poller* poller) override { pollers_.erase(poller); }
  bool kept_awake() const override {
    return std::any_of(pollers_.begin(), pollers_.end(),
                       [](const auto& poller) { return poller.second; });
  }
  absl::Status WatchFd(int fd, uint32_t, FdHandler* handler) override {
    if (!descriptors_) return absl::UnimplementedError("no descriptors");
    watches_.emplace(fd, handler);
    return absl::OkStatus();
  }
  absl::Status ModifyFd(int, uint32_t) override {
    return absl::UnimplementedError("no descriptors");
  }
  void UnwatchFd(int fd) override { watches_.erase(fd); }
  void ScheduleTurnEnd(TurnHook* hook) override { hooks_.Add(hook); }
  void ArmTimer(Timer*) override {}
  void DisarmTimer(Timer*) override {}

 private:
  const bool descriptors_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Time turn_ = now_;
  std::map<Poller*, bool> pollers_;  // Whether they are busy.
  std::map<int, FdHandler*> watches_;
  TurnHookList hooks_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_MANUAL_REACTOR_H_
