// What a target sends unasked: pings, rejects, asynchronous messages.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/initiator_session_test_util.h"

namespace skiff::protocol {
namespace {

using Loss = InitiatorSession::Loss;
using Outcome = scsi::Command::Outcome;
using State = InitiatorSession::State;

class InitiatorEventsTest : public InitiatorSessionTest {
 protected:
  AsyncMessagePdu Message(uint8_t event) {
    AsyncMessagePdu message;
    message.async_event = event;
    return message;
  }
  template <typename Pdu>
  void RejectPduOf(const Pdu& pdu, uint8_t reason) {
    Bhs bhs;
    Encode(pdu, bhs.data());
    RejectPdu reject;
    reject.reason = reason;
    Deliver(reject, std::string(bhs.begin(), bhs.end()));
  }
};

TEST_F(InitiatorEventsTest, AnswersPings) {
  LogIn();
  NopInPdu ping;
  ping.target_transfer_tag = 0x55;
  ping.lun = 4;
  Deliver(ping, "", /*uses_stat_sn=*/false);
  const auto answer = Sent<NopOutPdu>();
  EXPECT_EQ(answer.initiator_task_tag, kReservedTag);
  EXPECT_EQ(answer.target_transfer_tag, 0x55u);
  EXPECT_EQ(answer.lun, 4u);
  EXPECT_TRUE(answer.immediate);
}

TEST_F(InitiatorEventsTest, APingFloodFillsNoMemory) {
  LogIn();
  mover_.is_congested = true;
  NopInPdu ping;
  ping.target_transfer_tag = 1;
  for (int i = 0; i < 64; ++i) Deliver(ping, "", false);
  EXPECT_TRUE(mover_.controls.empty());
  EXPECT_EQ(session_->state(), State::kFullFeature);
  mover_.is_congested = false;
  Advance();
  EXPECT_EQ(mover_.controls.size(), 64u);
  mover_.is_congested = true;
  for (int i = 0; i < 65; ++i) Deliver(ping, "", false);
  ExpectLost(Loss::kProtocol, "pings");
}

TEST_F(InitiatorEventsTest, DeliversScsiEvents) {
  std::string sense;
  uint64_t lun = 0;
  options_.on_async_event = [&](uint64_t l, absl::Span<const uint8_t> s) {
    lun = l;
    sense.assign(s.begin(), s.end());
  };
  LogIn();
  AsyncMessagePdu message = Message(AsyncMessagePdu::kScsiAsyncEvent);
  message.lun = 6;
  Deliver(message, std::string("\x00\x03", 2) + "abcdef");
  EXPECT_EQ(sense, "");
  Completed();
  EXPECT_EQ(sense, "abc");
  EXPECT_EQ(lun, 6u);
}

TEST_F(InitiatorEventsTest, MalformedScsiEventsEndTheSession) {
  for (const std::string& data :
       {std::string(), std::string("x"), std::string("\x00\x03zz", 4)}) {
    LogIn();
    Deliver(Message(AsyncMessagePdu::kScsiAsyncEvent), data);
    ExpectLost(Loss::kProtocol, "SenseLength");
  }
}

TEST_F(InitiatorEventsTest, HonorsALogoutRequest) {
  LogIn();
  const auto sent = Issue(MakeRead(1));
  AsyncMessagePdu message = Message(AsyncMessagePdu::kLogoutRequested);
  message.parameter3 = 10;
  Deliver(message);
  EXPECT_FALSE(session_->CanIssue());
  EXPECT_EQ(Advance(), now_ + absl::Seconds(5));
  EXPECT_TRUE(mover_.controls.empty());
  // What is out may finish first.
  Respond(sent);
  Advance();
  EXPECT_EQ(Sent<LogoutRequestPdu>().reason, LogoutRequestPdu::kCloseSession);
  EXPECT_EQ(session_->state(), State::kLoggingOut);
}

TEST_F(InitiatorEventsTest, ALogoutRequestIsNotPutOffForever) {
  LogIn();
  Issue(MakeRead(1));
  AsyncMessagePdu message = Message(AsyncMessagePdu::kLogoutRequested);
  message.parameter3 = 10;
  // Counted from now, however long nothing happened before.
  now_ += absl::Seconds(30);
  Deliver(message);
  EXPECT_EQ(AdvanceHearing(absl::ZeroDuration()), now_ + absl::Seconds(5));
  EXPECT_TRUE(mover_.controls.empty());
  AdvanceHearing(absl::Seconds(5));
  Sent<LogoutRequestPdu>();
}

TEST_F(InitiatorEventsTest, BelievesThatTheTargetDropsTheSession) {
  LogIn();
  AsyncMessagePdu message = Message(AsyncMessagePdu::kConnectionDropped);
  message.parameter1 = 77;  // Another connection's id.
  Deliver(message);
  EXPECT_EQ(session_->state(), State::kFullFeature);
  message.parameter1 = options_.login.cid;
  message.parameter2 = 4;
  Deliver(message);
  ExpectLost(Loss::kTarget, "drops the session");
  EXPECT_EQ(session_->time2wait(), absl::Seconds(4));
  LogIn();
  Deliver(Message(AsyncMessagePdu::kSessionDropped));
  ExpectLost(Loss::kTarget, "drops the session");
}

// RFC 7143 section 7.5: DefaultTime2Wait where nothing was said before, and
// what was said otherwise.
TEST_F(InitiatorEventsTest, ALostSessionLeavesTheRespiteThatWasAgreedOn) {
  options_.login.offer.default_time2wait = 7;
  LogIn();
  session_->ConnectionLost(absl::UnavailableError("reset"));
  EXPECT_EQ(session_->time2wait(), absl::Seconds(7));
  LogIn();
  AsyncMessagePdu message = Message(AsyncMessagePdu::kSessionDropped);
  message.parameter2 = 4;
  Deliver(message);
  EXPECT_EQ(session_->time2wait(), absl::Seconds(4));
  // In a login, nothing was agreed on.
  Start();
  session_->ConnectionLost(absl::UnavailableError("reset"));
  EXPECT_EQ(session_->time2wait(), absl::ZeroDuration());
}

TEST_F(InitiatorEventsTest, OffersToNegotiateWhenAsked) {
  LogIn();
  Deliver(Message(AsyncMessagePdu::kNegotiationRequested));
  Advance();
  std::string data = "?";
  Sent<TextRequestPdu>(&data);
  EXPECT_EQ(data, "");
}

TEST_F(InitiatorEventsTest, OffersToNegotiateLeaveRoomForOtherRequests) {
  options_.max_requests = 3;
  LogIn();
  session_->Ping(nullptr);
  Advance();
  for (int i = 0; i < 10; ++i) {
    Deliver(Message(AsyncMessagePdu::kNegotiationRequested));
  }
  absl::Status status;
  session_->Ping([&status](absl::Status s) { status = std::move(s); });
  Completed();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(InitiatorEventsTest, TaskTerminationWasNotNegotiated) {
  LogIn();
  Deliver(Message(AsyncMessagePdu::kTaskTermination));
  ExpectLost(Loss::kProtocol, "not negotiated");
}

TEST_F(InitiatorEventsTest, VendorEventsAreLogged) {
  LogIn();
  Deliver(Message(250));
  EXPECT_EQ(session_->state(), State::kFullFeature);
  EXPECT_EQ(log_.size(), 1u);
}

TEST_F(InitiatorEventsTest, ARejectNeedsItsHeader) {
  LogIn();
  RejectPdu reject;
  reject.reason = RejectPdu::kProtocolError;
  Deliver(reject, std::string(47, 'x'));
  ExpectLost(Loss::kProtocol, "rejected header");
}

TEST_F(InitiatorEventsTest, ARejectedCommandIsNotRetriedUnlessThatMayHelp) {
  for (const bool curable : {true, false}) {
    LogIn();
    scsi::Command* rejected = MakeRead(1);
    scsi::Command* other = MakeRead(1);
    const auto sent = Issue(rejected);
    Issue(other);
    RejectPduOf(sent.pdu, curable ? RejectPdu::kWaitingForLogout
                                  : RejectPdu::kCommandNotSupported);
    ExpectLost(Loss::kTarget, "rejected a command");
    CommandList retry;
    session_->TakeUnfinished(&retry);
    EXPECT_EQ(retry.size(), curable ? 2u : 1u);
    EXPECT_EQ(Completed().size(), curable ? 0u : 1u);
    if (!curable) {
      EXPECT_EQ(rejected->outcome, Outcome::kProtocolError);
    }
  }
}

TEST_F(InitiatorEventsTest, ARejectedDataPduIsStillAnswered) {
  LogIn();
  const auto sent = Issue(MakeWrite(100));
  ScsiDataOutPdu data;
  data.initiator_task_tag = sent.pdu.initiator_task_tag;
  RejectPduOf(data, RejectPdu::kDataDigestError);
  EXPECT_EQ(session_->state(), State::kFullFeature);
  Respond(sent, 0x02);
  EXPECT_EQ(Completed().size(), 1u);
}

TEST_F(InitiatorEventsTest, ARejectedRequestFails) {
  LogIn();
  absl::Status status;
  const auto keep = [&status](absl::Status s) { status = std::move(s); };
  session_->Ping(keep);
  Advance();
  RejectPduOf(Sent<NopOutPdu>(), RejectPdu::kImmediateCommandReject);
  Completed();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);

  status = absl::OkStatus();
  session_->Manage(TaskManagementFunction::kLogicalUnitReset, 0, nullptr, keep);
  Advance();
  RejectPduOf(Sent<TaskManagementRequestPdu>(), RejectPdu::kProtocolError);
  Completed();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->state(), State::kFullFeature);

  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, keep);
  RejectPduOf(Sent<LogoutRequestPdu>(), RejectPdu::kProtocolError);
  EXPECT_EQ(session_->state(), State::kLoggedOut);
}

