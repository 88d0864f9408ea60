#include "protocol/connection/stream_pump.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/connection/pump_test_util.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/manual_reactor.h"
#include "transport/reactor/turn_shares.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

using transport::IoResult;
using transport::ManualReactor;
using transport::StreamStatus;

// A stream whose other end is the test: `input` is what can be read, `output`
// what was written.
struct Wire {
  // Takes what can be read first: a long input is not moved each time.
  size_t Take(void* to, size_t most) {
    const size_t n = std::min(most, input.size() - taken);
    memcpy(to, input.data() + taken, n);
    taken += n;
    if (taken == input.size()) {
      input.clear();
      taken = 0;
    }
    return n;
  }

  std::string input;
  size_t taken = 0;  // Of `input`.
  std::string output;
  size_t room = ~size_t{0};  // Bytes that may still be written.
  StreamStatus input_end = StreamStatus::kWouldBlock;  // After `input`.
  bool write_fails = false;
  bool shut = false;
  bool destroyed = false;
  int reads = 0;
  int writes = 0;
  transport::StreamObserver* observer = nullptr;
};

class FakeStream final : public transport::ByteStream {
 public:
  explicit FakeStream(Wire* wire) : wire_(wire) {}
  ~FakeStream() override {
    EXPECT_EQ(wire_->observer, nullptr);
    wire_->destroyed = true;
  }
  void SetObserver(transport::StreamObserver* observer) override {
    wire_->observer = observer;
  }
  IoResult Readv(absl::Span<const iovec> to) override {
    ++wire_->reads;
    if (wire_->input.empty()) return {wire_->input_end, 0};
    size_t moved = 0;
    for (const iovec& part : to) {
      moved += wire_->Take(part.iov_base, part.iov_len);
    }
    return {StreamStatus::kOk, moved};
  }
  IoResult Writev(absl::Span<const iovec> from) override {
    ++wire_->writes;
    if (wire_->write_fails) return {StreamStatus::kError, 0};
    if (wire_->room == 0) return {StreamStatus::kWouldBlock, 0};
    size_t moved = 0;
    for (const iovec& part : from) {
      const size_t n = std::min(part.iov_len, wire_->room);
      wire_->output.append(static_cast<const char*>(part.iov_base), n);
      wire_->room -= n;
      moved += n;
    }
    return {StreamStatus::kOk, moved};
  }
  void ShutdownWrite() override { wire_->shut = true; }
  void Abort() override {}
  absl::Status error() const override {
    return absl::UnavailableError("connection reset by peer");
  }
  absl::string_view scheme() const override { return "fake"; }
  std::string local_address() const override { return "here"; }
  std::string peer_address() const override { return "there"; }

 private:
  Wire* wire_;
};

// Appends what it receives to `received`, sends `queue`.
class FakeDatamover final : public StreamDatamover {
 public:
  static constexpr size_t kCapacity = 64;  // Of what it receives at once.

  absl::Span<const iovec> ReceiveSpans() override {
    if (paused) return {};
    buffer_.resize(capacity);
    span_ = {buffer_.data(), buffer_.size()};
    return {&span_, 1};
  }
  void BytesReceived(size_t n) override {
    received.append(buffer_, 0, n);
    if (on_receive) on_receive();
  }
  absl::Span<const iovec> SendSpans() override {
    if (queue.empty()) return {};
    send_ = {queue.data(), queue.size()};
    return {&send_, 1};
  }
  void BytesSent(size_t n) override { queue.erase(0, n); }
  bool has_output() const override { return !queue.empty(); }
  bool mid_pdu() const override { return mid; }
  bool congested() const override { return queue.size() > 100; }
  ConnectionCounters counters() const override { return {}; }

  size_t capacity = kCapacity;
  std::string received;
  std::string queue;
  bool paused = false;
  bool mid = false;
  std::function<void()> on_receive;

 private:
  std::string buffer_;
  iovec span_;
  iovec send_;
};

