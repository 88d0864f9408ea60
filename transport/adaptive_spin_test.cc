#include "transport/adaptive_spin.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/epoll_reactor.h"

namespace skiff::transport {
namespace {

constexpr absl::Duration kLimit = absl::Microseconds(400);

// What so many idle times of `idle` after another make of it.
bool SpinsAfter(AdaptiveSpin* spin, absl::Duration idle, int times) {
  for (int i = 0; i < times; ++i) spin->OnIdle(idle);
  return spin->window() == kLimit;
}

TEST(AdaptiveSpinTest, SpinsWhereEventsComeSoon) {
  AdaptiveSpin spin(kLimit);
  EXPECT_EQ(spin.window(), absl::ZeroDuration());
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 2, 1));
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 2, 1000));
  EXPECT_EQ(spin.limit(), kLimit);
}

TEST(AdaptiveSpinTest, LosesFewTimesWhereTheyStop) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, absl::ZeroDuration(), 1000000);
  EXPECT_TRUE(SpinsAfter(&spin, kLimit, 2));
  EXPECT_FALSE(SpinsAfter(&spin, kLimit, 1));
}

TEST(AdaptiveSpinTest, WaitsForSeveralBeforeItSpinsAgain) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, absl::InfiniteDuration(), 1000000);
  EXPECT_FALSE(SpinsAfter(&spin, absl::ZeroDuration(), 3));
  EXPECT_TRUE(SpinsAfter(&spin, absl::ZeroDuration(), 1));
}

// As of a command now and then, each of which is several events.
TEST(AdaptiveSpinTest, NeverSpinsForAsManyLongTimesAsShort) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, absl::Seconds(1), 3);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(SpinsAfter(&spin, absl::Microseconds(1), 1));
    EXPECT_FALSE(SpinsAfter(&spin, absl::Seconds(1), 1));
  }
}

// What the class promises, whatever comes.
TEST(AdaptiveSpinTest, SpendsNoMoreThanTheShortTimesAreWorth) {
  uint64_t state = 1;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  for (int script = 0; script < 200; ++script) {
    AdaptiveSpin spin(kLimit);
    const uint64_t long_ones = random(100);
    absl::Duration spent, worth;
    for (int i = 0; i < 1000; ++i) {
      const absl::Duration idle = random(100) < long_ones
                                      ? absl::Milliseconds(1 + random(1000))
                                      : kLimit * random(1000) / 1000;
      if (spin.window() > absl::ZeroDuration()) {
        spent += std::min(idle, kLimit);
      }
      if (idle < kLimit) worth += kLimit;
      spin.OnIdle(idle);
      ASSERT_LE(spent, worth + 3 * kLimit);
    }
  }
}

TEST(SpinThatPaysTest, IsMeasuredOnce) {
  const int slack = prctl(PR_GET_TIMERSLACK);
  const absl::Duration spin = SpinThatPays();
  EXPECT_GE(spin, absl::Microseconds(50));
  EXPECT_LE(spin, absl::Milliseconds(1));
  EXPECT_EQ(SpinThatPays(), spin);
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK), slack);
}

class CountingPoller final : public Poller {
 public:
  int Poll() override {
    ++turns_;
    return 0;
  }
  int turns() const { return turns_; }

 private:
  int turns_ = 0;
};

std::unique_ptr<EpollReactor> MakeReactor(absl::Duration limit) {
  EpollReactorOptions options;
  options.spin = limit;
  options.adaptive_spin = true;
  return EpollReactor::Create(options).value();
}

// Has `reactor` run for so many timers, one `interval` after another.
void RunTimers(EpollReactor* reactor, absl::Duration interval, int count) {
  Timer timer(reactor, [&] {
    if (--count == 0) return reactor->Stop();
    timer.ScheduleAfter(interval);
  });
  timer.ScheduleAfter(interval);
  reactor->Run();
}

TEST(AdaptiveReactorTest, SpinsWhereEventsComeSoon) {
  const auto reactor = MakeReactor(absl::Seconds(10));
  EXPECT_EQ(reactor->spin(), absl::ZeroDuration());
  CountingPoller turns;
  reactor->AddPoller(&turns, /*busy=*/false);
  RunTimers(reactor.get(), absl::Milliseconds(1), 20);
  EXPECT_EQ(reactor->spin(), absl::Seconds(10));
  EXPECT_LE(reactor->NextDeadline(), EpollReactor::MonotonicNow());
  // Many turns for one event.
  const int before = turns.turns();
  RunTimers(reactor.get(), absl::Milliseconds(20), 1);
  EXPECT_GT(turns.turns() - before, 100);
  EXPECT_FALSE(reactor->spinning());
}

TEST(AdaptiveReactorTest, SleepsWhereTheyDoNot) {
  const auto reactor = MakeReactor(absl::Microseconds(1));
  CountingPoller turns;
  reactor->AddPoller(&turns, /*busy=*/false);
  RunTimers(reactor.get(), absl::Milliseconds(1), 20);
  EXPECT_EQ(reactor->spin(), absl::ZeroDuration());
  EXPECT_LE(turns.turns(), 45);
}

// A caller's loop sleeps itself.
TEST(AdaptiveReactorTest, LearnsFromTheTimesBetweenPolls) {
  const auto reactor = MakeReactor(absl::Milliseconds(100));
  const auto poll = [&](absl::Duration idle, int times) {
    for (int i = 0; i < times; ++i) {
      absl::SleepFor(idle);
      reactor->Post([] {});
      EXPECT_EQ(reactor->Poll(), 1);
    }
    return reactor->NextDeadline() <= EpollReactor::MonotonicNow();
  };
  EXPECT_FALSE(poll(absl::Milliseconds(120), 4));
  EXPECT_TRUE(poll(absl::ZeroDuration(), 20));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(reactor->Poll(), 0);
    poll(absl::Milliseconds(120), 1);
  }
  EXPECT_EQ(reactor->spin(), absl::ZeroDuration());
  EXPECT_EQ(reactor->NextDeadline(), absl::InfiniteFuture());
}

TEST(AdaptiveReactorTest, ChoosesALimitThatSuitsTheMachine) {
  const auto reactor = MakeReactor(absl::ZeroDuration());
  // On a busy machine a turn can take longer than the limit.
  for (int i = 0; i < 10000 && reactor->spin() == absl::ZeroDuration(); ++i) {
    EXPECT_EQ(reactor->Poll(), 0);
    reactor->Post([] {});
    EXPECT_EQ(reactor->Poll(), 1);
  }
  EXPECT_EQ(reactor->spin(), SpinThatPays());
}

TEST(AdaptiveReactorTest, RefusesNeverToSleep) {
  EpollReactorOptions options;
  options.spin = absl::InfiniteDuration();
  options.adaptive_spin = true;
  EXPECT_EQ(EpollReactor::Create(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace skiff::transport
