#include "tools/skiffd/turn_check.h"

#include <atomic>
#include <future>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "transport/reactor/reactor_threads.h"

namespace skiff::tools::skiffd {
namespace {

std::unique_ptr<transport::ReactorThreads> Threads() {
  transport::ReactorThreadsOptions options;
  options.count = 2;
  auto threads = transport::ReactorThreads::Start(options);
  EXPECT_TRUE(threads.ok()) << threads.status();
  return *std::move(threads);
}

// Waits until all that was posted before has run.
void Settle(transport::ReactorThreads* threads) {
  for (int i = 0; i < 2; ++i) threads->RunOn(i, [] {});
}

TEST(TurnCheckTest, ReactorsThatTurnAnswerEachQuestion) {
  std::atomic<int> answers{0};
  const auto threads = Threads();
  TurnCheck check(threads->reactors(), [&answers] { ++answers; });
  for (int question = 1; question <= 3; ++question) {
    check.Ask();
    Settle(threads.get());
    EXPECT_EQ(answers, question);
  }
}

TEST(TurnCheckTest, ABlockedReactorIsAskedOnceAndHoldsTheAnswerBack) {
  std::atomic<int> answers{0};
  std::promise<void> go_on;
  const auto threads = Threads();
  TurnCheck check(threads->reactors(), [&answers] { ++answers; });
  threads->reactors()[1]->Post([&go_on] { go_on.get_future().wait(); });
  for (int question = 0; question < 3; ++question) {
    check.Ask();
    threads->RunOn(0, [] {});
    EXPECT_EQ(answers, 0);
  }
  go_on.set_value();
  Settle(threads.get());
  EXPECT_EQ(answers, 1);
  check.Ask();
  Settle(threads.get());
  EXPECT_EQ(answers, 2);
}

}  // namespace
}  // namespace skiff::tools::skiffd