class StreamPumpTest : public testing::Test, public PumpTestClient {
 protected:
  void Start(const StreamPumpOptions& options = {},
             absl::Duration spin = absl::ZeroDuration()) {
    transport::EpollReactorOptions reactor_options;
    reactor_options.spin = spin;
    reactor_ = transport::EpollReactor::Create(reactor_options).value();
    pump_ = std::make_unique<StreamPump>(reactor_.get(),
                                         std::make_unique<FakeStream>(&wire_),
                                         &datamover_, options, this);
  }
  // On a clock that stands still, for what depends on how long a pass takes.
  void StartByHand() {
    pump_ = std::make_unique<StreamPump>(
        &manual_, std::make_unique<FakeStream>(&wire_), &datamover_,
        StreamPumpOptions(), this);
  }
  void Arrive(const std::string& bytes) {
    wire_.input += bytes;
    wire_.observer->OnReadable();
  }

  Wire wire_;
  FakeDatamover datamover_;
  std::unique_ptr<transport::EpollReactor> reactor_;
  ManualReactor manual_;
  std::unique_ptr<StreamPump> pump_;
};

TEST_F(StreamPumpTest, ReceivesUntilItWouldBlockAndReportsOnce) {
  Start();
  Arrive(std::string(1000, 'x'));
  reactor_->Poll();
  EXPECT_EQ(datamover_.received, std::string(1000, 'x'));
  EXPECT_EQ(progress_, 1);
  EXPECT_EQ(pump_->bytes_received(), 1000u);
}

TEST_F(StreamPumpTest, WithoutMemoryOneConnectionEnds) {
  Start();
  bool destroyed_inside = false;
  datamover_.on_receive = [] { throw std::bad_alloc(); };
  on_closed_ = [&] {
    pump_.reset();
    destroyed_inside = true;
  };
  datamover_.queue = "what was to be sent";
  Arrive("too much");
  reactor_->Poll();
  EXPECT_TRUE(absl::IsResourceExhausted(why_)) << why_;
  EXPECT_TRUE(destroyed_inside);
  EXPECT_EQ(wire_.output, "");
  reactor_->Poll();
}

TEST_F(StreamPumpTest, WhoCausesTheUseOfSpareMemoryEndsWhenItIsHandled) {
  transport::SpareMemory::Keep(2 * transport::SpareMemory::kBlockBytes);
  Start();
  // As `operator new` does when there is none.
  datamover_.on_receive = [] { std::get_new_handler()(); };
  datamover_.queue = "a whole PDU";
  Arrive("a little");
  reactor_->Poll();
  EXPECT_EQ(datamover_.received, "a little");
  EXPECT_EQ(progress_, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(why_)) << why_;
  EXPECT_EQ(transport::SpareMemory::missing(), 0u);
  std::set_new_handler(nullptr);
}

TEST_F(StreamPumpTest, SendsOnceATurnHoweverOftenKicked) {
  Start();
  datamover_.queue = "ab";
  pump_->Kick();
  datamover_.queue += "cd";
  pump_->Kick();
  EXPECT_EQ(wire_.writes, 0);
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "abcd");
  EXPECT_EQ(wire_.writes, 1);
  EXPECT_EQ(pump_->bytes_sent(), 4u);
}

TEST_F(StreamPumpTest, WhatIsQueuedWhileReceivingGoesOutInTheSameTurn) {
  Start();
  datamover_.on_receive = [this] {
    datamover_.queue += "answer";
    pump_->Kick();
  };
  on_progress_ = [this] {
    datamover_.queue += " and more";
    pump_->Kick();
  };
  Arrive("question");
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "answer and more");
  EXPECT_EQ(wire_.writes, 1);
}

TEST_F(StreamPumpTest, LongAnswersLeaveBeforeTheRestIsRead) {
  StartByHand();
  const std::string answer(size_t{16} << 10, 'a');
  datamover_.on_receive = [&] { datamover_.queue += answer; };
  Arrive(std::string(FakeDatamover::kCapacity, 'x') + "more");
  manual_.Turn();
  EXPECT_EQ(wire_.output, answer + answer);
  EXPECT_EQ(wire_.writes, 2);
}

TEST_F(StreamPumpTest, ShortAnswersLeaveTogether) {
  Start();
  datamover_.on_receive = [this] { datamover_.queue += "answer"; };
  Arrive(std::string(FakeDatamover::kCapacity, 'x') + "more");
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "answeranswer");
  EXPECT_EQ(wire_.writes, 1);
}

