// The exchange of Hello and HelloReply that iSERHelloRequired=Yes asks for
// (RFC 7145 section 5.1.3), in both roles. That ours understand each other is
// in testing/datamover_conformance/hello.cc.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"
#include "testing/stack/iser_raw_target_test_util.h"

namespace skiff::protocol {
namespace {

using transport::Access;

std::string FabricName(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Iwarp" : "InfiniBand";
}

IserMessage Parsed(const std::string& message) {
  IserMessage parsed;
  EXPECT_TRUE(
      DecodeIserMessage(
          {reinterpret_cast<const uint8_t*>(message.data()), message.size()},
          &parsed)
          .ok());
  return parsed;
}

// --- A target of ours.

class HelloAtTargetTest : public RawInitiatorTest {
 protected:
  void Negotiate() {
    RawInitiatorTest::Negotiate(
        "InitialR2T=Yes|ImmediateData=No|TaggedBufferForSolicitedDataOnly=Yes|"
        "iSERHelloRequired=Yes|");
  }
  // The HelloReply to a Hello that must be the first thing to be answered.
  IserHelloReply Greet(const IserHello& hello) {
    peer_.Send(ToIserHello(hello));
    const std::optional<std::string> answer = peer_.Next();
    if (!answer.has_value()) {
      ADD_FAILURE() << absl::StrJoin(log_, "\n");
      return {};
    }
    const IserMessage parsed = Parsed(*answer);
    EXPECT_EQ(parsed.opcode, IserOpcode::kHelloReply);
    return parsed.hello_reply;
  }
  // How long it takes to write so many pieces, all sent at once.
  absl::Duration TimeToWrite(int pieces) {
    // Each answer takes its key out of use.
    std::vector<std::unique_ptr<RawIserPeer::Memory>> memories;
    const absl::Time start = stack_.world.now();
    for (int i = 0; i < pieces; ++i) {
      memories.push_back(Buffer(4096, Access::kRemoteRead));
      peer_.Send(
          ToIser(Command(0, 4096), "", Reading(memories.back()->Remote())));
    }
    for (int i = 0; i < pieces; ++i) {
      EXPECT_TRUE(peer_.Next().has_value()) << absl::StrJoin(log_, "\n");
    }
    return stack_.world.now() - start;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, HelloAtTargetTest, ::testing::Bool(),
                         FabricName);

TEST_P(HelloAtTargetTest, IsAnsweredAndCommandsFollow) {
  Negotiate();
  const IserHelloReply reply = Greet({.iser_ird = 5});
  EXPECT_FALSE(reply.reject);
  EXPECT_EQ(reply.max_version, kIserVersion);
  EXPECT_EQ(reply.current_version, kIserVersion);
  EXPECT_EQ(reply.iser_ord, 5);
  peer_.Send(ToIser(Command(0, 0)));
  EXPECT_TRUE(peer_.Next().has_value());
  EXPECT_TRUE(peer_.connected());
}

TEST_P(HelloAtTargetTest, PromisesNoMoreReadsThanTheDeviceDoes) {
  Negotiate();
  EXPECT_EQ(Greet({.iser_ird = 0xffff}).iser_ord,
            peer_.endpoint()->capabilities().max_read_depth);
}

// Section 8.2: what the HelloReply says holds, whatever the device could do.
TEST_P(HelloAtTargetTest, KeepsToTheReadsThatItPromised) {
  constexpr absl::Duration kLatency = absl::Milliseconds(10);
  testing::LinkOptions link = testing::LinkOptions::Calm();
  link.latency_min = link.latency_max = kLatency;
  stack_.world.network().SetLink("attacker", "server", link);
  Negotiate();
  EXPECT_EQ(Greet({.iser_ird = 2}).iser_ord, 2);
  TimeToWrite(1);  // Takes the unit attention.
  // Commands and answers take one round trip, each pair of reads another.
  EXPECT_GE(TimeToWrite(8), 2 * kLatency * (1 + 8 / 2));
  EXPECT_LE(TimeToWrite(8), 2 * kLatency * 8);
}

TEST_P(HelloAtTargetTest, RejectsVersionsThatItDoesNotSpeak) {
  Negotiate();
  EXPECT_TRUE(Greet({.max_version = 12, .min_version = 11}).reject);
  ExpectClosed("the initiator speaks iSER versions 11 to 12 only");
}

// Writes would wait for ever.
TEST_P(HelloAtTargetTest, HasToAllowReads) {
  Negotiate();
  peer_.Send(ToIserHello(IserHello{.iser_ird = 0}));
  ExpectClosed("an iSER Hello that allows no RDMA Read (iSER-IRD=0)");
}

TEST_P(HelloAtTargetTest, MustComeFirst) {
  Negotiate();
  peer_.Send(ToIser(Command(0, 0)));
  ExpectClosed("no iSER Hello came first, although iSERHelloRequired=Yes");
}

TEST_P(HelloAtTargetTest, ComesOnce) {
  Negotiate();
  Greet({.iser_ird = 5});
  peer_.Send(ToIserHello(IserHello{.iser_ird = 5}));
  ExpectClosed("an iSER Hello out of place");
}

// --- An initiator of ours.

class HelloAtInitiatorTest : public RawTargetTest {
 protected:
  HelloAtInitiatorTest() { offer_.hello_required = true; }

