#include "transport/reactor/timer_heap.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

// Only timers work on this reactor.
class TimerReactor : public Reactor {
 public:
  absl::Time Now() const override { return now; }
  void Post(absl::AnyInvocable<void()>) override {}
  void AddPoller(Poller*, bool) override {}
  void RemovePoller(Poller*) override {}
  absl::Status WatchFd(int, uint32_t, FdHandler*) override {
    return absl::UnimplementedError("no descriptors");
  }
  absl::Status ModifyFd(int, uint32_t) override {
    return absl::UnimplementedError("no descriptors");
  }
  void UnwatchFd(int) override {}
  void ScheduleTurnEnd(TurnHook*) override {}
  void ArmTimer(Timer* timer) override { heap.Add(timer); }
  void DisarmTimer(Timer* timer) override { heap.Remove(timer); }

  absl::Time now = absl::UnixEpoch();
  TimerHeap heap;
};

TEST(TimerHeapTest, TiesExpireInTheOrderOfScheduling) {
  TimerReactor reactor;
  std::string order;
  std::vector<std::unique_ptr<Timer>> timers;
  for (char c = 'a'; c <= 'z'; ++c) {
    timers.push_back(
        std::make_unique<Timer>(&reactor, [&order, c] { order += c; }));
    timers.back()->ScheduleAt(reactor.now);
  }
  EXPECT_EQ(reactor.heap.ExpireUntil(reactor.now), 26);
  EXPECT_EQ(order, "abcdefghijklmnopqrstuvwxyz");
  EXPECT_TRUE(reactor.heap.empty());
}

TEST(TimerHeapTest, RescheduleReplacesTheDeadline) {
  TimerReactor reactor;
  int expired = 0;
  Timer timer(&reactor, [&] { ++expired; });
  timer.ScheduleAfter(absl::Seconds(1));
  timer.ScheduleAfter(absl::Seconds(5));
  EXPECT_EQ(reactor.heap.NextDeadline(), reactor.now + absl::Seconds(5));
  reactor.heap.ExpireUntil(reactor.now + absl::Seconds(4));
  EXPECT_EQ(expired, 0);
  reactor.heap.ExpireUntil(reactor.now + absl::Seconds(5));
  EXPECT_EQ(expired, 1);
  EXPECT_FALSE(timer.scheduled());
}

TEST(TimerHeapTest, PeriodicTimerInThePastExpiresOncePerCall) {
  TimerReactor reactor;
  int expired = 0;
  std::unique_ptr<Timer> timer;
  timer = std::make_unique<Timer>(&reactor, [&] {
    ++expired;
    timer->ScheduleAt(absl::InfinitePast());
  });
  timer->ScheduleAt(reactor.now);
  EXPECT_EQ(reactor.heap.ExpireUntil(reactor.now), 1);
  EXPECT_EQ(reactor.heap.ExpireUntil(reactor.now), 1);
  EXPECT_EQ(expired, 2);
}

TEST(TimerHeapTest, TimerMayDestroyItselfAndOthers) {
  TimerReactor reactor;
  bool other_ran = false;
  auto other = std::make_unique<Timer>(&reactor, [&] { other_ran = true; });
  std::unique_ptr<Timer> self;
  self = std::make_unique<Timer>(&reactor, [&] {
    other.reset();
    self.reset();
  });
  self->ScheduleAt(reactor.now);
  other->ScheduleAt(reactor.now);
  EXPECT_EQ(reactor.heap.ExpireUntil(reactor.now), 1);
  EXPECT_FALSE(other_ran);
}

TEST(TimerHeapTest, HeapThatGoesFirstUnschedulesItsTimers) {
  auto reactor = std::make_unique<TimerReactor>();
  Timer timer(reactor.get(), [] {});
  timer.ScheduleAfter(absl::Seconds(1));
  reactor.reset();
  EXPECT_FALSE(timer.scheduled());
}

// Random adds, cancels and expiries, compared with a sorted list.
TEST(TimerHeapTest, AgreesWithASortedList) {
  TimerReactor reactor;
  std::mt19937 random(1);
  std::vector<int> expired;
  std::vector<std::unique_ptr<Timer>> timers;
  for (int i = 0; i < 200; ++i) {
    timers.push_back(std::make_unique<Timer>(
        &reactor, [&expired, i] { expired.push_back(i); }));
  }
  std::vector<std::pair<int64_t, int>> model;  // Deadline, timer; stable order.
  auto forget = [&](int i) {
    model.erase(std::remove_if(model.begin(), model.end(),
                               [i](const auto& m) { return m.second == i; }),
                model.end());
  };
  for (int step = 0; step < 20000; ++step) {
    const int i = static_cast<int>(random() % timers.size());
    switch (random() % 8) {
      case 0:
        timers[i]->Cancel();
        forget(i);
        break;
      case 1: {
        reactor.now += absl::Seconds(random() % 20);
        const int64_t now = absl::ToUnixSeconds(reactor.now);
        std::vector<int> want;
        while (!model.empty() && model.front().first <= now) {
          want.push_back(model.front().second);
          model.erase(model.begin());
        }
        expired.clear();
        reactor.heap.ExpireUntil(reactor.now);
        ASSERT_EQ(expired, want) << "step " << step;
        break;
      }
      default: {
        const auto delay = static_cast<int64_t>(random() % 50);
        timers[i]->ScheduleAfter(absl::Seconds(delay));
        forget(i);
        const int64_t deadline = absl::ToUnixSeconds(reactor.now) + delay;
        auto after = std::find_if(
            model.begin(), model.end(),
            [deadline](const auto& m) { return m.first > deadline; });
        model.insert(after, {deadline, i});
        break;
      }
    }
  }
}

}  // namespace
}  // namespace skiff::transport
