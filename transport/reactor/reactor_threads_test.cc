#include "transport/reactor/reactor_threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;

TEST(ReactorThreadsTest, RunsEachReactorOnItsOwnThread) {
  ReactorThreadsOptions options;
  options.count = 3;
  auto threads = ReactorThreads::Start(options);
  ASSERT_TRUE(threads.ok()) << threads.status();
  ASSERT_EQ((*threads)->size(), 3);
  EXPECT_EQ((*threads)->reactors().size(), 3u);

  std::set<std::thread::id> seen = {std::this_thread::get_id()};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*threads)->reactors()[i], (*threads)->reactor(i));
    (*threads)->RunOn(i, [&] { seen.insert(std::this_thread::get_id()); });
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(ReactorThreadsTest, NamesThreads) {
  ReactorThreadsOptions options;
  options.count = 2;
  options.name = "reactors";
  auto threads = ReactorThreads::Start(options);
  ASSERT_TRUE(threads.ok()) << threads.status();
  char name[16] = {};
  (*threads)->RunOn(
      1, [&] { pthread_getname_np(pthread_self(), name, sizeof(name)); });
  EXPECT_EQ(std::string(name), "reactors-1");
}

TEST(ReactorThreadsTest, PinsThreads) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;

  ReactorThreadsOptions options;
  options.cpus = {cpu};
  auto threads = ReactorThreads::Start(options);
  ASSERT_TRUE(threads.ok()) << threads.status();
  cpu_set_t set;
  CPU_ZERO(&set);
  (*threads)->RunOn(0, [&] { sched_getaffinity(0, sizeof(set), &set); });
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(cpu, &set));
}

TEST(ReactorThreadsTest, BlocksSignalsInItsThreadsOnly) {
  auto threads = ReactorThreads::Start({});
  ASSERT_TRUE(threads.ok()) << threads.status();
  sigset_t theirs;
  sigemptyset(&theirs);
  (*threads)->RunOn(0, [&] { pthread_sigmask(SIG_BLOCK, nullptr, &theirs); });
  EXPECT_EQ(sigismember(&theirs, SIGTERM), 1);
  sigset_t ours;
  pthread_sigmask(SIG_BLOCK, nullptr, &ours);
  EXPECT_EQ(sigismember(&ours, SIGTERM), 0);
}

TEST(ReactorThreadsTest, RunsOnTheCallerOnceStopped) {
  auto threads = ReactorThreads::Start({});
  ASSERT_TRUE(threads.ok()) << threads.status();
  (*threads)->Stop();
  (*threads)->Stop();
  std::thread::id ran_on;
  (*threads)->RunOn(0, [&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ReactorThreadsTest, SaysWhatIsWrongWithTheOptions) {
  struct {
    int count;
    std::vector<int> cpus;
    std::string message;
  } const cases[] = {
      {0, {}, "cannot run 0 reactors: the count is between 1 and 1024"},
      {1025, {}, "cannot run 1025 reactors: the count is between 1 and 1024"},
      {2, {0}, "1 CPUs are given for 2 reactors: give one for each, or none"},
      {1, {-1}, "CPU -1 is out of range: 0 to 1023"},
      {1, {1024}, "CPU 1024 is out of range: 0 to 1023"},
  };
  for (const auto& c : cases) {
    ReactorThreadsOptions options;
    options.count = c.count;
    options.cpus = c.cpus;
    auto threads = ReactorThreads::Start(options);
    ASSERT_FALSE(threads.ok()) << c.message;
    EXPECT_EQ(threads.status().message(), c.message);
  }
}

TEST(ReactorThreadsTest, NamesTheCpuThatCannotBeUsed) {
  ReactorThreadsOptions options;
  options.cpus = {CPU_SETSIZE - 1};  // No machine of ours has that many.
  auto threads = ReactorThreads::Start(options);
  ASSERT_FALSE(threads.ok());
  EXPECT_THAT(std::string(threads.status().message()),
              HasSubstr("cannot pin reactor 0 to CPU 1023"));
}

}  // namespace
}  // namespace skiff::transport
