// Pings, texts, task management and logout of an initiator's session.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/initiator_session_test_util.h"

namespace skiff::protocol {
namespace {

using Function = TaskManagementFunction;
using Loss = InitiatorSession::Loss;
using Outcome = scsi::Command::Outcome;
using State = InitiatorSession::State;

class InitiatorRequestsTest : public InitiatorSessionTest {
 protected:
  absl::AnyInvocable<void(absl::Status)> Keep(
      std::optional<absl::Status>* where) {
    return [where](absl::Status status) { *where = std::move(status); };
  }
  void AnswerTmf(const TaskManagementRequestPdu& request,
                 uint8_t response = 0) {
    TaskManagementResponsePdu pdu;
    pdu.initiator_task_tag = request.initiator_task_tag;
    pdu.response = response;
    Deliver(pdu);
  }

  std::optional<absl::Status> status_;
  std::optional<absl::Status> second_;
};

TEST_F(InitiatorRequestsTest, Pings) {
  LogIn();
  session_->Ping(Keep(&status_));
  session_->Ping(Keep(&second_));
  Advance();
  const auto ping = Sent<NopOutPdu>();
  EXPECT_EQ(ping.target_transfer_tag, kReservedTag);
  EXPECT_TRUE(mover_.controls.empty());  // One at a time.
  NopInPdu pong;
  pong.initiator_task_tag = ping.initiator_task_tag;
  Deliver(pong);
  EXPECT_FALSE(status_.has_value());
  Completed();
  EXPECT_TRUE(status_->ok());
  Advance();
  EXPECT_NE(Sent<NopOutPdu>().initiator_task_tag, ping.initiator_task_tag);
}

TEST_F(InitiatorRequestsTest, PongsOfNobodyEndTheSession) {
  LogIn();
  NopInPdu pong;
  pong.initiator_task_tag = 0x12345;
  Deliver(pong);
  ExpectLost(Loss::kProtocol, "unknown Initiator Task Tag");
}

// As Linux's target posts them over iSER.
TEST_F(InitiatorRequestsTest, OverIserAPongMayComeBeforeItsTurn) {
  for (const bool iser : {true, false}) {
    options_.login.offer.iser.enabled = iser;
    LogIn();
    const auto read = Issue(MakeRead(1));
    status_.reset();
    session_->Ping(Keep(&status_));
    Advance();
    NopInPdu pong;
    pong.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
    const uint32_t before = stat_sn_;
    stat_sn_ = before + 1;
    Deliver(pong);
    if (!iser) {
      ExpectLost(Loss::kProtocol, "a NOP-In with StatSN");
      continue;
    }
    stat_sn_ = before;
    Respond(read);
    EXPECT_FALSE(session_->ended()) << session_->failure();
    EXPECT_EQ(Completed().size(), 1u);
    EXPECT_TRUE(status_.has_value() && status_->ok());
    EXPECT_EQ(Issue(MakeRead(1)).pdu.exp_stat_sn, before + 2);
    // But no ping has two answers.
    stat_sn_ = before + 2;
    Deliver(pong);
    ExpectLost(Loss::kProtocol, "unknown Initiator Task Tag");
  }
}

TEST_F(InitiatorRequestsTest, OverIserAPongIsNotTakenFromFarAway) {
  for (const int32_t distance : {1024, -1024, 1 << 30}) {
    SCOPED_TRACE(distance);
    options_.login.offer.iser.enabled = true;
    LogIn();
    session_->Ping(Keep(&status_));
    Advance();
    NopInPdu pong;
    pong.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
    stat_sn_ += static_cast<uint32_t>(distance);
    Deliver(pong);
    ExpectLost(Loss::kProtocol, "a NOP-In with StatSN");
  }
}

TEST_F(InitiatorRequestsTest, RequestsAreBounded) {
  options_.max_requests = 2;
  LogIn();
  for (int i = 0; i < 2; ++i) session_->Ping(nullptr);
  session_->Ping(Keep(&status_));
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(InitiatorRequestsTest, RequestsFailWithTheSession) {
  LogIn();
  std::optional<absl::StatusOr<std::string>> text;
  session_->Ping(Keep(&status_));
  session_->SendText(
      "x", [&](absl::StatusOr<std::string> t) { text = std::move(t); });
  Advance();
  session_->ConnectionLost(absl::UnavailableError("gone"));
  Completed();
  EXPECT_EQ(status_->message(), "gone");
  EXPECT_EQ(text->status().message(), "gone");
  session_->Ping(Keep(&second_));
  Completed();
  EXPECT_EQ(second_->code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InitiatorRequestsTest, ATextIsNotWaitedForForEver) {
  options_.timeouts.text_timeout = absl::Seconds(3);
  LogIn();
  std::optional<absl::StatusOr<std::string>> text;
  session_->SendText(
      "x", [&](absl::StatusOr<std::string> t) { text = std::move(t); });
  Advance();
  AdvanceHearing(absl::Seconds(3));
  Completed();
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->status().message(),
            "the target did not answer a Text Request within 3s "
            "(text_timeout)");
}

// Whose parts each come in time.
TEST_F(InitiatorRequestsTest, ATextThatTricklesIsNotWaitedForForEver) {
  options_.timeouts.text_answer_timeout = absl::Seconds(20);
  LogIn();
  session_->SendText("x", nullptr);
  Advance();
  TextResponsePdu part;
  part.initiator_task_tag = Sent<TextRequestPdu>().initiator_task_tag;
  part.final = false;
  part.target_transfer_tag = 1;
  for (int i = 0; i < 2; ++i) {
    AdvanceHearing(absl::Seconds(9));
    Deliver(part, "x");
    EXPECT_FALSE(session_->ended());
  }
  AdvanceHearing(absl::Seconds(2));
  ExpectLost(Loss::kTimeout,
             "did not end its answer to a Text Request within 20s "
             "(text_answer_timeout)");
}

TEST_F(InitiatorRequestsTest, GathersALongText) {
  LogIn();
  std::optional<absl::StatusOr<std::string>> text;
  session_->SendText("SendTargets=All", [&](absl::StatusOr<std::string> t) {
    text = std::move(t);
  });
  Advance();
  std::string data;
  auto request = Sent<TextRequestPdu>(&data);
  EXPECT_EQ(data, "SendTargets=All");
  EXPECT_TRUE(request.immediate);
  EXPECT_TRUE(request.final);
  EXPECT_EQ(request.target_transfer_tag, kReservedTag);

  TextResponsePdu part;
  part.initiator_task_tag = request.initiator_task_tag;
  part.final = false;
  part.continue_ = true;
  part.target_transfer_tag = 0x99;
  part.lun = 7;
  Deliver(part, "TargetNa");
  request = Sent<TextRequestPdu>(&data);
  EXPECT_EQ(data, "");
  EXPECT_EQ(request.target_transfer_tag, 0x99u);
  EXPECT_EQ(request.lun, 7u);
  EXPECT_EQ(request.initiator_task_tag, part.initiator_task_tag);
  part.continue_ = false;
  part.target_transfer_tag = 0x9a;
  Deliver(part, "me=a");
  EXPECT_EQ(Sent<TextRequestPdu>().target_transfer_tag, 0x9au);
  part.final = true;
  part.target_transfer_tag = kReservedTag;
  Deliver(part, "!");
  Completed();
  ASSERT_TRUE(text.has_value() && text->ok());
  EXPECT_EQ(**text, "TargetName=a!");
}

TEST_F(InitiatorRequestsTest, AnEndlessTextIsCutOff) {
  options_.max_text_bytes = 1000;
  options_.max_text_exchanges = 50;
  for (const std::string& piece :
       {std::string(1, 'x'), std::string(100, 'x')}) {
    LogIn();
    session_->SendText("x", nullptr);
    Advance();
    TextResponsePdu part;
    part.initiator_task_tag = Sent<TextRequestPdu>().initiator_task_tag;
    part.final = false;
    part.continue_ = true;
    part.target_transfer_tag = 1;
    for (int i = 0; i < 50 && !session_->ended(); ++i) Deliver(part, piece);
    ExpectLost(Loss::kProtocol, "a text answer");
    mover_.controls.clear();
  }
}

TEST_F(InitiatorRequestsTest, ATextThatGoesOnWithoutTextIsCutOff) {
  LogIn();
  session_->SendText("x", nullptr);
  Advance();
  TextResponsePdu part;
  part.initiator_task_tag = Sent<TextRequestPdu>().initiator_task_tag;
  part.final = false;
  part.target_transfer_tag = 1;
  Deliver(part);
  ExpectLost(Loss::kProtocol, "without any text");
}

TEST_F(InitiatorRequestsTest, ATextOfNobodyEndsTheSession) {
  LogIn();
  Deliver(TextResponsePdu());
  ExpectLost(Loss::kProtocol, "");
  LogIn();
  session_->Ping(nullptr);
  Advance();
  TextResponsePdu text;
  text.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
  Deliver(text);
  ExpectLost(Loss::kProtocol, "Text Response");
}

TEST_F(InitiatorRequestsTest, AbortTaskConcludesTheTask) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  command->lun = 5;
  const auto sent = Issue(command);
  session_->Manage(Function::kAbortTask, 0, command, Keep(&status_));
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  EXPECT_EQ(abort.lun, 5u);
  EXPECT_EQ(abort.ref_cmd_sn, sent.pdu.cmd_sn);
  AnswerTmf(abort);
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{command});
  EXPECT_EQ(command->outcome, Outcome::kAborted);
  EXPECT_TRUE(status_->ok());
}

// Nobody waits for this task any more. Other commands may be sent again.
TEST_F(InitiatorRequestsTest, AnAnswerToATaskThatWasAbortedEndsTheSession) {
  for (const bool known : {true, false}) {
    LogIn();
    scsi::Command* command = MakeRead(1);
    scsi::Command* other = MakeRead(1);
    const auto sent = Issue(command);
    Issue(other);
    session_->Abort(command);
    Advance();
    AnswerTmf(Sent<TaskManagementRequestPdu>());
    EXPECT_EQ(Completed(), std::vector<scsi::Command*>{command});
    if (known) {
      Respond(sent);
    } else {  // The datamover has forgotten it.
      ScsiDataInPdu late;
      late.initiator_task_tag = sent.pdu.initiator_task_tag;
      Bhs bhs;
      Encode(late, bhs.data());
      session_->RejectNotify(RejectPdu::kProtocolError, bhs.data(),
                             "unknown Initiator Task Tag");
    }
    ExpectLost(Loss::kTarget, "went on with a task that it had called aborted");
    CommandList retry;
    session_->TakeUnfinished(&retry);
    EXPECT_EQ(retry.size(), 1u);
    EXPECT_TRUE(Completed().empty());
  }
}

// Linux's target gives two responses one number now and then.
TEST_F(InitiatorRequestsTest, OverIserAnAnswerMayHaveTheStatSnOfAResponse) {
  options_.login.offer.iser.enabled = true;
  for (const bool early : {false, true}) {
    LogIn();
    scsi::Command* command = MakeRead(1);
    const auto first = Issue(MakeRead(1));
    const auto second = Issue(MakeRead(1));
    Issue(command);
    status_.reset();
    session_->Manage(Function::kAbortTask, 0, command, Keep(&status_));
    Advance();
    const auto abort = Sent<TaskManagementRequestPdu>();
    const uint32_t before = stat_sn_;
    if (early) {
      stat_sn_ = before + 1;
      AnswerTmf(abort);
      stat_sn_ = before;
    }
    Respond(first);
    Respond(second);
    if (!early) {
      stat_sn_ = before + 1;
      AnswerTmf(abort);
    }
    Advance();
    EXPECT_FALSE(session_->ended()) << session_->failure();
    EXPECT_EQ(Completed().size(), 3u);
    EXPECT_EQ(command->outcome, Outcome::kAborted);
    ASSERT_TRUE(status_.has_value());
    EXPECT_TRUE(status_->ok()) << *status_;
    EXPECT_EQ(Issue(MakeRead(1)).pdu.exp_stat_sn, before + 2);
  }
}

// As Linux's target posts them over iSER.
TEST_F(InitiatorRequestsTest, OverIserAnAnswerWaitsForTheResponsesBeforeIt) {
  options_.login.offer.iser.enabled = true;
  LogIn();
  scsi::Command* command = MakeRead(1);
  scsi::Command* other = MakeRead(1);
  const auto sent = Issue(command);
  const auto sent_other = Issue(other);
  session_->Manage(Function::kAbortTask, 0, command, Keep(&status_));
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  const uint32_t before = stat_sn_;
  stat_sn_ = before + 1;
  AnswerTmf(abort);
  Respond(sent_other);
  Advance();
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{other});
  EXPECT_FALSE(status_.has_value());
  stat_sn_ = before;
  Respond(sent);
  Advance();
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{command});
  EXPECT_EQ(command->outcome, Outcome::kCompleted);
  ASSERT_TRUE(status_.has_value());
  EXPECT_TRUE(status_->ok());
  EXPECT_EQ(Issue(MakeRead(1)).pdu.exp_stat_sn, before + 3);
}

