// MaxOutstandingUnexpectedPDUs (RFC 7145 sections 6.7 and 8.1), as sender and
// as receiver, of both roles.

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"
#include "testing/stack/iser_raw_target_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDeployed[] = "InitialR2T=Yes|ImmediateData=Yes|";
std::string Declaring(uint32_t pdus) {
  return absl::StrCat(kDeployed, "MaxOutstandingUnexpectedPDUs=", pdus,
                      "|TaggedBufferForSolicitedDataOnly=Yes|");
}
constexpr uint32_t kOurs = 32;  // What we declare.

Opcode OpcodeOf(const std::string& message) {
  return static_cast<Opcode>(DecodeFrame(RawIserPeer::BhsOf(message)).opcode);
}

// --- A target of ours.

class UnexpectedAtTargetTest : public RawInitiatorTest {
 protected:
  NopOutPdu Ping(bool immediate) {
    NopOutPdu nop;
    nop.immediate = immediate;
    nop.initiator_task_tag = ++tag_;
    nop.cmd_sn = immediate ? cmd_sn_ : cmd_sn_++;
    return nop;
  }
  void ExpectAnswer(const NopOutPdu& ping) {
    peer_.Send(ToIser(ping));
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    EXPECT_EQ(OpcodeOf(*answer), Opcode::kNopIn);
  }
  // What a target at error recovery level 0 rejects, and goes on after.
  void SendSnack(uint32_t exp_stat_sn) {
    SnackRequestPdu snack;
    snack.exp_stat_sn = exp_stat_sn;
    peer_.Send(ToIser(snack));
  }
  // Says what has been seen, by an answer if `message` is a ping.
  void AnswerPing(const std::string& message, uint32_t exp_stat_sn) {
    NopInPdu ping;
    if (!Decode(RawIserPeer::BhsOf(message), &ping).ok()) return;
    NopOutPdu answer;
    answer.immediate = true;
    answer.target_transfer_tag = ping.target_transfer_tag;
    answer.cmd_sn = cmd_sn_;
    answer.exp_stat_sn = exp_stat_sn;
    peer_.Send(ToIser(answer));
  }
  // All that the target has to say.
  std::vector<std::string> Settle() {
    stack_.world.RunFor(absl::Milliseconds(10));
    peer_.Poll();
    std::vector<std::string> messages(peer_.received.begin(),
                                      peer_.received.end());
    peer_.received.clear();
    return messages;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, UnexpectedAtTargetTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

TEST_P(UnexpectedAtTargetTest, EndsTheConnectionOfWhoSendsMore) {
  LogIn(Declaring(8));
  for (uint32_t i = 0; i < kOurs; ++i) ExpectAnswer(Ping(/*immediate=*/true));
  peer_.Send(ToIser(Ping(/*immediate=*/true)));
  ExpectClosed("an immediate NOP-Out beyond the 32 unexpected PDUs");
}

TEST_P(UnexpectedAtTargetTest, ARequestInOrderRetiresThoseBefore) {
  LogIn(Declaring(8));
  for (int round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < kOurs; ++i) ExpectAnswer(Ping(/*immediate=*/true));
    ExpectAnswer(Ping(/*immediate=*/false));
  }
  EXPECT_TRUE(peer_.connected());
}

// The initiators of the field do not know the key, and nobody told them.
TEST_P(UnexpectedAtTargetTest, WhoDeclaresNothingIsToldNoLimit) {
  LogIn(kDeployed);
  for (uint32_t i = 0; i < 3 * kOurs; ++i) ExpectAnswer(Ping(true));
  for (int i = 0; i < 10; ++i) SendSnack(0);
  EXPECT_EQ(Settle().size(), 10u);
  EXPECT_TRUE(peer_.connected());
}

// The last place is for a ping, whose answer acknowledges.
TEST_P(UnexpectedAtTargetTest, SendsNoMoreThanTheInitiatorDeclared) {
  LogIn(Declaring(3));
  uint32_t stat_sn = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) SendSnack(stat_sn);
    const std::vector<std::string> said = Settle();
    ASSERT_EQ(said.size(), 3u);
    EXPECT_EQ(OpcodeOf(said[0]), Opcode::kReject);
    EXPECT_EQ(OpcodeOf(said[1]), Opcode::kReject);
    NopInPdu ping;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(said[2]), &ping).ok());
    EXPECT_NE(ping.target_transfer_tag, kReservedTag);
    EXPECT_THAT(absl::StrJoin(log_, "\n"), HasSubstr("the Reject is not sent"));
    stat_sn = ping.stat_sn;  // All before it were seen.
    AnswerPing(said[2], stat_sn);
  }
  EXPECT_TRUE(Settle().empty());
  EXPECT_TRUE(peer_.connected());
}

