#include "transport/reactor/adaptive_spin.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::transport {
namespace {

constexpr absl::Duration kLimit = absl::Microseconds(400);
constexpr absl::Time kNow = absl::UnixEpoch();

// What so many idle times of `idle` after another make of it.
bool SpinsAfter(AdaptiveSpin* spin, absl::Duration idle, int times) {
  for (int i = 0; i < times; ++i) spin->OnIdle(idle);
  return spin->window(kNow) == kLimit;
}

TEST(AdaptiveSpinTest, SpinsWhereEventsComeSoon) {
  AdaptiveSpin spin(kLimit);
  EXPECT_EQ(spin.window(kNow), absl::ZeroDuration());
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 2, 1));
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 2, 1000));
}

TEST(AdaptiveSpinTest, LosesFewTimesWhereTheyStop) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, kLimit / 10, 1000000);
  EXPECT_TRUE(SpinsAfter(&spin, kLimit, 2));
  EXPECT_FALSE(SpinsAfter(&spin, kLimit, 1));
}

TEST(AdaptiveSpinTest, WaitsForSeveralBeforeItSpinsAgain) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, absl::InfiniteDuration(), 1000000);
  EXPECT_FALSE(SpinsAfter(&spin, kLimit / 10, 3));
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 10, 1));
}

// As of a command now and then, each of which is several events.
TEST(AdaptiveSpinTest, NeverSpinsForAsManyLongTimesAsShort) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, absl::Seconds(1), 3);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(SpinsAfter(&spin, kLimit / 10, 1));
    EXPECT_FALSE(SpinsAfter(&spin, absl::Seconds(1), 1));
  }
}

// Which a reactor that sleeps finds, too.
TEST(AdaptiveSpinTest, LearnsNothingFromEventsThatWereThereAlready) {
  AdaptiveSpin spin(kLimit);
  EXPECT_FALSE(SpinsAfter(&spin, absl::Microseconds(1), 1000));
  EXPECT_TRUE(SpinsAfter(&spin, absl::Microseconds(5), 1000));
  EXPECT_TRUE(SpinsAfter(&spin, absl::Microseconds(1), 1000));
}

TEST(AdaptiveSpinTest, LeavesTheProcessorToWhoeverTakesItForLong) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, kLimit / 10, 10);
  spin.OnYield(kLimit, kNow);
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 10, 1));
  // Whatever the limit.
  AdaptiveSpin patient(absl::Seconds(1));
  patient.OnIdle(absl::Milliseconds(1));
  EXPECT_EQ(patient.window(kNow), absl::Seconds(1));
  patient.OnYield(absl::Milliseconds(1), kNow);
  EXPECT_EQ(patient.window(kNow), absl::ZeroDuration());
  // Nor for hours after a machine was suspended.
  patient.OnYield(absl::Hours(1), kNow);
  EXPECT_EQ(patient.window(kNow + absl::Seconds(1)), absl::Seconds(1));
  const auto pause = [&spin] {
    spin.OnYield(10 * kLimit, kNow);
    absl::Duration pause;
    while (spin.window(kNow + pause) == absl::ZeroDuration()) pause += kLimit;
    return pause / (10 * kLimit);
  };
  for (const double times : {1, 2, 4, 8, 16, 32, 64, 128, 128}) {
    EXPECT_EQ(pause(), times);
    // Not by what its idle times are.
    EXPECT_FALSE(SpinsAfter(&spin, kLimit / 10, 1000));
    for (int i = 0; i < 999; ++i) spin.OnYield(kLimit, kNow);
  }
  for (int i = 0; i < 5000; ++i) spin.OnYield(kLimit, kNow);
  EXPECT_EQ(pause(), 4);
  for (int i = 0; i < 1000000; ++i) spin.OnYield(kLimit, kNow);
  EXPECT_EQ(pause(), 1);
}

TEST(AdaptiveSpinTest, KnowsThatReactorsYieldSoonerToOneAnother) {
  AdaptiveSpin spin(kLimit);
  SpinsAfter(&spin, kLimit / 10, 10);
  spin.OnYield(absl::Microseconds(64), kNow);
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 10, 1));
  spin.OnYield(absl::Microseconds(40), kNow, /*crowded=*/true);
  EXPECT_TRUE(SpinsAfter(&spin, kLimit / 10, 1));
  spin.OnYield(absl::Microseconds(64), kNow, /*crowded=*/true);
  EXPECT_FALSE(SpinsAfter(&spin, kLimit / 10, 1));
}