TEST_F(InitiatorRequestsTest, OverIserAnAnswerIsNotWaitedForTwice) {
  options_.login.offer.iser.enabled = true;
  LogIn();
  Issue(MakeRead(1));
  session_->Manage(Function::kAbortTaskSet, 0, nullptr, Keep(&status_));
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  ++stat_sn_;
  AnswerTmf(abort);
  EXPECT_FALSE(session_->ended());
  AnswerTmf(abort);
  ExpectLost(Loss::kProtocol, "a response was lost or repeated");
}

TEST_F(InitiatorRequestsTest, AnEarlyAnswerEndsTheSession) {
  LogIn();
  Issue(MakeRead(1));
  session_->Manage(Function::kAbortTaskSet, 0, nullptr, Keep(&status_));
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  ++stat_sn_;
  AnswerTmf(abort);
  ExpectLost(Loss::kProtocol, "a response was lost or repeated");
}

TEST_F(InitiatorRequestsTest, AbortTaskKeepsItsRefCmdSnWhenTheSlotIsReused) {
  options_.max_commands = 1;
  LogIn();
  scsi::Command* command = MakeRead(1);
  const auto sent = Issue(command);
  session_->Manage(Function::kClearAca, 0, nullptr, nullptr);
  Advance();
  session_->Manage(Function::kAbortTask, 0, command, nullptr);
  Respond(sent);
  scsi::Command* next = MakeRead(1);
  Issue(next);
  AnswerTmf(Sent<TaskManagementRequestPdu>());
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  EXPECT_EQ(abort.ref_cmd_sn, sent.pdu.cmd_sn);
  AnswerTmf(abort, TaskManagementResponsePdu::kTaskDoesNotExist);
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{command});
  EXPECT_EQ(next->outcome, Outcome::kPending);
}

