#include "scsi/backend/remote_completions.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {
namespace {

class RemoteCompletionsTest : public ::testing::Test {
 protected:
  struct Request {
    RemoteCompletionsTest* test = nullptr;
    int id = 0;
    IoRequest io;
  };

  RemoteCompletionsTest()
      : reactor_(transport::EpollReactor::Create().value()),
        completions_(std::make_unique<RemoteCompletions>(reactor_.get())) {}

  Request* Make(int id) {
    requests_.push_back(std::make_unique<Request>());
    Request* const request = requests_.back().get();
    request->test = this;
    request->id = id;
    request->io.context = request;
    request->io.done = [](IoRequest* io) {
      auto* const done = static_cast<Request*>(io->context);
      EXPECT_EQ(std::this_thread::get_id(), done->test->thread_);
      done->test->done_.push_back(done->id);
    };
    return request;
  }

  // Twice.
  static void CompleteAgain(IoRequest* io) {
    auto* const request = static_cast<Request*>(io->context);
    request->test->done_.push_back(request->id);
    if (request->test->done_.size() < 3) {
      request->test->completions_->Complete(io);
    }
  }
  static void EndTheChannel(IoRequest* io) {
    auto* const request = static_cast<Request*>(io->context);
    request->test->completions_.reset();
    request->test->done_.push_back(request->id);
  }

  const std::thread::id thread_ = std::this_thread::get_id();
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<RemoteCompletions> completions_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<int> done_;
};

TEST_F(RemoteCompletionsTest, ManyComeInOneTurnInOrder) {
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    Make(i);
    expected.push_back(i);
  }
  std::thread([this] {
    for (const auto& request : requests_) completions_->Complete(&request->io);
  }).join();
  EXPECT_TRUE(done_.empty());
  reactor_->Poll();
  EXPECT_EQ(done_, expected);
}

TEST_F(RemoteCompletionsTest, AChainIsDoneInOrder) {
  for (int i = 0; i < 3; ++i) Make(i);
  requests_[0]->io.backend_next = &requests_[1]->io;
  requests_[1]->io.backend_next = &requests_[2]->io;
  requests_[2]->io.backend_next = nullptr;
  completions_->CompleteChain(&requests_[0]->io);
  completions_->Complete(&Make(3)->io);
  reactor_->Poll();
  EXPECT_EQ(done_, (std::vector<int>{0, 1, 2, 3}));
}

// A request that is submitted again from its `done`.
TEST_F(RemoteCompletionsTest, DoneMayCompleteAgain) {
  Request* const request = Make(7);
  request->io.done = CompleteAgain;
  completions_->Complete(&request->io);
  for (int i = 0; i < 10; ++i) reactor_->Poll();
  EXPECT_EQ(done_.size(), 3u);
}

// The last `done` may let the channel go, while the other thread is still in
// Complete().
TEST_F(RemoteCompletionsTest, MayGoWithTheLastRequest) {
  for (int round = 0; round < 200; ++round) {
    Request* const request = Make(round);
    request->io.done = EndTheChannel;
    std::thread other(
        [this, request] { completions_->Complete(&request->io); });
    while (completions_ != nullptr) reactor_->Poll();
    other.join();
    completions_ = std::make_unique<RemoteCompletions>(reactor_.get());
  }
  EXPECT_EQ(done_.size(), 200u);
}

TEST_F(RemoteCompletionsTest, ManyThreadsCompleteAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  for (int i = 0; i < kThreads * kEach; ++i) Make(i);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kEach; ++i) {
        completions_->Complete(&requests_[t * kEach + i]->io);
      }
    });
  }
  while (done_.size() < size_t{kThreads} * kEach) reactor_->Poll();
  for (std::thread& thread : threads) thread.join();
  std::vector<int> last(kThreads, -1);
  for (const int id : done_) {
    EXPECT_GT(id, last[id / kEach]) << "in the order of its thread";
    last[id / kEach] = id;
  }
}

}  // namespace
}  // namespace skiff::scsi
