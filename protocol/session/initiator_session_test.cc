// The life of an initiator's session: login, commands, window, loss.

#include "protocol/session/initiator_session.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/session/initiator_session_test_util.h"

namespace skiff::protocol {
namespace {

using Loss = InitiatorSession::Loss;
using Outcome = scsi::Command::Outcome;
using State = InitiatorSession::State;

TEST_F(InitiatorSessionTest, LogsIn) {
  LogIn();
  EXPECT_EQ(session_->tsih(), 5);
  EXPECT_TRUE(session_->CanIssue());
}

TEST_F(InitiatorSessionTest, ALoginMayBeRefused) {
  Start();
  AnswerLogin(LoginStatus::kNotFound);
  EXPECT_EQ(session_->state(), State::kLoginFailed);
  EXPECT_EQ(session_->failure().code(), absl::StatusCode::kNotFound);
  Advance();
  EXPECT_TRUE(mover_.terminated);
}

TEST_F(InitiatorSessionTest, ALoginMayBeRedirected) {
  Start();
  AnswerLogin(LoginStatus::kTargetMovedTemporarily);
  EXPECT_EQ(session_->state(), State::kRedirected);
  EXPECT_EQ(session_->redirect_address(), "192.0.2.9:3261");
}

TEST_F(InitiatorSessionTest, ALoginTimesOut) {
  Start();
  EXPECT_EQ(Advance(), now_ + options_.timeouts.login_timeout);
  AdvanceHearing(options_.timeouts.login_timeout);
  EXPECT_EQ(session_->state(), State::kLoginFailed);
  EXPECT_EQ(session_->failure().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(InitiatorSessionTest, OnlyLoginResponsesBelongIntoALogin) {
  Start();
  Deliver(NopInPdu());
  EXPECT_EQ(session_->state(), State::kLoginFailed);
  EXPECT_EQ(session_->loss(), Loss::kProtocol);
}

TEST_F(InitiatorSessionTest, ALoginResponseMustCarryOurTag) {
  Start();
  LoginResponsePdu response;
  response.initiator_task_tag = 3;
  Deliver(response);
  EXPECT_EQ(session_->loss(), Loss::kProtocol);
}

TEST_F(InitiatorSessionTest, CompletesACommand) {
  LogIn();
  scsi::Command* command = MakeRead(512);
  command->lun = 0x0007000000000000;
  command->attribute = scsi::Command::Attribute::kOrdered;
  const auto sent = Issue(command);
  EXPECT_EQ(sent.pdu.cmd_sn, options_.initial_cmd_sn);
  EXPECT_EQ(sent.pdu.exp_stat_sn, stat_sn_);
  EXPECT_EQ(sent.pdu.lun, command->lun);
  EXPECT_EQ(sent.pdu.attribute, TaskAttribute::kOrdered);
  EXPECT_EQ(sent.pdu.expected_data_transfer_length, 512u);
  EXPECT_TRUE(sent.pdu.read);
  EXPECT_FALSE(sent.pdu.write);
  EXPECT_EQ(sent.pdu.cdb[0], 0x28);
  ++exp_cmd_sn_;
  Respond(sent);
  // Not from inside the notification.
  EXPECT_TRUE(completed_.empty());
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{command});
  EXPECT_EQ(command->outcome, Outcome::kCompleted);
  EXPECT_EQ(command->status, 0);
  EXPECT_EQ(session_->outstanding(), 0u);
}

TEST_F(InitiatorSessionTest, LongCdbsAndBothDirections) {
  LogIn();
  scsi::Command* command = MakeRead(100);
  const scsi::Command* write = MakeWrite(300);
  command->data_out = write->data_out;
  command->data_out_count = 1;
  command->data_out_length = 300;
  command->cdb_length = 32;
  command->cdb[31] = 0xaa;
  const auto sent = Issue(command);
  EXPECT_EQ(sent.pdu.expected_data_transfer_length, 300u);
  EXPECT_EQ(sent.bidi_read_length, 100u);
  ASSERT_EQ(sent.extended_cdb.size(), 16u);
  EXPECT_EQ(sent.extended_cdb[15], '\xaa');
  ScsiResponsePdu response;
  response.underflow = response.bidi_read_underflow = true;
  response.residual_count = 300;
  response.bidi_read_residual_count = 99;
  Respond(sent, response);
  Completed();
  EXPECT_EQ(command->residual, 300u);
  EXPECT_EQ(command->bidi_read_residual, 99u);
}

TEST_F(InitiatorSessionTest, RefusesWhatCannotBeSent) {
  scsi::Command* command = MakeRead(10);
  EXPECT_EQ(InitiatorSession::Validate(*command), nullptr);
  command->cdb_length = 0;
  EXPECT_NE(InitiatorSession::Validate(*command), nullptr);
  command->cdb_length = 33;
  EXPECT_NE(InitiatorSession::Validate(*command), nullptr);
  command->cdb_length = 16;
  command->data_in_length = 11;
  EXPECT_NE(InitiatorSession::Validate(*command), nullptr);
  command->data_in_length = 0;
  command->data_out_length = 1;
  EXPECT_NE(InitiatorSession::Validate(*command), nullptr);
}

TEST_F(InitiatorSessionTest, TheWindowBoundsWhatIsIssued) {
  LogIn(/*window=*/2);
  const auto first = Issue(MakeRead(1));
  Issue(MakeRead(1));
  EXPECT_FALSE(session_->CanIssue());
  exp_cmd_sn_ += 2;
  ++max_cmd_sn_;
  Respond(first);
  EXPECT_TRUE(session_->CanIssue());
  // Data PDUs and unsolicited NOP-Ins move it too.
  Issue(MakeRead(1));
  EXPECT_FALSE(session_->CanIssue());
  session_->WindowNotify(exp_cmd_sn_, ++max_cmd_sn_);
  EXPECT_TRUE(session_->CanIssue());
  Issue(MakeRead(1));
  EXPECT_FALSE(session_->CanIssue());
  ++max_cmd_sn_;
  Deliver(NopInPdu(), "", /*uses_stat_sn=*/false);
  EXPECT_TRUE(session_->CanIssue());
}

TEST_F(InitiatorSessionTest, SlotsAndCongestionBoundItToo) {
  LogIn(/*window=*/100);
  for (uint32_t i = 0; i < options_.max_commands; ++i) Issue(MakeRead(1));
  EXPECT_FALSE(session_->CanIssue());
  LogIn();
  mover_.is_congested = true;
  EXPECT_FALSE(session_->CanIssue());
}

// What was not sent takes neither a CmdSN nor a slot.
TEST_F(InitiatorSessionTest, ACommandThatCannotBeSentEndsAlone) {
  LogIn();
  Issue(MakeRead(1));
  mover_.refusal = absl::ResourceExhaustedError("no memory to be locked");
  std::vector<scsi::Command*> refused;
  for (uint32_t i = 0; i < options_.max_commands; ++i) {
    ASSERT_TRUE(session_->CanIssue());
    refused.push_back(MakeRead(1));
    session_->Issue(refused.back(), now_);
  }
  EXPECT_EQ(Completed(), refused);
  for (const scsi::Command* command : refused) {
    EXPECT_EQ(command->outcome, Outcome::kNotRegistered);
  }
  EXPECT_EQ(session_->outstanding(), 1u);
  mover_.refusal = absl::OkStatus();
  EXPECT_EQ(Issue(MakeRead(1)).pdu.cmd_sn, options_.initial_cmd_sn + 1);
}

TEST_F(InitiatorSessionTest, TheSlotStaysTakenUntilTheDatamoverIsDone) {
  options_.max_commands = 1;
  LogIn();
  mover_.hold_task_done = true;
  scsi::Command* command = MakeWrite(100);
  const auto sent = Issue(command);
  Respond(sent);
  EXPECT_TRUE(Completed().empty());
  EXPECT_FALSE(session_->CanIssue());
  session_->TaskDone(sent.slot);
  EXPECT_EQ(Completed().size(), 1u);
  EXPECT_TRUE(session_->CanIssue());
}

TEST_F(InitiatorSessionTest, DeliversSense) {
  LogIn();
  scsi::Command* command = MakeRead(8);
  Respond(Issue(command), 0x02, std::string("\x00\x04", 2) + "sense-tail");
  Completed();
  EXPECT_EQ(command->status, 0x02);
  ASSERT_EQ(command->sense_length, 4);
  EXPECT_EQ(std::string(command->sense.begin(), command->sense.begin() + 4),
            "sens");

  // More than SPC allows is cut to what fits.
  command = MakeRead(8);
  Respond(Issue(command), 0x02,
          std::string("\x04\x00", 2) + std::string(1024, 's'));
  Completed();
  EXPECT_EQ(command->sense_length, 252);
}

TEST_F(InitiatorSessionTest, ATargetFailureHasNoStatus) {
  LogIn();
  scsi::Command* command = MakeRead(8);
  ScsiResponsePdu response;
  response.response = ScsiResponsePdu::kTargetFailure;
  response.status = 0x77;
  Respond(Issue(command), response);
  Completed();
  EXPECT_EQ(command->outcome, Outcome::kTargetFailure);
  EXPECT_EQ(command->status, 0);
}

// Responses that lie, each from its own session.
struct BadResponse {
  const char* name;
  ScsiResponsePdu response;
  std::string data;
  const char* why;
};
std::vector<BadResponse> BadResponses() {
  ScsiResponsePdu check;
  check.status = 0x02;
  ScsiResponsePdu both;
  both.overflow = both.underflow = true;
  ScsiResponsePdu residual;
  residual.underflow = true;
  residual.residual_count = 513;
  ScsiResponsePdu bidi;
  bidi.bidi_read_underflow = true;
  bidi.bidi_read_residual_count = 0xffffffff;
  return {
      {"OneByte", check, "x", "half a SenseLength"},
      {"SenseBeyond", check, std::string("\x00\x05", 2) + "four",
       "beyond its data segment"},
      {"SenseFarBeyond", check, "\xff\xff", "beyond its data segment"},
      {"BothResiduals", both, "", "both overflow and underflow"},
      {"Residual", residual, "", "larger than the transfer"},
      {"BidiResidual", bidi, "", "larger than the transfer"},
  };
}

TEST_F(InitiatorSessionTest, ResponsesThatLieEndTheSession) {
  for (const BadResponse& bad : BadResponses()) {
    SCOPED_TRACE(bad.name);
    stat_sn_ = 1;
    LogIn();
    scsi::Command* command = MakeRead(512);
    Respond(Issue(command), bad.response, bad.data);
    ExpectLost(Loss::kProtocol, bad.why);
    CommandList retry;
    session_->TakeUnfinished(&retry);
    EXPECT_TRUE(retry.empty());
    EXPECT_EQ(Completed().size(), 1u);
    EXPECT_EQ(command->outcome, Outcome::kProtocolError);
  }
}

TEST_F(InitiatorSessionTest, AGapOfStatSnEndsTheSession) {
  LogIn();
  const auto sent = Issue(MakeRead(512));
  ++stat_sn_;
  Respond(sent);
  ExpectLost(Loss::kProtocol, "a response was lost");
}

// As Linux's target numbers them over iSER.
TEST_F(InitiatorSessionTest, OverIserResponsesMayComeInAnotherOrder) {
  options_.login.offer.iser.enabled = true;
  LogIn();
  const auto first = Issue(MakeRead(512));
  const auto second = Issue(MakeRead(512));
  const auto third = Issue(MakeRead(512));
  const uint32_t before = stat_sn_;
  stat_sn_ = before + 2;
  Respond(third);
  stat_sn_ = before + 1;
  Respond(second);
  EXPECT_FALSE(session_->ended()) << session_->failure();
  // Only what has come without a gap is acknowledged.
  EXPECT_EQ(Issue(MakeRead(512)).pdu.exp_stat_sn, before);
  stat_sn_ = before;
  Respond(first);
  EXPECT_EQ(Completed().size(), 3u);
  EXPECT_EQ(Issue(MakeRead(512)).pdu.exp_stat_sn, before + 3);
}

// The same.
TEST_F(InitiatorSessionTest, OverIserTwoResponsesMayHaveOneStatSn) {
  options_.login.offer.iser.enabled = true;
  LogIn();
  const auto first = Issue(MakeRead(512));
  const auto second = Issue(MakeRead(512));
  const auto third = Issue(MakeRead(512));
  const auto fourth = Issue(MakeRead(512));
  const uint32_t before = stat_sn_;
  // One that came early, and one that was taken.
  for (const auto& [sent, ahead] :
       {std::pair(first, 1), {second, 1}, {third, 0}, {fourth, 0}}) {
    stat_sn_ = before + ahead;
    Respond(sent);
  }
  EXPECT_FALSE(session_->ended()) << session_->failure();
  EXPECT_EQ(Completed().size(), 4u);
  const auto fifth = Issue(MakeRead(512));
  EXPECT_EQ(fifth.pdu.exp_stat_sn, before + 2);
  // But no command has two responses.
  for (int i = 0; i < 2; ++i) {
    stat_sn_ = before + 1;
    Respond(fifth);
  }
  ExpectLost(Loss::kProtocol, "a second response");
}

TEST_F(InitiatorSessionTest, AStatSnFarOutOfTurnEndsTheSession) {
  options_.login.offer.iser.enabled = true;
  for (const uint32_t distance : {1024u, -1024u}) {
    LogIn();
    const auto sent = Issue(MakeRead(512));
    stat_sn_ += distance;
    Respond(sent);
    ExpectLost(Loss::kProtocol, "lost or repeated");
  }
}

TEST_F(InitiatorSessionTest, AcknowledgingTheFutureEndsTheSession) {
  LogIn();
  exp_cmd_sn_ += 2;
  ++max_cmd_sn_;
  Respond(Issue(MakeRead(512)));
  ExpectLost(Loss::kProtocol, "never sent");
}

TEST_F(InitiatorSessionTest, ALoginMayBeTakenForACommand) {
  max_cmd_sn_ = options_.initial_cmd_sn;
  exp_cmd_sn_ = max_cmd_sn_ + 1;
  Start();
  AnswerLogin();
  ASSERT_EQ(session_->state(), State::kFullFeature) << session_->failure();
  const auto sent = Issue(MakeRead(512));
  EXPECT_EQ(sent.pdu.cmd_sn, options_.initial_cmd_sn);
  EXPECT_FALSE(session_->CanIssue());
  max_cmd_sn_ += 2;
  Respond(sent);
  EXPECT_EQ(Completed().size(), 1u);
  EXPECT_TRUE(session_->CanIssue());
}

TEST_F(InitiatorSessionTest, ALoginAcknowledgesNoFurtherCommands) {
  exp_cmd_sn_ = options_.initial_cmd_sn + 2;
  max_cmd_sn_ = exp_cmd_sn_;
  Start();
  AnswerLogin();
  EXPECT_EQ(session_->state(), State::kLoginFailed);
  EXPECT_EQ(session_->loss(), Loss::kProtocol);
}

TEST_F(InitiatorSessionTest, ASecondResponseEndsTheSession) {
  LogIn();
  mover_.hold_task_done = true;
  const auto sent = Issue(MakeRead(512));
  Respond(sent);
  Respond(sent);
  ExpectLost(Loss::kProtocol, "second response");
}

TEST_F(InitiatorSessionTest, PdusThatNoTargetSendsEndTheSession) {
  for (uint8_t opcode : {0x00, 0x01, 0x05, 0x06, 0x10, 0x1c, 0x23, 0x3e}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    LogIn();
    Bhs bhs = {};
    bhs[0] = opcode;
    DeliverBhs(bhs, "");
    ExpectLost(Loss::kProtocol, "unexpected");
  }
}

TEST_F(InitiatorSessionTest, ALostConnectionGivesCommandsBackInOrder) {
  LogIn();
  scsi::Command* first = MakeRead(1);
  scsi::Command* second = MakeRead(1);
  scsi::Command* third = MakeRead(1);
  Issue(first);
  const auto sent = Issue(second);
  Issue(third);
  Respond(sent);
  session_->ConnectionLost(absl::UnavailableError("gone"));
  ExpectLost(Loss::kConnection, "gone");
  EXPECT_FALSE(session_->CanIssue());
  CommandList retry;
  session_->TakeUnfinished(&retry);
  EXPECT_TRUE(mover_.terminated);
  ASSERT_EQ(retry.size(), 2u);
  EXPECT_EQ(retry.PopFront(), first);
  EXPECT_EQ(retry.PopFront(), third);
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{second});
}

TEST_F(InitiatorSessionTest, WhatWasAnsweredIsNotGivenBack) {
  LogIn();
  mover_.hold_task_done = true;
  scsi::Command* command = MakeRead(1);
  Respond(Issue(command));
  session_->ConnectionLost(absl::UnavailableError("gone"));
  CommandList retry;
  session_->TakeUnfinished(&retry);
  EXPECT_TRUE(retry.empty());
  EXPECT_EQ(Completed().size(), 1u);
  EXPECT_EQ(command->outcome, Outcome::kCompleted);
}

TEST_F(InitiatorSessionTest, AnAbortedCommandIsNotGivenBack) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  Issue(command);
  session_->Abort(command);
  session_->ConnectionLost(absl::UnavailableError("gone"));
  CommandList retry;
  session_->TakeUnfinished(&retry);
  EXPECT_TRUE(retry.empty());
  EXPECT_EQ(Completed().size(), 1u);
  EXPECT_EQ(command->outcome, Outcome::kAborted);
}

TEST_F(InitiatorSessionTest, WhatIsNotIdempotentIsNotGivenBack) {
  LogIn();
  scsi::Command* command = MakeWrite(1024);
  command->idempotent = false;
  Issue(command);
  session_->ConnectionLost(absl::UnavailableError("gone"));
  CommandList retry;
  session_->TakeUnfinished(&retry);
  EXPECT_TRUE(retry.empty());
  EXPECT_EQ(Completed().size(), 1u);
  EXPECT_EQ(command->outcome, Outcome::kConnectionLost);
}

TEST_F(InitiatorSessionTest, CorruptedDataIsWorthAnotherTry) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  Issue(command);
  Bhs bhs = {};
  bhs[0] = 0x25;
  session_->RejectNotify(RejectPdu::kDataDigestError, bhs.data(), "x");
  ExpectLost(Loss::kConnection, "digest");
  CommandList retry;
  session_->TakeUnfinished(&retry);
  EXPECT_EQ(retry.size(), 1u);
}

TEST_F(InitiatorSessionTest, NothingIsHeardAfterTheEnd) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  const auto sent = Issue(command);
  session_->ConnectionTerminateNotify(absl::UnavailableError("gone"));
  Respond(sent);
  Deliver(NopInPdu());
  session_->WindowNotify(1, 1);
  ExpectLost(Loss::kConnection, "gone");
  EXPECT_TRUE(Completed().empty());
  EXPECT_EQ(Advance(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace skiff::protocol