TEST_F(InitiatorRequestsTest, ARefusedAbortLeavesTheCommandAlone) {
  LogIn();
  // tgt answers the latter for a task whose data it still waits for, and then
  // goes on with it.
  for (const uint8_t refusal : {TaskManagementResponsePdu::kRejected,
                                TaskManagementResponsePdu::kTaskDoesNotExist}) {
    scsi::Command* command = MakeRead(1);
    const auto sent = Issue(command);
    session_->Abort(command);
    Advance();
    AnswerTmf(Sent<TaskManagementRequestPdu>(), refusal);
    Advance();
    EXPECT_TRUE(mover_.controls.empty());
    EXPECT_TRUE(Completed().empty());
    Respond(sent);
    EXPECT_EQ(Completed().size(), 1u);
    EXPECT_EQ(command->outcome, Outcome::kCompleted);
  }
}

// The caller's ABORT TASK is refused while the session has one of its own in
// mind for the same command.
TEST_F(InitiatorRequestsTest, ARefusedAbortLeavesAnotherToBeTried) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  const auto sent = Issue(command);
  session_->Manage(Function::kAbortTask, 0, command, nullptr);
  Advance();
  const auto first = Sent<TaskManagementRequestPdu>();
  session_->Abort(command);
  AnswerTmf(first, TaskManagementResponsePdu::kTaskDoesNotExist);
  Advance();
  const auto second = Sent<TaskManagementRequestPdu>();
  EXPECT_EQ(second.referenced_task_tag, sent.pdu.initiator_task_tag);
  AnswerTmf(second);
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{command});
  EXPECT_EQ(command->outcome, Outcome::kAborted);
}

