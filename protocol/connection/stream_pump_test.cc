#include "protocol/connection/stream_pump.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "protocol/connection/pump_test_util.h"
#include "protocol/connection/stream_pump_test_util.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/manual_reactor.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {
namespace {

using transport::ManualReactor;
using transport::StreamStatus;

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

TEST_F(StreamPumpTest, WhatCameWhileItStoppedIsDiscardedAtTheEnd) {
  Start();
  datamover_.on_receive = [this] { pump_->StopReceiving(); };
  Arrive("first");
  reactor_->Poll();
  wire_.input_end = StreamStatus::kClosed;
  Arrive("more");
  reactor_->Poll();
  EXPECT_FALSE(closed_);
  EXPECT_EQ(wire_.input, "more");
  datamover_.queue = "last";
  pump_->CloseWhenSent();
  reactor_->Poll();
  reactor_->Poll();
  EXPECT_EQ(wire_.output, "last");
  EXPECT_TRUE(closed_);
  EXPECT_TRUE(why_.ok());
  EXPECT_EQ(datamover_.received, "first");
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

}  // namespace
}  // namespace skiff::protocol
