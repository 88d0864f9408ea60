// What an initiator's session waits for, and for how long.

#include <vector>

#include "gtest/gtest.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/initiator_session_test_util.h"

namespace skiff::protocol {
namespace {

using Loss = InitiatorSession::Loss;
using Outcome = scsi::Command::Outcome;
using State = InitiatorSession::State;

class InitiatorTimeoutsTest : public InitiatorSessionTest {};

TEST_F(InitiatorTimeoutsTest, ACommandWithoutAnswerIsAbortedThenItsUnitReset) {
  options_.timeouts.command_timeout = absl::Seconds(60);
  LogIn();
  scsi::Command* stuck = MakeRead(1);
  scsi::Command* other = MakeRead(1);
  stuck->lun = other->lun = 3;
  const auto sent = Issue(stuck);
  EXPECT_EQ(Advance(), now_ + absl::Seconds(60));
  AdvanceHearing(absl::Seconds(59));
  EXPECT_TRUE(mover_.controls.empty());
  const auto second = Issue(other);
  AdvanceHearing(absl::Seconds(1));
  auto abort = Sent<TaskManagementRequestPdu>();
  EXPECT_EQ(abort.function, 1);
  EXPECT_TRUE(abort.immediate);
  EXPECT_EQ(abort.lun, 3u);
  EXPECT_EQ(abort.referenced_task_tag, sent.pdu.initiator_task_tag);
  EXPECT_EQ(abort.ref_cmd_sn, sent.pdu.cmd_sn);
  EXPECT_EQ(abort.cmd_sn, second.pdu.cmd_sn + 1);

  TaskManagementResponsePdu refused;
  refused.initiator_task_tag = abort.initiator_task_tag;
  refused.response = TaskManagementResponsePdu::kNotSupported;
  Deliver(refused);
  AdvanceHearing(absl::ZeroDuration());
  const auto reset = Sent<TaskManagementRequestPdu>();
  EXPECT_EQ(reset.function, 5);
  EXPECT_EQ(reset.lun, 3u);
  // What the reset covers must not grow.
  EXPECT_FALSE(session_->CanIssue());
  TaskManagementResponsePdu complete;
  complete.initiator_task_tag = reset.initiator_task_tag;
  Deliver(complete);
  EXPECT_EQ(Completed(), (std::vector<scsi::Command*>{stuck, other}));
  EXPECT_EQ(stuck->outcome, Outcome::kTimedOut);
  EXPECT_EQ(other->outcome, Outcome::kAborted);
  EXPECT_TRUE(session_->CanIssue());
}

TEST_F(InitiatorTimeoutsTest, AnUnansweredResetEndsTheSession) {
  LogIn();
  scsi::Command* stuck = MakeRead(1);
  scsi::Command* other = MakeRead(1);
  other->lun = 9;
  Issue(stuck);
  AdvanceHearing(absl::Seconds(30));
  Issue(other);
  AdvanceHearing(absl::Seconds(30));
  EXPECT_EQ(Sent<TaskManagementRequestPdu>().function, 1);
  AdvanceHearing(options_.timeouts.task_management_timeout);
  EXPECT_EQ(Sent<TaskManagementRequestPdu>().function, 5);
  AdvanceHearing(options_.timeouts.task_management_timeout);
  ExpectLost(Loss::kTimeout, "LOGICAL UNIT RESET");
  CommandList retry;
  session_->TakeUnfinished(&retry);
  ASSERT_EQ(retry.size(), 1u);
  EXPECT_EQ(retry.front(), other);
  EXPECT_EQ(Completed(), std::vector<scsi::Command*>{stuck});
  EXPECT_EQ(stuck->outcome, Outcome::kTimedOutWithSession);
}

TEST_F(InitiatorTimeoutsTest, AnAnswerDuringTheAbortCounts) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  const auto sent = Issue(command);
  session_->Abort(command);
  Advance();
  const auto abort = Sent<TaskManagementRequestPdu>();
  Respond(sent);
  EXPECT_EQ(Completed().size(), 1u);
  EXPECT_EQ(command->outcome, Outcome::kCompleted);
  // The response to the abort finds nothing to do.
  TaskManagementResponsePdu late;
  late.initiator_task_tag = abort.initiator_task_tag;
  late.response = TaskManagementResponsePdu::kTaskDoesNotExist;
  Deliver(late);
  EXPECT_EQ(session_->state(), State::kFullFeature);
  EXPECT_TRUE(Completed().empty());
}

TEST_F(InitiatorTimeoutsTest, ASilentTargetIsPingedAndGivenUp) {
  options_.timeouts.nop_interval = absl::Seconds(5);
  options_.timeouts.nop_timeout = absl::Seconds(3);
  LogIn();
  absl::Time next = AdvanceHearing(absl::Seconds(1));
  EXPECT_EQ(next, now_ + absl::Seconds(5));
  next = Advance(absl::Seconds(5));
  EXPECT_EQ(next, now_ + absl::Seconds(3));
  auto ping = Sent<NopOutPdu>();
  EXPECT_TRUE(ping.immediate);
  EXPECT_NE(ping.initiator_task_tag, kReservedTag);
  NopInPdu pong;
  pong.initiator_task_tag = ping.initiator_task_tag;
  Deliver(pong);
  AdvanceHearing(absl::Seconds(1));
  Advance(absl::Seconds(5));
  ping = Sent<NopOutPdu>();
  // Whoever sends data is alive, even if the answer waits behind them.
  next = AdvanceHearing(absl::Seconds(2));
  EXPECT_EQ(next, now_ + absl::Seconds(3));
  Advance(absl::Seconds(3));
  ExpectLost(Loss::kTimeout, "silent");
}

// But what sends something for ever is not waited for as long.
TEST_F(InitiatorTimeoutsTest, APingIsNotWaitedForForEver) {
  options_.timeouts.command_timeout = absl::Seconds(20);
  options_.timeouts.nop_timeout = absl::Seconds(3);
  LogIn();
  session_->Ping(nullptr);
  Advance();
  Sent<NopOutPdu>();
  for (int i = 0; i < 19; ++i) AdvanceHearing(absl::Seconds(1));
  EXPECT_EQ(session_->state(), State::kFullFeature);
  AdvanceHearing(absl::Seconds(1));
  ExpectLost(Loss::kTimeout,
             "sends, but did not answer a ping within 20s (command_timeout)");
}

// Over iSER, a target can have no room for more immediate requests.
TEST_F(InitiatorTimeoutsTest, NorDoesARequestWaitForRoomForEver) {
  options_.login.offer.iser.enabled = true;
  options_.timeouts.command_timeout = absl::Seconds(20);
  LogIn(/*window=*/0);
  for (int i = 0; i < 1000; ++i) {
    session_->Ping(nullptr);
    AdvanceHearing(absl::ZeroDuration());
    if (mover_.controls.empty()) break;
    NopInPdu pong;
    pong.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
    Deliver(pong);  // It acknowledges none of them.
  }
  AdvanceHearing(absl::Seconds(19));
  EXPECT_TRUE(mover_.controls.empty());
  EXPECT_EQ(session_->state(), State::kFullFeature);
  AdvanceHearing(absl::Seconds(1));
  ExpectLost(Loss::kTimeout,
             "took no ping within 20s (command_timeout): it keeps its command "
             "window closed");
}

}  // namespace
}  // namespace skiff::protocol
