#ifndef SKIFF_TRANSPORT_REACTOR_MANUAL_REACTOR_H_
#define SKIFF_TRANSPORT_REACTOR_MANUAL_REACTOR_H_

#include <set>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/reactor/reactor.h"

namespace skiff::transport {

// A reactor whose clock and turns are a test's.
class ManualReactor final : public Reactor {
 public:
  ~ManualReactor() override { DestroyOwned(); }
  void Turn() {
    turn_ = now_ += absl::Microseconds(1);
    for (Poller* poller : std::set(pollers_)) poller->Poll();
    hooks_.RunAll();
  }
  void Pass(absl::Duration time) { now_ += time; }
  bool busy() const { return !pollers_.empty(); }

  absl::Time Now() const override { return turn_; }
  absl::Time NowInTurn() const override { return now_; }
  void Post(absl::AnyInvocable<void()>) override {}
  void AddPoller(Poller* poller, bool) override { pollers_.insert(poller); }
  void RemovePoller(Poller* poller) override { pollers_.erase(poller); }
  absl::Status WatchFd(int, uint32_t, FdHandler*) override {
    return absl::UnimplementedError("no descriptors");
  }
  absl::Status ModifyFd(int, uint32_t) override {
    return absl::UnimplementedError("no descriptors");
  }
  void UnwatchFd(int) override {}
  void ScheduleTurnEnd(TurnHook* hook) override { hooks_.Add(hook); }
  void ArmTimer(Timer*) override {}
  void DisarmTimer(Timer*) override {}

 private:
  absl::Time now_ = absl::UnixEpoch();
  absl::Time turn_ = now_;
  std::set<Poller*> pollers_;
  TurnHookList hooks_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_REACTOR_MANUAL_REACTOR_H_