TEST_F(StreamPumpTest, ABlockedSendWaitsForTheStream) {
  Start();
  wire_.room = 3;
  datamover_.queue = "abcdef";
  pump_->Kick();
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "abc");
  EXPECT_TRUE(pump_->send_blocked());
  const absl::Time progress = pump_->last_send_progress();
  const int writes = wire_.writes;
  pump_->Kick();
  reactor_->Poll();
  EXPECT_EQ(wire_.writes, writes);
  EXPECT_EQ(pump_->last_send_progress(), progress);
  wire_.room = 100;
  wire_.observer->OnWritable();
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "abcdef");
  EXPECT_FALSE(pump_->send_blocked());
  EXPECT_GT(pump_->last_send_progress(), progress);
}

TEST_F(StreamPumpTest, NoConnectionTakesMoreThanItsShareOfATurn) {
  StreamPumpOptions options;
  options.receive_bytes_per_turn = 128;
  options.send_bytes_per_turn = 64;
  Start(options);
  on_progress_ = [this] { pump_->Kick(); };
  Arrive(std::string(300, 'x'));
  reactor_->Poll();
  EXPECT_EQ(datamover_.received.size(), 128u);
  EXPECT_LE(reactor_->NextDeadline(), reactor_->Now());  // It must not sleep.
  reactor_->Poll();
  EXPECT_EQ(datamover_.received.size(), 256u);
  reactor_->Poll();
  EXPECT_EQ(datamover_.received.size(), 300u);
  reactor_->Poll();
  EXPECT_EQ(reactor_->NextDeadline(), absl::InfiniteFuture());
}

TEST_F(StreamPumpTest, CongestionPausesAndDrainingResumes) {
  Start();
  wire_.room = 0;
  datamover_.queue = std::string(200, 'q');
  datamover_.paused = true;
  pump_->Kick();
  Arrive("waiting");
  reactor_->Poll();
  EXPECT_EQ(datamover_.received, "");
  EXPECT_EQ(progress_, 0);
  on_progress_ = [this] { datamover_.paused = false; };
  wire_.room = 1000;
  wire_.observer->OnWritable();
  reactor_->Poll();
  EXPECT_EQ(progress_, 1);
  reactor_->Poll();
  EXPECT_EQ(datamover_.received, "waiting");
}

TEST_F(StreamPumpTest, SaysThatThePeerClosedAndWhere) {
  Start();
  datamover_.mid = true;
  wire_.input_end = StreamStatus::kClosed;
  Arrive("half");
  reactor_->Poll();
  EXPECT_TRUE(closed_);
  EXPECT_EQ(datamover_.received, "half");
  EXPECT_EQ(why_.message(),
            "there closed the connection in the middle of a PDU");
}

TEST_F(StreamPumpTest, AFailedSendStillReadsThePeersLastWords) {
  Start();
  wire_.write_fails = true;
  datamover_.queue = "x";
  wire_.input = "goodbye";
  pump_->Kick();
  reactor_->Poll();
  EXPECT_EQ(datamover_.received, "goodbye");
  EXPECT_EQ(progress_, 1);
  EXPECT_TRUE(closed_);
  EXPECT_EQ(why_.message(), "connection reset by peer");
}

TEST_F(StreamPumpTest, ClosesWhenSentAndDiscardsInput) {
  Start();
  wire_.room = 2;
  datamover_.queue = "last";
  pump_->CloseWhenSent();
  Arrive("ignored");
  reactor_->Poll();
  EXPECT_FALSE(wire_.shut);
  wire_.room = 100;
  wire_.observer->OnWritable();
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "last");
  EXPECT_TRUE(wire_.shut);
  EXPECT_FALSE(closed_);
  wire_.input_end = StreamStatus::kClosed;
  Arrive("still ignored");
  reactor_->Poll();
  EXPECT_TRUE(closed_);
  EXPECT_TRUE(why_.ok());
  EXPECT_EQ(datamover_.received, "");
}

