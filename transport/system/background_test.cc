#include "transport/system/background.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/thread/background_threads.h"

namespace skiff::transport {
namespace {

using ::testing::ElementsAre;

TEST(BackgroundThreadTest, NamesAreThreads) {
  EXPECT_EQ(BackgroundThread::Get("one"), BackgroundThread::Get("one"));
  EXPECT_NE(BackgroundThread::Get("one"), BackgroundThread::Get("two"));
}

TEST(BackgroundThreadTest, RunsInOrderWhileTheCallerGoesOn) {
  BackgroundThread* const thread = BackgroundThread::Get("order");
  std::promise<void> begin;
  std::vector<int> ran;
  thread->Run([&] { begin.get_future().wait(); });
  for (int i = 1; i <= 3; ++i) thread->Run([&ran, i] { ran.push_back(i); });
  EXPECT_EQ(thread->pending(), 4u);
  EXPECT_TRUE(BackgroundThread::AnyPending());
  begin.set_value();
  thread->Wait();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_EQ(thread->pending(), 0u);
  EXPECT_FALSE(BackgroundThread::AnyPending());
}

TEST(BackgroundThreadTest, IsAThreadOfItsOwnWithoutSignals) {
  BackgroundThread* const thread = BackgroundThread::Get("a long name for it");
  std::thread::id id;
  sigset_t blocked;
  char name[16] = "";
  thread->Run([&] {
    id = std::this_thread::get_id();
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  });
  thread->Run([&] { pthread_getname_np(pthread_self(), name, sizeof(name)); });
  thread->Wait();
  EXPECT_NE(id, std::this_thread::get_id());
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  EXPECT_STREQ(name, "a long name for");
}

TEST(BackgroundThreadTest, LetsGoOfWhatIsDone) {
  BackgroundThread* const thread = BackgroundThread::Get("holds");
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  thread->Run([held = std::move(held)] {});
  thread->Wait();
  EXPECT_TRUE(watch.expired());
}

TEST(BackgroundThreadTest, IsJoinedWhenItsWorkIsDoneAndStartsAgain) {
  BackgroundThread* const thread = BackgroundThread::Get("again");
  for (int round = 0; round < 3; ++round) {
    std::vector<int> ran;
    for (int i = 1; i <= 3; ++i) thread->Run([&ran, i] { ran.push_back(i); });
    ASSERT_TRUE(JoinBackgroundThreads(std::chrono::minutes(1)));
    EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  }
}

}  // namespace
}  // namespace skiff::transport