TEST_F(InitiatorEventsTest, ARejectedAbortOfAStuckCommandResetsItsUnit) {
  LogIn();
  Issue(MakeRead(1));
  AdvanceHearing(options_.timeouts.command_timeout);
  RejectPduOf(Sent<TaskManagementRequestPdu>(),
              RejectPdu::kImmediateCommandReject);
  AdvanceHearing(absl::ZeroDuration());
  const auto reset = Sent<TaskManagementRequestPdu>();
  EXPECT_EQ(reset.function, 5);
  RejectPduOf(reset, RejectPdu::kImmediateCommandReject);
  ExpectLost(Loss::kTimeout, "rejected");
}

TEST_F(InitiatorEventsTest, RandomPdusNeverHurt) {
  uint32_t random = 7;
  const auto next = [&random] {
    random = random * 1664525u + 1013904223u;
    return random >> 8;
  };
  for (int round = 0; round < 3000; ++round) {
    LogIn();
    Issue(MakeRead(1));
    session_->Ping(nullptr);
    session_->Manage(TaskManagementFunction::kAbortTaskSet, 0, nullptr,
                     nullptr);
    Advance();
    for (int i = 0; i < 5 && !session_->ended(); ++i) {
      Bhs bhs;
      for (uint8_t& byte : bhs) byte = static_cast<uint8_t>(next());
      const uint8_t opcodes[] = {0x20, 0x22, 0x24, 0x26, 0x32, 0x3f};
      bhs[0] = opcodes[next() % 6];
      // The right StatSN, and a tag of ours, go further.
      for (int b = 0; b < 4; ++b) {
        bhs[24 + b] = static_cast<uint8_t>(stat_sn_ >> (24 - 8 * b));
        bhs[28 + b] = static_cast<uint8_t>(exp_cmd_sn_ >> (24 - 8 * b));
        bhs[32 + b] = static_cast<uint8_t>(max_cmd_sn_ >> (24 - 8 * b));
      }
      if (next() % 2) {
        bhs[16] = bhs[18] = 0;
        bhs[17] = static_cast<uint8_t>(next() % 3);
        bhs[19] = static_cast<uint8_t>(next() % 8);
      }
      DeliverBhs(bhs, std::string(next() % 70, 'r'));
      stat_sn_ = session_->CurrentExpStatSn();
      Advance();
    }
    session_->Terminate(absl::UnavailableError("end of round"));
    CommandList retry;
    session_->TakeUnfinished(&retry);
    const size_t returned = retry.size();
    while (!retry.empty()) retry.PopFront();
    ASSERT_EQ(Completed().size() + returned, 1u);
  }
}

}  // namespace
}  // namespace skiff::protocol
