#ifndef SKIFF_TESTING_SIM_SIM_REACTOR_H_
#define SKIFF_TESTING_SIM_SIM_REACTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "testing/sim/sim_world.h"
#include "transport/reactor/poller_list.h"
#include "transport/reactor/post_queue.h"
#include "transport/reactor/reactor.h"
#include "transport/reactor/timer_heap.h"

namespace skiff::testing {

class SimReactor;

// A simulated descriptor that a SimReactor can watch for EPOLLIN: a completion
// queue's, for instance.
class SimEventSource {
 public:
  explicit SimEventSource(SimWorld* world);
  ~SimEventSource();
  SimEventSource(const SimEventSource&) = delete;
  SimEventSource& operator=(const SimEventSource&) = delete;

  int fd() const { return fd_; }
  bool readable() const { return readable_; }
  void SetReadable(bool readable);

 private:
  friend class SimReactor;
  SimWorld* const world_;
  const int fd_;
  bool readable_ = false;
  SimReactor* watcher_ = nullptr;
};

// A reactor of one host of a SimWorld, in virtual time. A turn takes no time.
// Reactors that never sleep (busy pollers, spinning) have a turn every
// microsecond.
class SimReactor final : public transport::Reactor {
 public:
  // Use SimWorld::AddReactor().
  SimReactor(SimWorld* world, std::string host);
  ~SimReactor() override;

  SimWorld* world() const { return world_; }
  const std::string& host() const { return host_; }
  // As EpollReactorOptions::spin, for connections; the reactor itself never
  // sleeps if it is infinite, and sleeps at once otherwise.
  void set_spin(absl::Duration spin) { spin_ = spin; }
  // Has a turn whatever happens.
  bool busy() const { return spinning() || pollers_.any_busy(); }
  // Whose turn it is on this thread; null: nobody's.
  static const SimReactor* turning() { return turning_now; }
  // How often a watched descriptor was found ready.
  uint64_t wakeups() const { return wakeups_; }
  // Holds every turn back until the given instant, as if the thread had been
  // descheduled; the clock and the network go on.
  void StallUntil(absl::Time when) { stalled_until_ = when; }

  // Each look at the clock within a turn finds it later by so much: what a turn
  // does seems to take time then, although it takes none of the world's.
  void set_look(absl::Duration look) { look_ = look; }

  absl::Time Now() const override { return world_->now(); }
  absl::Time NowInTurn() const override {
    looked_ += look_;
    return world_->now() + looked_;
  }
  void Post(absl::AnyInvocable<void()> fn) override;
  void AddPoller(transport::Poller* poller, bool busy) override;
  void RemovePoller(transport::Poller* poller) override;
  // Only for the simulator's own descriptors (SimEventSource), and for EPOLLIN,
  // level- or edge-triggered. Real descriptors have no place in virtual time:
  // kUnimplemented.
  absl::Status WatchFd(int fd, uint32_t events,
                       transport::FdHandler* handler) override;
  absl::Status ModifyFd(int fd, uint32_t events) override;
  void UnwatchFd(int fd) override;
  void ScheduleTurnEnd(transport::TurnHook* hook) override;
  bool spinning() const override { return spin_ == absl::InfiniteDuration(); }
  absl::Duration spin() const override { return spin_; }
  void ArmTimer(transport::Timer* timer) override;
  void DisarmTimer(transport::Timer* timer) override;

  // For simulated endpoints: runs `hook` where the next turn (or this one, if
  // it has not got past them) handles ready descriptors.
  void ScheduleReady(transport::TurnHook* hook) { ready_.Add(hook); }

 private:
  friend class SimEventSource;
  friend class SimWorld;
  struct Watch;

  // When Turn() must be called next.
  absl::Time WakeTime() const;
  void Turn();
  void SourceChanged(SimEventSource* source);

  static constinit thread_local const SimReactor* turning_now;

  SimWorld* const world_;
  const std::string host_;
  absl::Duration spin_;
  uint64_t wakeups_ = 0;
  absl::Duration look_;
  mutable absl::Duration looked_;
  absl::Time stalled_until_ = absl::InfinitePast();
  absl::Time last_turn_ = absl::InfinitePast();
  bool unfinished_ = false;  // The last turn left hooks behind.
  transport::TurnHookList ready_;
  transport::PostQueue posts_;
  transport::TimerHeap timers_;
  transport::PollerList pollers_;
  transport::TurnHookList hooks_;
  std::map<int, std::unique_ptr<Watch>> watches_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_REACTOR_H_
