// Task management of an initiator's session.

#include <optional>
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

class InitiatorManagementTest : public InitiatorSessionTest {
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

TEST_F(InitiatorManagementTest, AbortTaskConcludesTheTask) {
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
TEST_F(InitiatorManagementTest, AnAnswerToATaskThatWasAbortedEndsTheSession) {
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
TEST_F(InitiatorManagementTest, OverIserAnAnswerMayHaveTheStatSnOfAResponse) {
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
TEST_F(InitiatorManagementTest, OverIserAnAnswerWaitsForTheResponsesBeforeIt) {
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

TEST_F(InitiatorManagementTest, OverIserAnAnswerIsNotWaitedForTwice) {
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

TEST_F(InitiatorManagementTest, AnEarlyAnswerEndsTheSession) {
  LogIn();
  Issue(MakeRead(1));
  session_->Manage(Function::kAbortTaskSet, 0, nullptr, Keep(&status_));
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  ++stat_sn_;
  AnswerTmf(abort);
  ExpectLost(Loss::kProtocol, "a response was lost or repeated");
}

TEST_F(InitiatorManagementTest, AbortTaskKeepsItsRefCmdSnWhenTheSlotIsReused) {
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

TEST_F(InitiatorManagementTest, ARefusedAbortLeavesTheCommandAlone) {
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
TEST_F(InitiatorManagementTest, ARefusedAbortLeavesAnotherToBeTried) {
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

TEST_F(InitiatorManagementTest, NothingToAbort) {
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

TEST_F(InitiatorManagementTest, FunctionsConcludeWhatTheyCover) {
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

TEST_F(InitiatorManagementTest, StatusIsAcknowledgedWhileTaskManagementWaits) {
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

TEST_F(InitiatorManagementTest, AnAbortNeedsNoAcknowledgement) {
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

TEST_F(InitiatorManagementTest, AnswersToTaskManagementSayWhatHappened) {
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

TEST_F(InitiatorManagementTest, LateAnswersToTaskManagementAreDiscarded) {
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

}  // namespace
}  // namespace skiff::protocol
