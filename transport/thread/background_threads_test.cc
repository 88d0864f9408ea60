#include "transport/thread/background_threads.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

TEST(BackgroundThreadsTest, NoThreadIsNotWaitedFor) {
  EXPECT_TRUE(JoinBackgroundThreads(milliseconds(0)));
}

TEST(BackgroundThreadsTest, AllAreJoined) {
  std::atomic<int> ran{0};
  for (int i = 0; i < 20; ++i) {
    StartBackgroundThread([&ran] {
      std::this_thread::sleep_for(milliseconds(5));
      ++ran;
    });
  }
  EXPECT_TRUE(JoinBackgroundThreads(minutes(1)));
  EXPECT_EQ(ran, 20);
}

TEST(BackgroundThreadsTest, OneThatDoesNotEndIsNotWaitedForForLong) {
  std::promise<void> end;
  StartBackgroundThread([&end] { end.get_future().wait(); });
  EXPECT_FALSE(JoinBackgroundThreads(milliseconds(10)));
  end.set_value();
  EXPECT_TRUE(JoinBackgroundThreads(minutes(1)));
}

TEST(BackgroundThreadsTest, OneThatWaitsForWorkIsAsked) {
  std::promise<void> stop;
  StartBackgroundThread([&stop] { stop.get_future().wait(); },
                        [&stop] { stop.set_value(); });
  EXPECT_TRUE(JoinBackgroundThreads(minutes(1)));
}

TEST(BackgroundThreadsTest, WhatABodyHoldsGoesWithIt) {
  const auto held = std::make_shared<int>(1);
  StartBackgroundThread([held] {});
  EXPECT_TRUE(JoinBackgroundThreads(minutes(1)));
  EXPECT_EQ(held.use_count(), 1);
}

TEST(BackgroundThreadsTest, SignalsAreForOthers) {
  int blocked = 0;
  StartBackgroundThread([&blocked] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGTERM);
  });
  EXPECT_TRUE(JoinBackgroundThreads(minutes(1)));
  EXPECT_EQ(blocked, 1);
}

}  // namespace
}  // namespace skiff::transport