TEST(AdaptiveSpinTest, TakesTheLongestLimit) {
  AdaptiveSpin spin(AdaptiveSpin::kMaxLimit);
  for (int i = 0; i < 1000; ++i) spin.OnIdle(absl::InfiniteDuration());
  EXPECT_EQ(spin.window(kNow), absl::ZeroDuration());
  for (int i = 0; i < 1000; ++i) spin.OnIdle(AdaptiveSpin::kMaxLimit / 2);
  EXPECT_EQ(spin.window(kNow), AdaptiveSpin::kMaxLimit);
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
      if (spin.window(kNow) > absl::ZeroDuration()) {
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
  EXPECT_GE(spin, absl::Microseconds(100));
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

// A descriptor that is readable for ever again.
class Ticker final : private FdHandler {
 public:
  Ticker(EpollReactor* reactor, absl::Duration interval)
      : reactor_(reactor), fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) {
    itimerspec spec = {};
    spec.it_interval = spec.it_value = absl::ToTimespec(interval);
    EXPECT_EQ(timerfd_settime(fd_, 0, &spec, nullptr), 0);
    EXPECT_TRUE(reactor->WatchFd(fd_, EPOLLIN, this).ok());
  }
  ~Ticker() override {
    reactor_->UnwatchFd(fd_);
    close(fd_);
  }
  // Has the reactor run for so many ticks.
  void Run(int ticks) {
    left_ = ticks;
    reactor_->Run();
  }

 private:
  void OnFdReady(uint32_t /*events*/) override {
    uint64_t expired;
    EXPECT_EQ(read(fd_, &expired, sizeof(expired)), 8);
    if (--left_ <= 0) reactor_->Stop();
  }

  EpollReactor* const reactor_;
  const int fd_;
  int left_ = 0;
};

// Whether it spins once events have come soon. On a busy machine, others keep
// the processor now and then, and it does not spin for a while.
bool ComesToSpin(EpollReactor* reactor) {
  Ticker ticker(reactor, absl::Milliseconds(50));
  ticker.Run(10);
  for (int i = 0; i < 400 && reactor->spin() == absl::ZeroDuration(); ++i) {
    ticker.Run(1);
  }
  return reactor->spin() == absl::Milliseconds(200);
}

TEST(AdaptiveReactorTest, SpinsWhereEventsComeSoon) {
  const auto reactor = MakeReactor(absl::Milliseconds(200));
  EXPECT_EQ(reactor->spin(), absl::ZeroDuration());
  CountingPoller turns;
  reactor->AddPoller(&turns, /*busy=*/false);
  EXPECT_TRUE(ComesToSpin(reactor.get()));
  Ticker ticker(reactor.get(), absl::Milliseconds(50));
  // More turns than events, at the latest when others leave it the processor.
  int some = 0;
  for (int i = 0; i < 40 && some <= 20; ++i) {
    const int before = turns.turns();
    ticker.Run(10);
    some = turns.turns() - before;
  }
  EXPECT_GT(some, 20);
  EXPECT_FALSE(reactor->spinning());
}

// Not for as long as it slept, as if somebody had kept the processor.
TEST(AdaptiveReactorTest, SpinsAgainAfterALongSleep) {
  const auto reactor = MakeReactor(absl::Milliseconds(200));
  bool spins = false;
  for (int i = 0; i < 20 && !spins; ++i) {
    EXPECT_TRUE(ComesToSpin(reactor.get()));
    Ticker(reactor.get(), absl::Seconds(1)).Run(1);
    spins = reactor->spin() == absl::Milliseconds(200);
  }
  EXPECT_TRUE(spins);
}

TEST(AdaptiveReactorTest, SleepsWhereTheyDoNot) {
  const auto reactor = MakeReactor(absl::Microseconds(1));
  CountingPoller turns;
  reactor->AddPoller(&turns, /*busy=*/false);
  Ticker(reactor.get(), absl::Milliseconds(1)).Run(20);
  EXPECT_EQ(reactor->spin(), absl::ZeroDuration());
  EXPECT_LE(turns.turns(), 25);
}

// Has the reactor run until so many timers expired, one after another. Returns
// how many turns the last half of them took.
int RunTimers(EpollReactor* reactor, absl::Duration interval, int count) {
  CountingPoller turns;
  reactor->AddPoller(&turns, /*busy=*/false);
  int left = count;
  int before = 0;
  Timer timer(reactor, [&] {
    if (--left == count / 2) before = turns.turns();
    if (left == 0) return reactor->Stop();
    timer.ScheduleAfter(interval);
  });
  timer.ScheduleAfter(interval);
  reactor->Run();
  reactor->RemovePoller(&turns);
  return turns.turns() - before;
}

// Which are due when they were said to be; descriptors that are ready as often
// make it spin, above.
TEST(AdaptiveReactorTest, DoesNotSpinForTimers) {
  const auto reactor = MakeReactor(absl::Milliseconds(200));
  EXPECT_LE(RunTimers(reactor.get(), absl::Milliseconds(50), 10), 10);
  EXPECT_EQ(reactor->spin(), absl::ZeroDuration());
  // Nor does it go on to, where nothing else comes any more.
  EXPECT_TRUE(ComesToSpin(reactor.get()));
  EXPECT_LE(RunTimers(reactor.get(), absl::Milliseconds(100), 10), 10);
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
  EXPECT_TRUE(poll(absl::Milliseconds(10), 20));
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
    const absl::Time until = EpollReactor::MonotonicNow() + SpinThatPays() / 4;
    while (EpollReactor::MonotonicNow() < until) {
    }
    reactor->Post([] {});
    EXPECT_EQ(reactor->Poll(), 1);
  }
  EXPECT_EQ(reactor->spin(), SpinThatPays());
}

TEST(AdaptiveReactorTest, RefusesToSpinForLong) {
  EpollReactorOptions options;
  options.adaptive_spin = true;
  for (const absl::Duration spin :
       {absl::InfiniteDuration(), absl::Hours(1000000), absl::Seconds(61)}) {
    options.spin = spin;
    EXPECT_EQ(EpollReactor::Create(options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace skiff::transport