TEST_F(StreamPumpTest, MayBeDestroyedFromItsOwnCallbacks) {
  Start();
  on_progress_ = [this] { pump_.reset(); };
  Arrive("x");
  reactor_->Poll();
  EXPECT_TRUE(wire_.destroyed);

  wire_ = Wire();
  progress_ = 0;
  Start();
  on_closed_ = [this] { pump_.reset(); };
  wire_.input_end = StreamStatus::kClosed;
  wire_.observer->OnReadable();
  reactor_->Poll();
  EXPECT_TRUE(closed_);
  EXPECT_TRUE(wire_.destroyed);
}

TEST_F(StreamPumpTest, DestroyingItLeavesNothingBehindInTheReactor) {
  StreamPumpOptions options;
  options.receive_bytes_per_turn = 1;
  Start(options, absl::InfiniteDuration());
  datamover_.queue = "unsent";
  Arrive("much");
  reactor_->Poll();
  pump_->Kick();
  pump_.reset();
  const int reads = wire_.reads;
  reactor_->Poll();
  EXPECT_EQ(wire_.reads, reads);
}

TEST_F(StreamPumpTest, ASpinningReactorIsReadWithoutBeingTold) {
  Start({}, absl::InfiniteDuration());
  reactor_->Poll();
  wire_.input = "unannounced";
  reactor_->Poll();
  EXPECT_EQ(datamover_.received, "unannounced");
}

// A connection whose peer asks, each time with 48 bytes, for what takes time.
class Asker : public PumpClient {
 public:
  static constexpr size_t kRequest = 48;

  Asker(ManualReactor* reactor, absl::Duration cost)
      : pump_(reactor, std::make_unique<FakeStream>(&wire_), &datamover_, {},
              this) {
    datamover_.on_receive = [this, reactor, cost] {
      while (served_ * kRequest + kRequest <= datamover_.received.size()) {
        ++served_;
        reactor->Pass(cost);
        datamover_.queue += "answer";
      }
    };
  }
  void OnProgress() override {}
  void OnClosed(absl::Status) override {}
  void Ask(size_t requests) {
    wire_.input.append(requests * kRequest, 'r');
    wire_.observer->OnReadable();
  }
  size_t served() const { return served_; }
  size_t answered() const { return wire_.output.size() / 6; }
  void ReceiveAtOnce(size_t bytes) { datamover_.capacity = bytes; }
  void SetNewcomer(bool newcomer) { pump_.SetNewcomer(newcomer); }

 private:
  Wire wire_;
  FakeDatamover datamover_;
  StreamPump pump_;
  size_t served_ = 0;
};

// However much of it has been received with one look.
TEST(StreamPumpSharesTest, AFloodIsServedInSmallPiecesBesideAnother) {
  constexpr absl::Duration kCost = absl::Microseconds(1);
  constexpr size_t kFlood = 20000;
  ManualReactor reactor;
  Asker flood(&reactor, kCost);
  Asker other(&reactor, kCost);
  flood.ReceiveAtOnce(size_t{64} << 10);
  other.ReceiveAtOnce(size_t{64} << 10);
  flood.Ask(kFlood);
  size_t most = 0;
  size_t asked = 0;
  for (int turn = 0; turn < 200; ++turn) {
    other.Ask(8);
    asked += 8;
    const size_t before = flood.served();
    reactor.Turn();
    EXPECT_EQ(other.answered(), asked) << "in the turn in which it came";
    EXPECT_TRUE(reactor.busy());
    if (turn >= 20) most = std::max(most, flood.served() - before);
  }
  EXPECT_GT(flood.served(), asked / 2) << "it goes on";
  // What the other has, and one look more.
  EXPECT_LE(most, 8 + transport::TurnShares::kLeastBytes / Asker::kRequest + 1);

  // Whatever it costs, it gets what is left.
  int turns = 0;
  while (flood.served() < kFlood && turns < 2000) {
    reactor.Turn();
    ++turns;
  }
  EXPECT_EQ(flood.served(), kFlood);
  reactor.Turn();
  EXPECT_EQ(flood.answered(), kFlood);
  reactor.Turn();
  EXPECT_FALSE(reactor.busy());
}