TEST_P(UnexpectedAtTargetTest, AsynchronousMessagesWaitForRoom) {
  LogIn(Declaring(3));
  // Two at a time, with a ping in the last place.
  for (int i = 0; i < 5; ++i) stack_.target->NotifyBackendChanged(0);
  uint32_t stat_sn = 0;
  for (const size_t events : {2, 2, 1}) {
    const std::vector<std::string> said = Settle();
    ASSERT_GE(said.size(), events);
    for (size_t i = 0; i < events; ++i) {
      AsyncMessagePdu event;
      ASSERT_TRUE(Decode(RawIserPeer::BhsOf(said[i]), &event).ok());
      EXPECT_EQ(event.async_event, AsyncMessagePdu::kScsiAsyncEvent);
      EXPECT_GT(said[i].size(), kIserControlSize);
      EXPECT_TRUE(stat_sn == 0 || event.stat_sn == stat_sn) << stat_sn;
      stat_sn = event.stat_sn + 1;
    }
    EXPECT_EQ(said.size(), events == 2 ? 3u : 1u);
    AnswerPing(said.back(), stat_sn);
  }
  EXPECT_TRUE(Settle().empty());
  EXPECT_THAT(absl::StrJoin(log_, "\n"), Not(HasSubstr("is not sent")));
  EXPECT_TRUE(peer_.connected());
}

TEST_P(UnexpectedAtTargetTest, SoManyAsynchronousMessagesWait) {
  LogIn(Declaring(3));
  for (int i = 0; i < 2 + 16 + 1; ++i) stack_.target->NotifyBackendChanged(0);
  EXPECT_EQ(Settle().size(), 3u);
  EXPECT_THAT(absl::StrJoin(log_, "\n"),
              HasSubstr("a SCSI event is not sent: 16 others wait"));
}

// It answers what the initiator waits for.
TEST_P(UnexpectedAtTargetTest, ARejectInPlaceOfAnAnswerIsExpected) {
  LogIn(Declaring(2));
  for (int i = 0; i < 5; ++i) {
    TextRequestPdu text;
    text.initiator_task_tag = ++tag_;
    text.target_transfer_tag = 1234;  // There is no such exchange.
    text.cmd_sn = cmd_sn_++;
    peer_.Send(ToIser(text));
  }
  for (const std::string& message : Settle()) {
    EXPECT_EQ(OpcodeOf(message), Opcode::kReject);
  }
  EXPECT_TRUE(peer_.connected());
}

// --- An initiator of ours.

class UnexpectedAtInitiatorTest : public RawTargetTest {
 protected:
  // The next message, unless none comes.
  std::optional<std::string> NextWithin(absl::Duration limit) {
    stack_.RunUntil(
        [this] {
          peer_.Poll();
          return !peer_.received.empty() || !peer_.connected();
        },
        limit);
    if (peer_.received.empty()) return std::nullopt;
    return peer_.Next();
  }
  static NopOutPdu AsPing(const std::string& message) {
    NopOutPdu ping;
    EXPECT_TRUE(Decode(RawIserPeer::BhsOf(message), &ping).ok());
    return ping;
  }
  // With a window of so many commands after what has come.
  void Answer(const NopOutPdu& ping, uint32_t window) {
    NopInPdu answer;
    answer.initiator_task_tag = ping.initiator_task_tag;
    answer.stat_sn = stat_sn_++;
    answer.exp_cmd_sn = ping.cmd_sn + (ping.immediate ? 0 : 1);
    answer.max_cmd_sn = answer.exp_cmd_sn + window - 1;
    peer_.Send(ToIser(answer));
  }
  void Ping() {
    stack_.initiator->Ping([this](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      ++answered_;
    });
  }
  void SendScsiEvent() {
    AsyncMessagePdu event;
    event.stat_sn = stat_sn_++;
    std::string data(20, '\0');  // SenseLength and sense data.
    data[1] = 18;
    data[2] = 0x70;
    peer_.Send(ToIser(event, data));
  }

  int answered_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, UnexpectedAtInitiatorTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

// What asks for the rest of a text answer goes as the request did.
TEST_P(UnexpectedAtInitiatorTest, TextsGoInOrder) {
  login_.policy.offer.iser.max_outstanding_unexpected_pdus = 2;
  LogIn();
  Ping();
  const auto ping = NextWithin(absl::Seconds(1));
  ASSERT_TRUE(ping.has_value());
  Answer(AsPing(*ping), 10);
  bool found = false;
  stack_.initiator->SendTargets(
      "", [&found](absl::StatusOr<std::vector<DiscoveredTarget>> targets) {
        ASSERT_TRUE(targets.ok()) << targets.status();
        ASSERT_EQ(targets->size(), 1u);
        EXPECT_EQ((*targets)[0].name, "iqn.2001-04.com.example:other");
        found = true;
      });
  const std::string answer("TargetName=iqn.2001-04.com.example:other\0", 41);
  for (const bool last : {false, true}) {
    const auto message = NextWithin(absl::Seconds(1));
    ASSERT_TRUE(message.has_value());
    TextRequestPdu request;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*message), &request).ok());
    // Once the ping is retired, there is room again.
    EXPECT_EQ(request.immediate, last);
    EXPECT_EQ(request.target_transfer_tag, last ? 77u : kReservedTag);
    EXPECT_EQ(message->size() > kIserControlSize, !last);
    TextResponsePdu response;
    response.final = last;
    response.continue_ = !last;
    response.initiator_task_tag = request.initiator_task_tag;
    response.target_transfer_tag = last ? kReservedTag : 77u;
    response.stat_sn = stat_sn_++;
    response.exp_cmd_sn = request.cmd_sn + (request.immediate ? 0 : 1);
    response.max_cmd_sn = response.exp_cmd_sn + 9;
    peer_.Send(
        ToIser(response, last ? answer.substr(20) : answer.substr(0, 20)));
  }
  EXPECT_TRUE(stack_.RunUntil([&found] { return found; }));
}

