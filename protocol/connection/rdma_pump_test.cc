#include "protocol/connection/rdma_pump.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "protocol/connection/connection_transport.h"
#include "protocol/connection/pump_test_util.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/manual_reactor.h"
#include "transport/reactor/turn_shares.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

using transport::Completion;
using transport::PostResult;
using transport::Sge;

// What has completed is what the test says.
class FakeQueue final : public transport::CompletionQueue {
 public:
  FakeQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~FakeQueue() override { close(fd_); }

  int Poll(absl::Span<Completion> out) override {
    ++polls;
    if (on_look && !out.empty()) on_look();
    const size_t n = std::min(out.size(), waiting.size());
    std::copy_n(waiting.begin(), n, out.begin());
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<int>(n));
    return static_cast<int>(n);
  }
  bool Arm() override { return waiting.empty(); }
  void Disarm() override {
    eventfd_t count;
    eventfd_read(fd_, &count);
  }
  int fd() const override { return fd_; }

  void Complete() {
    waiting.emplace_back();
    eventfd_write(fd_, 1);
  }
  std::deque<Completion> waiting;
  int polls = 0;
  std::function<void()> on_look;

 private:
  const int fd_;
};

class FakeEndpoint final : public transport::RdmaEndpoint {
 public:
  const transport::Capabilities& capabilities() const override { return can_; }
  transport::MemoryDomain* domain() override { return nullptr; }
  transport::CompletionQueue* completion_queue() override { return &queue; }
  PostResult PostReceive(transport::OperationId,
                         absl::Span<const Sge>) override {
    return PostResult::kClosed;
  }
  PostResult PostSend(transport::OperationId, absl::Span<const Sge>) override {
    return PostResult::kClosed;
  }
  PostResult PostSendWithInvalidate(transport::OperationId,
                                    absl::Span<const Sge>,
                                    transport::RemoteKey) override {
    return PostResult::kClosed;
  }
  PostResult PostRead(transport::OperationId, absl::Span<const Sge>,
                      transport::RemoteBuffer) override {
    return PostResult::kClosed;
  }
  PostResult PostWrite(transport::OperationId, absl::Span<const Sge>,
                       transport::RemoteBuffer) override {
    return PostResult::kClosed;
  }
  void Flush() override {}
  void Disconnect() override {}
  bool connected() const override { return true; }
  absl::Status error() const override { return absl::OkStatus(); }
  absl::string_view scheme() const override { return "fake"; }
  std::string local_address() const override { return "here"; }
  std::string peer_address() const override { return "there"; }

  FakeQueue queue;

 private:
  transport::Capabilities can_;
};

// Counts what it is told, and does what the test says.
class FakeDatamover final : public IserDatamover {
 public:
  void SetEndpointObserver(EndpointObserver*) override {}
  void SetTrace(std::unique_ptr<IserTrace>) override {}
  absl::Status Prepare(transport::RdmaEndpoint*) override {
    return absl::OkStatus();
  }
  void Connected(std::unique_ptr<transport::RdmaEndpoint>) override {}
  transport::RdmaEndpoint* endpoint() const override { return &endpoint_; }
  void OnCompletion(const Completion&) override {
    ++completions;
    if (on_completion) on_completion();
  }
  void Flush() override {
    ++flushes;
    if (on_flush) on_flush();
  }
  void StopReceiving() override {}
  bool has_output() const override { return false; }
  bool in_flight() const override { return false; }
  bool congested() const override { return false; }
  ConnectionCounters counters() const override { return {}; }

  FakeQueue& queue() const { return endpoint_.queue; }

  int completions = 0;
  int flushes = 0;
  std::function<void()> on_completion;
  std::function<void()> on_flush;

 private:
  mutable FakeEndpoint endpoint_;
};

// The parameter: whether the reactor looks for completions for a while before
// it sleeps, which has a way of its own to them.
class RdmaPumpTest : public ::testing::TestWithParam<bool>,
                     public PumpTestClient {
 protected:
  static void SetUpTestSuite() {
    transport::SpareMemory::Keep(2 * transport::SpareMemory::kBlockBytes);
  }
  static void TearDownTestSuite() { std::set_new_handler(nullptr); }
  RdmaPumpTest() {
    transport::EpollReactorOptions options;
    if (GetParam()) options.spin = absl::Hours(1);
    reactor_ = transport::EpollReactor::Create(options).value();
    pump_ = std::make_unique<RdmaPump>(reactor_.get(), &datamover_,
                                       std::make_shared<RdmaLink>(),
                                       RdmaPumpOptions(), this);
    reactor_->Poll();  // It looks for what has completed before.
    datamover_.flushes = 0;
  }
  void Complete() {
    datamover_.queue().Complete();
    reactor_->Poll();
  }

  FakeDatamover datamover_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  std::unique_ptr<RdmaPump> pump_;
};