TEST_F(InitiatorRequestsTest, NothingToAbort) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  session_->Abort(command);
  session_->Manage(Function::kAbortTask, 0, command, Keep(&status_));
  session_->Manage(Function::kAbortTask, 0, nullptr, Keep(&second_));
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(second_->code(), absl::StatusCode::kNotFound);
  session_->Manage(Function::kTaskReassign, 0, command, Keep(&status_));
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kUnimplemented);
}

TEST_F(InitiatorRequestsTest, FunctionsConcludeWhatTheyCover) {
  struct Case {
    Function function;
    bool same_lun;
    bool other_lun;
  };
  const Case cases[] = {
      {Function::kAbortTaskSet, true, false},
      {Function::kClearTaskSet, true, false},
      {Function::kLogicalUnitReset, true, false},
      {Function::kTargetWarmReset, true, true},
      {Function::kTargetColdReset, true, true},
      {Function::kClearAca, false, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.function));
    LogIn();
    scsi::Command* same = MakeRead(1);
    scsi::Command* other = MakeRead(1);
    same->lun = 1;
    other->lun = 2;
    Issue(same);
    Issue(other);
    session_->Manage(c.function, 1, nullptr, Keep(&status_));
    Advance();
    const auto request = Sent<TaskManagementRequestPdu>();
    EXPECT_EQ(request.referenced_task_tag, kReservedTag);
    const bool has_lun = c.function != Function::kTargetWarmReset &&
                         c.function != Function::kTargetColdReset;
    EXPECT_EQ(request.lun, has_lun ? 1u : 0u);
    // What is issued after the request is not covered by it.
    scsi::Command* later = nullptr;
    if (session_->CanIssue()) {
      later = MakeRead(1);
      later->lun = 1;
      Issue(later);
    }
    AnswerTmf(request);
    Completed();
    EXPECT_TRUE(status_->ok());
    EXPECT_EQ(same->outcome,
              c.same_lun ? Outcome::kAborted : Outcome::kPending);
    EXPECT_EQ(other->outcome,
              c.other_lun ? Outcome::kAborted : Outcome::kPending);
    if (later != nullptr) {
      EXPECT_EQ(later->outcome, Outcome::kPending);
    }
  }
}

