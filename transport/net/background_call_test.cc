#include "transport/net/background_call.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;

// What a blocked thread waits for.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

using Call = BackgroundCall<std::string>;

class BackgroundCallTest : public ::testing::Test {
 protected:
  BackgroundCallTest() : reactor_(EpollReactor::Create().value()) {}

  // What the test's calls have in common: `function` on a thread, and the
  // result ends the reactor's Run().
  absl::StatusOr<std::unique_ptr<Call>> Start(BackgroundThreads* threads,
                                              Call::Function function) {
    return Call::Start(reactor_.get(), threads, std::move(function),
                       [this](std::string result) {
                         result_ = std::move(result);
                         reactor_->Stop();
                       });
  }

  std::unique_ptr<EpollReactor> reactor_;
  std::optional<std::string> result_;
};

TEST_F(BackgroundCallTest, TellsTheResultOnTheReactor) {
  static BackgroundThreads threads(1, "calls");
  // The thread is free again each time.
  for (const char* text : {"one", "two", "three"}) {
    auto call = Start(&threads, [text] { return std::string(text); });
    ASSERT_TRUE(call.ok()) << call.status();
    reactor_->Run();
    EXPECT_EQ(result_, text);
  }
}

TEST_F(BackgroundCallTest, ACompletedCallIsToldLater) {
  auto call = Call::Completed(reactor_.get(), "known", [this](std::string got) {
    result_ = std::move(got);
  });
  EXPECT_EQ(result_, std::nullopt);
  reactor_->Poll();
  EXPECT_EQ(result_, "known");
  result_.reset();
  call = Call::Completed(reactor_.get(), "unwanted",
                         [this](std::string got) { result_ = std::move(got); });
  call.reset();
  reactor_->Poll();
  EXPECT_EQ(result_, std::nullopt);
}

TEST_F(BackgroundCallTest, HasALimit) {
  static BackgroundThreads threads(2, "test calls");
  // Shared, since the threads may outlive the test.
  auto gate = std::make_shared<Gate>();
  const auto blocked = [gate] {
    gate->Wait();
    return std::string("late");
  };
  auto first = Start(&threads, blocked);
  auto second = Start(&threads, blocked);
  ASSERT_TRUE(first.ok() && second.ok());
  auto third = Start(&threads, blocked);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.status().message()),
              HasSubstr("2 test calls are under way already"));
  // A cancelled call has its thread until the function returns.
  second->reset();
  EXPECT_FALSE(Start(&threads, blocked).ok());
  gate->Open();
  reactor_->Run();
  EXPECT_EQ(result_, "late");
  EXPECT_TRUE(Start(&threads, blocked).ok()) << "the first one's is free";
}

TEST_F(BackgroundCallTest, MayBeCancelledWhileItRuns) {
  static BackgroundThreads threads(1, "calls");
  auto gate = std::make_shared<Gate>();
  auto returning = std::make_shared<Gate>();
  auto call = Start(&threads, [gate, returning] {
    gate->Wait();
    returning->Open();
    return std::string("too late");
  });
  ASSERT_TRUE(call.ok()) << call.status();
  call->reset();
  reactor_.reset();  // The thread must not touch it any more.
  gate->Open();
  returning->Wait();
}

// Destroys each call while its thread may be anywhere on its way.
TEST_F(BackgroundCallTest, MayBeCancelledAtAnyMoment) {
  static BackgroundThreads threads(64, "calls");
  for (int round = 0; round < 500; ++round) {
    auto reactor = EpollReactor::Create().value();
    bool told = false;
    auto call = Call::Start(
        reactor.get(), &threads, [] { return std::string(100, 'x'); },
        [&told](const std::string&) { told = true; });
    if (!call.ok()) continue;  // Threads of former rounds still end.
    for (int i = 0; i < round % 50; ++i) reactor->Poll();
    const bool before = told;
    call->reset();
    for (int i = 0; i < 3; ++i) reactor->Poll();
    EXPECT_EQ(told, before);
  }
}

TEST_F(BackgroundCallTest, TheCallbackMayDestroyTheCall) {
  static BackgroundThreads threads(1, "calls");
  std::unique_ptr<Call> call;
  auto started = Call::Start(
      reactor_.get(), &threads, [] { return std::string("done"); },
      [&](std::string result) {
        call.reset();
        result_ = std::move(result);
        reactor_->Stop();
      });
  ASSERT_TRUE(started.ok()) << started.status();
  call = *std::move(started);
  reactor_->Run();
  EXPECT_EQ(result_, "done");
}

}  // namespace
}  // namespace skiff::transport