// Also where a single request takes longer than a pass.
TEST(StreamPumpSharesTest, AFloodTakesNoMoreThanOneOther) {
  for (const int cost : {1, 5, 30, 50, 200}) {
    SCOPED_TRACE(cost);
    const absl::Duration each = absl::Microseconds(cost);
    constexpr absl::Duration kCost = absl::Microseconds(2);
    constexpr size_t kTurns = 2000;
    ManualReactor reactor;
    Asker flood(&reactor, each);
    Asker other(&reactor, kCost);
    flood.Ask(100000);
    size_t before = 0;
    for (size_t turn = 0; turn < kTurns; ++turn) {
      if (turn == kTurns / 2) before = flood.served();
      other.Ask(8);
      reactor.Turn();
    }
    const absl::Duration half = kTurns / 2 * 8 * kCost;
    const absl::Duration took = (flood.served() - before) * each;
    EXPECT_LE(took, half * 1.2);
    EXPECT_GE(took, half * 0.8);
  }
}

// Each of which has a right to little, but there are many.
TEST(StreamPumpSharesTest, AFloodOfLoginsTakesNoMoreThanOneOther) {
  constexpr absl::Duration kLogin = absl::Microseconds(50);
  constexpr absl::Duration kCost = absl::Microseconds(2);
  constexpr int kLogins = 200;
  constexpr int kTurns = 400;
  ManualReactor reactor;
  Asker other(&reactor, kCost);
  std::vector<std::unique_ptr<Asker>> logins;
  for (int i = 0; i < kLogins; ++i) {
    logins.push_back(std::make_unique<Asker>(&reactor, kLogin));
    logins.back()->SetNewcomer(true);
  }
  size_t asked = 0;
  absl::Duration longest;
  const absl::Time began = reactor.NowInTurn();
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const auto& login : logins) login->Ask(1);
    other.Ask(8);
    asked += 8;
    const absl::Time before = reactor.NowInTurn();
    reactor.Turn();
    EXPECT_EQ(other.answered(), asked) << "in the turn in which it came";
    // At first nobody knows who is active.
    if (turn > 1) {
      longest = std::max(longest, reactor.NowInTurn() - before);
    }
  }
  EXPECT_LE(longest, transport::TurnShares::kLonePass + kLogin + 8 * kCost);
  EXPECT_LE(reactor.NowInTurn() - began, 2.5 * kTurns * 8 * kCost);
  // One after the other, as they came.
  size_t served = 0;
  for (const auto& login : logins) served += login->served() > 0 ? 1 : 0;
  EXPECT_GE(served, kTurns * 8 * kCost / kLogin / 2);

  // Once they are in, they have shares of their own.
  logins.resize(1);
  logins[0]->SetNewcomer(false);
  for (int turn = 0; turn < 2000; ++turn) reactor.Turn();
  EXPECT_FALSE(reactor.busy());
  EXPECT_EQ(logins[0]->answered(), logins[0]->served());
}

TEST(StreamPumpSharesTest, AFloodComesAfterTheOthersOfItsTurn) {
  ManualReactor reactor;
  Asker flood(&reactor, absl::Microseconds(1));
  Asker other(&reactor, absl::Microseconds(1));
  flood.ReceiveAtOnce(4096);
  flood.Ask(20000);
  for (int turn = 0; turn < 100; ++turn) {
    other.Ask(1);
    reactor.Turn();
  }
  const size_t before = flood.served();
  size_t at_others_turn = 0;
  class Hook final : public transport::TurnHook {
   public:
    explicit Hook(std::function<void()> run) : run_(std::move(run)) {}
    void OnTurnEnd() override { run_(); }

   private:
    std::function<void()> run_;
  };
  Hook second([&] { at_others_turn = flood.served(); });
  Hook first([&] { reactor.ScheduleTurnEnd(&second); });
  ASSERT_LT(before, 20000u);
  flood.Ask(1);  // Its hook comes first.
  reactor.ScheduleTurnEnd(&first);
  reactor.Turn();
  EXPECT_EQ(at_others_turn, before);
  EXPECT_GT(flood.served(), before);
}

}  // namespace
}  // namespace skiff::protocol