INSTANTIATE_TEST_SUITE_P(Reactors, RdmaPumpTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Spins" : "Sleeps";
                         });

TEST_P(RdmaPumpTest, HandlesWhatCompletesAndSends) {
  Complete();
  EXPECT_EQ(datamover_.completions, 1);
  EXPECT_EQ(progress_, 1);
  EXPECT_EQ(datamover_.flushes, 1);
  EXPECT_FALSE(closed_);
}

TEST_P(RdmaPumpTest, WithoutMemoryOneConnectionEnds) {
  datamover_.on_completion = [] { throw std::bad_alloc(); };
  on_closed_ = [this] { pump_.reset(); };
  datamover_.queue().Complete();
  Complete();
  EXPECT_TRUE(absl::IsResourceExhausted(why_)) << why_;
  EXPECT_EQ(pump_, nullptr);
  EXPECT_EQ(datamover_.completions, 1);
  EXPECT_EQ(datamover_.flushes, 0);
  EXPECT_EQ(progress_, 0);
  reactor_->Poll();
}

TEST_P(RdmaPumpTest, WithoutMemoryForWhatItSendsItEnds) {
  datamover_.on_flush = [] { throw std::bad_alloc(); };
  Complete();
  EXPECT_TRUE(absl::IsResourceExhausted(why_)) << why_;
  pump_->Kick();
  Complete();
  EXPECT_EQ(datamover_.completions, 1);
  EXPECT_EQ(datamover_.flushes, 1);
}

TEST_P(RdmaPumpTest, ANewcomerWithoutMemoryEnds) {
  pump_->SetNewcomer(true);
  datamover_.on_completion = [] { throw std::bad_alloc(); };
  Complete();
  EXPECT_TRUE(absl::IsResourceExhausted(why_)) << why_;
  EXPECT_EQ(progress_, 0);
}

TEST_P(RdmaPumpTest, WhoeverDestroysItInAPassMayRunOutOfMemory) {
  on_progress_ = [this] {
    pump_.reset();
    throw std::bad_alloc();
  };
  Complete();
  EXPECT_EQ(progress_, 1);
  EXPECT_FALSE(closed_);
}

TEST_P(RdmaPumpTest, WhoCausesTheUseOfSpareMemoryEndsWhenItIsHandled) {
  // As `operator new` does when there is none.
  datamover_.on_completion = [] { std::get_new_handler()(); };
  Complete();
  EXPECT_EQ(datamover_.completions, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(why_)) << why_;
  EXPECT_EQ(transport::SpareMemory::missing(), 0u);
}

// Has work that takes so long in each turn, while it is there.
class Worker final : public transport::Poller, private transport::TurnHook {
 public:
  Worker(transport::ManualReactor* reactor, absl::Duration cost)
      : reactor_(reactor), cost_(cost) {
    reactor_->AddPoller(this, /*busy=*/true);
  }
  ~Worker() override {
    reactor_->turn_shares().Leave(member_);
    reactor_->RemovePoller(this);
  }
  int Poll() override {
    reactor_->ScheduleTurnEnd(this);
    return 1;
  }

 private:
  void OnTurnEnd() override {
    const transport::TurnShares::Grant grant =
        reactor_->turn_shares().Begin(&member_, reactor_->Now());
    reactor_->Pass(cost_);
    reactor_->turn_shares().End(&member_, reactor_->Now(), grant,
                                /*finished=*/true, cost_);
  }

  transport::ManualReactor* const reactor_;
  const absl::Duration cost_;
  transport::TurnShares::Member member_;
};

// A pump beside others.
class RdmaPumpSharesTest : public ::testing::Test, public PumpClient {
 protected:
  RdmaPumpSharesTest()
      : reactor_(/*descriptors=*/true),
        pump_(&reactor_, &datamover_, std::make_shared<RdmaLink>(),
              RdmaPumpOptions(), this) {}
  void OnProgress() override {}
  void OnClosed(absl::Status) override { ADD_FAILURE(); }

  void Turn() {
    if (!datamover_.queue().waiting.empty()) {
      reactor_.Ready(datamover_.queue().fd());
    }
    reactor_.Turn();
  }
  // A turn in which the descriptor tells nothing. True if it is handled.
  bool CompletesUntold() {
    datamover_.queue().waiting.emplace_back();
    reactor_.Turn();
    return datamover_.queue().waiting.empty();
  }

  transport::ManualReactor reactor_;
  FakeDatamover datamover_;
  RdmaPump pump_;
};

TEST_F(RdmaPumpSharesTest, LooksInEachTurnWhileOthersKeepTheReactorAwake) {
  EXPECT_TRUE(CompletesUntold()) << "what was there before";
  EXPECT_FALSE(CompletesUntold());
  auto worker = std::make_unique<Worker>(&reactor_, absl::Microseconds(30));
  for (int i = 0; i < 10; ++i) Turn();
  datamover_.queue().waiting.emplace_back();
  Turn();
  for (int i = 0; i < 100; ++i) {
    reactor_.Turn();
    EXPECT_TRUE(CompletesUntold());
  }
  worker.reset();
  EXPECT_FALSE(CompletesUntold());
  EXPECT_FALSE(reactor_.busy());
  Turn();
  EXPECT_TRUE(datamover_.queue().waiting.empty());
}