TEST_F(InitiatorRequestsTest, StatusIsAcknowledgedWhileTaskManagementWaits) {
  LogIn();
  const auto sent = Issue(MakeRead(1));
  session_->Manage(Function::kAbortTaskSet, 0, nullptr, nullptr);
  Advance();
  Sent<TaskManagementRequestPdu>();
  Respond(sent);
  Advance();
  // A target may wait for this before it answers (section 11.6.1).
  const auto ack = Sent<NopOutPdu>();
  EXPECT_NE(ack.initiator_task_tag, kReservedTag);
  EXPECT_EQ(ack.exp_stat_sn, stat_sn_);
  NopInPdu pong;
  pong.initiator_task_tag = ack.initiator_task_tag;
  Deliver(pong);
  Advance();
  EXPECT_TRUE(mover_.controls.empty());
}

TEST_F(InitiatorRequestsTest, AnAbortNeedsNoAcknowledgement) {
  LogIn();
  const auto sent = Issue(MakeRead(1));
  scsi::Command* aborted = MakeRead(1);
  Issue(aborted);
  session_->Abort(aborted);
  Advance();
  Sent<TaskManagementRequestPdu>();
  Respond(sent);
  Advance();
  EXPECT_TRUE(mover_.controls.empty());
}

TEST_F(InitiatorRequestsTest, AnswersToTaskManagementSayWhatHappened) {
  using Pdu = TaskManagementResponsePdu;
  const std::pair<uint8_t, absl::StatusCode> cases[] = {
      {Pdu::kTaskDoesNotExist, absl::StatusCode::kNotFound},
      {Pdu::kLunDoesNotExist, absl::StatusCode::kNotFound},
      {Pdu::kNotSupported, absl::StatusCode::kUnimplemented},
      {Pdu::kAuthorizationFailed, absl::StatusCode::kPermissionDenied},
      {Pdu::kRejected, absl::StatusCode::kFailedPrecondition},
  };
  LogIn();
  for (const auto& [response, code] : cases) {
    session_->Manage(Function::kLogicalUnitReset, 1, nullptr, Keep(&status_));
    Advance();
    AnswerTmf(Sent<TaskManagementRequestPdu>(), response);
    Completed();
    EXPECT_EQ(status_->code(), code);
  }
  EXPECT_EQ(session_->state(), State::kFullFeature);
}

TEST_F(InitiatorRequestsTest, LateAnswersToTaskManagementAreDiscarded) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  Issue(command);
  session_->Abort(command);
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  AdvanceHearing(options_.timeouts.task_management_timeout);
  AnswerTmf(abort);
  EXPECT_EQ(session_->state(), State::kFullFeature);
  TaskManagementRequestPdu unknown;
  unknown.initiator_task_tag = 0x7000;
  AnswerTmf(unknown);
  ExpectLost(Loss::kProtocol, "unknown Initiator Task Tag");
}