  // Logs in and takes the Hello.
  void Meet() {
    ASSERT_NO_FATAL_FAILURE(LogIn());
    const std::optional<std::string> message = peer_.Next();
    ASSERT_TRUE(message.has_value());
    const IserMessage parsed = Parsed(*message);
    ASSERT_EQ(parsed.opcode, IserOpcode::kHello);
    hello_ = parsed.hello;
  }
  // A command, which waits for the HelloReply.
  void Wait() {
    waiting_.emplace(scsi::cdb::TestUnitReady(), 0);
    stack_.initiator->Submit(&waiting_->command);
    stack_.world.RunFor(absl::Milliseconds(100));
    peer_.Poll();
    EXPECT_TRUE(peer_.received.empty());
    EXPECT_TRUE(peer_.connected());
  }
  void ExpectLostWithCommand(const std::string& why) {
    finished_ = true;  // Submit() was not called.
    ExpectLost(why);
    EXPECT_TRUE(stack_.RunUntil([this] { return waiting_->finished; }));
    EXPECT_EQ(waiting_->command.outcome,
              scsi::Command::Outcome::kConnectionLost);
  }

  IserHello hello_;
  std::optional<TestCommand> waiting_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, HelloAtInitiatorTest, ::testing::Bool(),
                         FabricName);

TEST_P(HelloAtInitiatorTest, ComesFirstAndCommandsWait) {
  Meet();
  EXPECT_EQ(hello_.min_version, kIserVersion);
  EXPECT_EQ(hello_.max_version, kIserVersion);
  EXPECT_EQ(hello_.iser_ird, peer_.endpoint()->capabilities().max_read_depth);
  Wait();
  peer_.Send(ToIserHello(IserHelloReply{.iser_ord = hello_.iser_ird}));
  const std::optional<std::string> message = peer_.Next();
  ASSERT_TRUE(message.has_value());
  ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*message), &pdu_).ok());
  peer_.Send(ToIser(Good()));
  EXPECT_TRUE(stack_.RunUntil([this] { return waiting_->finished; }));
  EXPECT_EQ(waiting_->command.outcome, scsi::Command::Outcome::kCompleted);
}

TEST_P(HelloAtInitiatorTest, ARejectionEndsTheSession) {
  Meet();
  Wait();
  peer_.Send(ToIserHello(IserHelloReply{.reject = true}));
  ExpectLostWithCommand("the target does not speak iSER version 10");
}

TEST_P(HelloAtInitiatorTest, AnotherVersionEndsTheSession) {
  Meet();
  Wait();
  peer_.Send(ToIserHello(IserHelloReply{.current_version = 9}));
  ExpectLostWithCommand("the target does not speak iSER version 10");
}

TEST_P(HelloAtInitiatorTest, NothingMayComeBeforeTheReply) {
  Meet();
  Wait();
  NopInPdu nop;
  nop.stat_sn = stat_sn_;
  nop.target_transfer_tag = 1;
  peer_.Send(ToIser(nop));
  ExpectLostWithCommand("a PDU before the iSER HelloReply");
}

TEST_P(HelloAtInitiatorTest, ASecondReplyEndsTheSession) {
  Meet();
  Wait();
  for (int i = 0; i < 2; ++i) peer_.Send(ToIserHello(IserHelloReply()));
  ExpectLostWithCommand("an unexpected iSER HelloReply");
}

TEST_P(HelloAtInitiatorTest, ATargetThatDoesNotAnswerIsGivenUp) {
  Meet();
  Wait();
  EXPECT_TRUE(stack_.RunUntil([this] { return waiting_->finished; },
                              absl::Seconds(20)));
}

TEST_P(HelloAtInitiatorTest, AReplyThatNobodyAskedForEndsTheSession) {
  offer_.hello_required = false;
  LogIn();
  Submit();
  peer_.Send(ToIserHello(IserHelloReply()));
  ExpectLost("an unexpected iSER HelloReply");
}

}  // namespace
}  // namespace skiff::protocol