TEST_F(RdmaPumpSharesTest, LooksNoMoreWhereItHasNothingToDo) {
  Worker worker(&reactor_, absl::Microseconds(30));
  for (int i = 0; i < 10; ++i) {
    datamover_.queue().waiting.emplace_back();
    Turn();
  }
  for (int i = 0; i < 10; ++i) reactor_.Turn();
  EXPECT_FALSE(CompletesUntold());
}

// Also where a single completion takes longer than a pass.
TEST_F(RdmaPumpSharesTest, AFloodTakesNoMoreThanOneOther) {
  constexpr absl::Duration kWork = absl::Microseconds(20);
  constexpr int kTurns = 2000;
  Worker worker(&reactor_, kWork);
  for (const int cost : {1, 5, 30, 50, 200}) {
    SCOPED_TRACE(cost);
    const absl::Duration each = absl::Microseconds(cost);
    datamover_.on_completion = [this, each] {
      reactor_.Pass(each);
      datamover_.queue().waiting.emplace_back();
    };
    datamover_.queue().waiting.resize(100);
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn == kTurns / 2) datamover_.completions = 0;
      Turn();
    }
    const absl::Duration half = kTurns / 2 * kWork;
    EXPECT_LE(datamover_.completions * each, half * 1.2);
    EXPECT_GE(datamover_.completions * each, half * 0.8);
  }
}

// A queue works by itself for whoever does not poll it.
TEST_F(RdmaPumpSharesTest, DoesNotLeaveItsQueueWhileItPaysDebts) {
  Worker worker(&reactor_, absl::Microseconds(20));
  datamover_.on_completion = [this] {
    reactor_.Pass(absl::Microseconds(200));
    datamover_.queue().waiting.emplace_back();
  };
  datamover_.queue().waiting.resize(100);
  int paid = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    const int completions = datamover_.completions;
    const int polls = datamover_.queue().polls;
    Turn();
    if (datamover_.completions == completions) ++paid;
    EXPECT_GT(datamover_.queue().polls, polls) << turn;
  }
  EXPECT_GT(paid, 500);
}

// Also where to answer takes longer than the pass of one who uses too much.
TEST_F(RdmaPumpSharesTest, WhoEmptiesHisQueueIsAsOthersAfterAFlood) {
  Worker worker(&reactor_, absl::Microseconds(40));
  datamover_.on_completion = [this] { reactor_.Pass(absl::Microseconds(40)); };
  datamover_.queue().waiting.resize(2000);
  while (!datamover_.queue().waiting.empty()) Turn();
  bool answers = false;
  datamover_.on_completion = [&] { answers = true; };
  datamover_.on_flush = [&] {
    if (std::exchange(answers, false)) reactor_.Pass(absl::Microseconds(40));
  };
  int late = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    datamover_.queue().waiting.resize(1);
    Turn();
    if (turn >= 1000 && !datamover_.queue().waiting.empty()) ++late;
  }
  EXPECT_EQ(late, 0);
}

TEST_F(RdmaPumpSharesTest, SleepsWhereALookInVainIsSlow) {
  reactor_.turn_shares().set_crowded(true);
  datamover_.queue().on_look = [this] { reactor_.Pass(absl::Milliseconds(1)); };
  datamover_.queue().waiting.emplace_back();
  for (int i = 0; i < 3; ++i) Turn();
  EXPECT_EQ(datamover_.completions, 1);
  EXPECT_FALSE(reactor_.busy());
}

// A look at a device that is software copies what is there of an operation. The
// last of many completes it.
TEST_F(RdmaPumpSharesTest, LooksThatCompleteNothingCount) {
  constexpr absl::Duration kWork = absl::Microseconds(20);
  constexpr int kTurns = 2000;
  Worker worker(&reactor_, kWork);
  for (const int cost : {40, 100, 300}) {
    SCOPED_TRACE(cost);
    int looks = 0;
    int counted = 0;
    datamover_.queue().on_look = [&] {
      reactor_.Pass(absl::Microseconds(cost));
      ++counted;
      if (++looks % 20 == 0) datamover_.queue().waiting.emplace_back();
    };
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn == kTurns / 2) counted = 0;
      reactor_.Ready(datamover_.queue().fd());
      reactor_.Turn();
    }
    const absl::Duration half = kTurns / 2 * kWork;
    EXPECT_LE(counted * absl::Microseconds(cost), half * 1.8);
    EXPECT_GE(counted * absl::Microseconds(cost), half * 0.8);
  }
}

}  // namespace
}  // namespace skiff::protocol