TEST_F(InitiatorRequestsTest, LogsOut) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  Issue(command);
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  EXPECT_FALSE(session_->CanIssue());
  const auto request = Sent<LogoutRequestPdu>();
  EXPECT_EQ(request.reason, LogoutRequestPdu::kCloseSession);
  LogoutResponsePdu response;
  response.initiator_task_tag = request.initiator_task_tag;
  Deliver(response);
  EXPECT_EQ(session_->state(), State::kLoggedOut);
  EXPECT_TRUE(Completed().empty());
  EXPECT_TRUE(status_->ok());
  CommandList unfinished;
  session_->TakeUnfinished(&unfinished);
  EXPECT_EQ(unfinished.size(), 1u);
}

// Section 11.15.3.
TEST_F(InitiatorRequestsTest, ALogoutResponseSaysHowLongToStayAway) {
  constexpr int kDefault = 7;
  options_.login.offer.default_time2wait = kDefault;
  const struct {
    uint8_t response;
    int wait;
  } cases[] = {
      {LogoutResponsePdu::kClosed, 0},
      {LogoutResponsePdu::kCidNotFound, kDefault},
      {LogoutResponsePdu::kRecoveryNotSupported, 3},
      {LogoutResponsePdu::kCleanupFailed, 3},
  };
  for (const auto& [code, wait] : cases) {
    LogIn();
    session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
    LogoutResponsePdu response;
    response.initiator_task_tag = Sent<LogoutRequestPdu>().initiator_task_tag;
    response.response = code;
    response.time2wait = 3;
    Deliver(response);
    Completed();
    EXPECT_EQ(session_->state(), State::kLoggedOut);
    EXPECT_EQ(session_->time2wait(), absl::Seconds(wait)) << int{code};
  }
  // Nor does one say anything that is about another connection.
  LogIn();
  session_->Logout(LogoutRequestPdu::kRemoveForRecovery, 8, now_,
                   Keep(&status_));
  LogoutResponsePdu response;
  response.initiator_task_tag = Sent<LogoutRequestPdu>().initiator_task_tag;
  Deliver(response);
  EXPECT_EQ(session_->time2wait(), absl::Seconds(kDefault));
}

TEST_F(InitiatorRequestsTest, ALogoutMayFailTimeOutOrBeCutShort) {
  LogIn();
  session_->Logout(LogoutRequestPdu::kCloseConnection, 0, now_, Keep(&status_));
  LogoutResponsePdu response;
  response.initiator_task_tag = Sent<LogoutRequestPdu>().initiator_task_tag;
  response.response = LogoutResponsePdu::kCleanupFailed;
  response.time2wait = 3;
  Deliver(response);
  Completed();
  EXPECT_FALSE(status_->ok());
  EXPECT_EQ(session_->state(), State::kLoggedOut);
  EXPECT_EQ(session_->time2wait(), absl::Seconds(3));

  LogIn();
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  AdvanceHearing(options_.timeouts.logout_timeout);
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session_->state(), State::kLoggedOut);
  mover_.controls.clear();

  LogIn();
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  session_->ConnectionLost(absl::UnavailableError("closed"));
  Completed();
  EXPECT_TRUE(status_->ok());
  EXPECT_EQ(session_->state(), State::kLoggedOut);
}

TEST_F(InitiatorRequestsTest, ALogoutHasItsTimeAlsoInAnIdleSession) {
  LogIn();
  Advance();
  now_ += absl::Hours(1);
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  EXPECT_EQ(Advance(), now_ + options_.timeouts.logout_timeout);
  EXPECT_EQ(session_->state(), State::kLoggingOut);
  Sent<LogoutRequestPdu>();
}

TEST_F(InitiatorRequestsTest, RemovingAConnectionKeepsTheSession) {
  LogIn();
  session_->Logout(LogoutRequestPdu::kRemoveForRecovery, 8, now_,
                   Keep(&status_));
  const auto request = Sent<LogoutRequestPdu>();
  EXPECT_EQ(request.cid, 8);
  EXPECT_EQ(request.reason, LogoutRequestPdu::kRemoveForRecovery);
  LogoutResponsePdu response;
  response.initiator_task_tag = request.initiator_task_tag;
  response.response = LogoutResponsePdu::kRecoveryNotSupported;
  Deliver(response);
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(session_->state(), State::kFullFeature);
}

}  // namespace
}  // namespace skiff::protocol
