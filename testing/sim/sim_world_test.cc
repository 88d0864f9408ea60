#include "testing/sim/sim_world.h"

#include <sys/epoll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_network.h"
#include "testing/sim/sim_reactor.h"

namespace skiff::testing {
namespace {

class CallbackPoller : public transport::Poller {
 public:
  explicit CallbackPoller(std::function<int()> fn) : fn_(std::move(fn)) {}
  int Poll() override { return fn_(); }

 private:
  std::function<int()> fn_;
};

class CallbackHook : public transport::TurnHook {
 public:
  explicit CallbackHook(std::function<void()> fn) : fn_(std::move(fn)) {}
  void OnTurnEnd() override { fn_(); }

 private:
  std::function<void()> fn_;
};

class CallbackHandler : public transport::FdHandler {
 public:
  explicit CallbackHandler(std::function<void()> fn) : fn_(std::move(fn)) {}
  void OnFdReady(uint32_t events) override {
    EXPECT_EQ(events, EPOLLIN);
    fn_();
  }

 private:
  std::function<void()> fn_;
};

TEST(SimWorldTest, TimeJumpsToTheNextEvent) {
  SimWorld world(1);
  const absl::Time start = world.now();
  std::string order;
  world.After(absl::Hours(2), [&] { order += "c"; });
  world.After(absl::Hours(1), [&] { order += "a"; });
  world.After(absl::Hours(1), [&] { order += "b"; });
  const auto cancelled = world.After(absl::Minutes(1), [&] { order += "x"; });
  world.Cancel(cancelled);
  EXPECT_TRUE(world.RunUntil([&] { return order == "abc"; }, absl::Hours(3)));
  EXPECT_EQ(world.now(), start + absl::Hours(2));
  EXPECT_FALSE(world.Step());
}

TEST(SimWorldTest, RunForEndsAtTheMinute) {
  SimWorld world(1);
  const absl::Time start = world.now();
  bool ran = false;
  world.After(absl::Minutes(2), [&] { ran = true; });
  world.RunFor(absl::Minutes(1));
  EXPECT_EQ(world.now(), start + absl::Minutes(1));
  EXPECT_FALSE(ran);
  world.RunFor(absl::Minutes(1));
  EXPECT_TRUE(ran);
}

TEST(SimWorldTest, RunUntilGivesUpAtItsLimit) {
  SimWorld world(1);
  SimReactor* reactor = world.AddReactor("a");
  transport::Timer timer(reactor, [] {});
  timer.ScheduleAfter(absl::Hours(1));
  const absl::Time start = world.now();
  EXPECT_FALSE(world.RunUntil([] { return false; }, absl::Minutes(1)));
  EXPECT_EQ(world.now(), start + absl::Minutes(1));
  EXPECT_TRUE(timer.scheduled());
}

TEST(SimWorldTest, ReactorsHaveTimersPostsAndHooks) {
  SimWorld world(1);
  SimReactor* a = world.AddReactor("a");
  SimReactor* b = world.AddReactor("b");
  EXPECT_EQ(a->host(), "a");
  std::string order;
  CallbackHook hook([&] { order += "H"; });
  transport::Timer timer(a, [&] {
    order += "T";
    a->ScheduleTurnEnd(&hook);
    b->Post([&] { order += "P"; });
  });
  timer.ScheduleAfter(absl::Seconds(30));
  const absl::Time start = world.now();
  EXPECT_TRUE(world.RunUntil([&] { return order == "THP"; }));
  EXPECT_EQ(world.now(), start + absl::Seconds(30));
}

TEST(SimWorldTest, BusyReactorsLetTimeGoOn) {
  SimWorld world(1);
  SimReactor* reactor = world.AddReactor("a");
  int turns = 0;
  CallbackPoller poller([&] {
    ++turns;
    return 0;
  });
  reactor->AddPoller(&poller, /*busy=*/true);
  world.RunFor(absl::Milliseconds(1));
  EXPECT_GE(turns, 1000);
  EXPECT_LE(turns, 1002);
  reactor->RemovePoller(&poller);
  EXPECT_FALSE(world.Step());
  reactor->set_spin(absl::InfiniteDuration());
  EXPECT_TRUE(reactor->spinning());
  EXPECT_TRUE(world.Step());
}

TEST(SimWorldTest, StalledReactorHasNoTurns) {
  SimWorld world(1);
  SimReactor* reactor = world.AddReactor("a");
  bool ran = false;
  reactor->StallUntil(world.now() + absl::Seconds(5));
  reactor->Post([&] { ran = true; });
  world.RunFor(absl::Seconds(4));
  EXPECT_FALSE(ran);
  world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(ran);
}

TEST(SimWorldTest, WatchesItsOwnDescriptorsOnly) {
  SimWorld world(1);
  SimReactor* reactor = world.AddReactor("a");
  int edge_calls = 0;
  int level_calls = 0;
  CallbackHandler on_edge([&] { ++edge_calls; });
  EXPECT_EQ(reactor->WatchFd(0, EPOLLIN, &on_edge).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(reactor->ModifyFd(0, EPOLLIN).code(), absl::StatusCode::kNotFound);

  SimEventSource edge(&world);
  SimEventSource level(&world);
  CallbackHandler on_level([&] {
    if (++level_calls == 3) level.SetReadable(false);
  });
  ASSERT_TRUE(reactor->WatchFd(edge.fd(), EPOLLIN | EPOLLET, &on_edge).ok());
  EXPECT_EQ(reactor->WatchFd(edge.fd(), EPOLLIN, &on_edge).code(),
            absl::StatusCode::kAlreadyExists);
  level.SetReadable(true);
  ASSERT_TRUE(reactor->WatchFd(level.fd(), EPOLLIN, &on_level).ok());
  edge.SetReadable(true);
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(edge_calls, 1);
  EXPECT_EQ(level_calls, 3);

  reactor->UnwatchFd(level.fd());
  level.SetReadable(true);
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(level_calls, 3);
}

TEST(SimWorldTest, UnwatchedSourceMayGoFirstOrLast) {
  SimWorld world(1);
  SimReactor* reactor = world.AddReactor("a");
  CallbackHandler handler([] { FAIL() << "unwatched"; });
  SimEventSource stays(&world);
  {
    SimEventSource goes(&world);
    ASSERT_TRUE(reactor->WatchFd(goes.fd(), EPOLLIN, &handler).ok());
    goes.SetReadable(true);
  }
  ASSERT_TRUE(reactor->WatchFd(stays.fd(), EPOLLIN, &handler).ok());
  world.RemoveReactor(reactor);
  stays.SetReadable(true);
  EXPECT_FALSE(world.Step());
}

TEST(SimWorldTest, FailuresCarryTheSeed) {
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::
            INTERCEPT_ONLY_CURRENT_THREAD,
        &results);
    SimWorld world(4711);
    ADD_FAILURE() << "on purpose";
  }
  ASSERT_EQ(results.size(), 1);
  EXPECT_NE(std::string(results.GetTestPartResult(0).message())
                .find("SKIFF_SIM_SEED=4711"),
            std::string::npos);
}

TEST(SimWorldTest, SeedComesFromTheEnvironment) {
  unsetenv("SKIFF_SIM_SEED");
  EXPECT_EQ(SimWorld::SeedFromEnvironment(7), 7u);
  setenv("SKIFF_SIM_SEED", "123", 1);
  EXPECT_EQ(SimWorld::SeedFromEnvironment(7), 123u);
  unsetenv("SKIFF_SIM_SEED");
}

// Which of several reactors that are due comes first is up to the seed.
TEST(SimWorldTest, SeedDecidesInterleavings) {
  auto run = [](uint64_t seed) {
    SimWorld world(seed);
    std::string order;
    for (const char* host : {"a", "b", "c", "d", "e", "f"}) {
      SimReactor* reactor = world.AddReactor(host);
      reactor->Post([&order, host] { order += host; });
    }
    while (world.Step()) {
    }
    return std::make_pair(order, world.trace_hash());
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(SimRandomTest, StaysWithinBounds) {
  SimRandom random(99);
  bool low = false, high = false;
  int chances = 0;
  for (int i = 0; i < 10000; ++i) {
    const uint64_t value = random.Between(3, 5);
    ASSERT_GE(value, 3u);
    ASSERT_LE(value, 5u);
    low = low || value == 3;
    high = high || value == 5;
    chances += random.Chance(0.25) ? 1 : 0;
    const absl::Duration duration =
        random.Between(absl::Microseconds(1), absl::Microseconds(2));
    ASSERT_GE(duration, absl::Microseconds(1));
    ASSERT_LE(duration, absl::Microseconds(2));
  }
  EXPECT_TRUE(low && high);
  EXPECT_NEAR(chances, 2500, 250);
  EXPECT_EQ(random.Below(0), 0u);
  EXPECT_FALSE(random.Chance(0));
}

}  // namespace
}  // namespace skiff::testing