// One place is kept for task management: of two, pings use one.
TEST_P(UnexpectedAtInitiatorTest, PingsTakeTurnsWithCmdSn) {
  login_.policy.offer.iser.max_outstanding_unexpected_pdus = 2;
  LogIn();
  for (int i = 0; i < 10; ++i) {
    Ping();
    const auto message = NextWithin(absl::Seconds(1));
    ASSERT_TRUE(message.has_value());
    const NopOutPdu ping = AsPing(*message);
    EXPECT_EQ(ping.immediate, i % 2 == 0) << i;
    Answer(ping, 10);
    EXPECT_TRUE(stack_.RunUntil([&] { return answered_ == i + 1; }));
  }
}

TEST_P(UnexpectedAtInitiatorTest, WithoutRoomAndWindowTheyWait) {
  login_.policy.offer.iser.max_outstanding_unexpected_pdus = 2;
  LogIn();
  // The login left a window of 11; closing it takes commands.
  for (int i = 0; i < 11; ++i) {
    Ping();
    auto message = NextWithin(absl::Seconds(1));
    ASSERT_TRUE(message.has_value());
    if (AsPing(*message).immediate) {
      Answer(AsPing(*message), 0);
      Ping();
      message = NextWithin(absl::Seconds(1));
      ASSERT_TRUE(message.has_value());
    }
    ASSERT_FALSE(AsPing(*message).immediate);
    Answer(AsPing(*message), 0);
    stack_.world.RunFor(absl::Milliseconds(1));
  }
  const int before = answered_;
  Ping();
  auto message = NextWithin(absl::Seconds(1));
  ASSERT_TRUE(message.has_value());
  ASSERT_TRUE(AsPing(*message).immediate);
  Answer(AsPing(*message), 0);
  Ping();
  // Longer than a target may take to answer one that was sent.
  EXPECT_EQ(NextWithin(absl::Seconds(50)), std::nullopt);
  EXPECT_TRUE(stack_.initiator->connected());
  // Task management has the place that is left.
  stack_.initiator->Manage(TaskManagementFunction::kLogicalUnitReset, 0,
                           nullptr, [](const absl::Status&) {});
  message = NextWithin(absl::Milliseconds(500));
  ASSERT_TRUE(message.has_value());
  TaskManagementRequestPdu reset;
  ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*message), &reset).ok());
  EXPECT_TRUE(reset.immediate);
  // The window opens.
  TaskManagementResponsePdu done;
  done.initiator_task_tag = reset.initiator_task_tag;
  done.stat_sn = stat_sn_++;
  done.exp_cmd_sn = reset.cmd_sn;
  done.max_cmd_sn = reset.cmd_sn + 5;
  peer_.Send(ToIser(done));
  message = NextWithin(absl::Milliseconds(500));
  ASSERT_TRUE(message.has_value());
  EXPECT_FALSE(AsPing(*message).immediate);
  Answer(AsPing(*message), 5);
  EXPECT_TRUE(stack_.RunUntil([&] { return answered_ == before + 2; }));
}

TEST_P(UnexpectedAtInitiatorTest, WithoutALimitTheyAreImmediate) {
  login_.policy.offer.iser.max_outstanding_unexpected_pdus = 0;
  LogIn();
  for (int i = 0; i < 100; ++i) {
    Ping();
    const auto message = NextWithin(absl::Seconds(1));
    ASSERT_TRUE(message.has_value());
    ASSERT_TRUE(AsPing(*message).immediate);
    Answer(AsPing(*message), 10);
    stack_.world.RunFor(absl::Milliseconds(1));
  }
}

TEST_P(UnexpectedAtInitiatorTest, EndsTheSessionWithATargetThatSendsMore) {
  LogIn();
  finished_ = true;  // No command waits.
  // A ping acknowledges the first of them; the next would want an answer.
  for (uint32_t i = 0; i <= 2 * kOurs; ++i) SendScsiEvent();
  ExpectLost("an Async Message beyond the 32 unexpected PDUs");
}

// In time, so that a target that keeps to the limit can go on.
TEST_P(UnexpectedAtInitiatorTest, AcknowledgesWhatComesUnasked) {
  LogIn();
  for (int i = 0; i < 200; ++i) {
    if (i % 2 == 0) {
      SendScsiEvent();
    } else {
      NopInPdu nop;  // Wants no answer.
      nop.stat_sn = stat_sn_;
      peer_.Send(ToIser(nop));
    }
    while (const auto message = NextWithin(absl::Milliseconds(1))) {
      Answer(AsPing(*message), 10);
    }
  }
  EXPECT_TRUE(stack_.initiator->connected());
  EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
}

}  // namespace
}  // namespace skiff::protocol
