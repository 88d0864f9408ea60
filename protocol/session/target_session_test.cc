#include "protocol/session/target_session.h"

#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session/target_session_harness.h"
#include "protocol/session/target_session_test_util.h"
#include "scsi/target/testing.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(TargetSessionTest, WritesAndReadsBackWithStatusInTheData) {
  Start();
  std::string data(4096, '\0');
  std::mt19937 random(1);
  for (char& c : data) c = static_cast<char>(random());
  Send(Transfer(/*write=*/true, 7, 8), data);
  const auto written = Answer<ScsiResponsePdu>(Opcode::kScsiResponse);
  EXPECT_EQ(written.status, 0);
  EXPECT_EQ(written.exp_cmd_sn, cmd_sn_);
  Send(Transfer(/*write=*/false, 7, 8));
  const auto read = Answer<ScsiDataInPdu>(Opcode::kScsiDataIn);
  EXPECT_TRUE(read.has_status);
  EXPECT_EQ(read.stat_sn, written.stat_sn + 1);
  EXPECT_TRUE(data_ == data);
}

TEST_F(TargetSessionTest, ReportsResiduals) {
  Start();
  ScsiCommandPdu more = Transfer(false, 0, 1);
  more.expected_data_transfer_length = 1024;
  Send(more);
  auto read = Answer<ScsiDataInPdu>(Opcode::kScsiDataIn);
  EXPECT_TRUE(read.underflow);
  EXPECT_EQ(read.residual_count, 512u);
  ScsiCommandPdu less = Transfer(false, 0, 2);
  less.expected_data_transfer_length = 512;
  Send(less);
  read = Answer<ScsiDataInPdu>(Opcode::kScsiDataIn);
  EXPECT_TRUE(read.overflow);
  EXPECT_EQ(read.residual_count, 512u);
  EXPECT_EQ(data_.size(), 512u);
}

TEST_F(TargetSessionTest, KeepsTheWindowOpenByItsDepth) {
  options_.session.queue_depth = 8;
  Start();
  // Writes that wait for data keep the window closed by one each.
  for (uint32_t i = 0; i < 8; ++i) {
    Send(Transfer(/*write=*/true, i, 1));
    const auto r2t = Answer<R2tPdu>(Opcode::kR2t);
    EXPECT_EQ(r2t.exp_cmd_sn, cmd_sn_);
    EXPECT_EQ(r2t.max_cmd_sn, cmd_sn_ + 8 - (i + 1) - 1);
  }
  // Beyond the window: silently ignored (section 4.2.2.1).
  Send(Transfer(/*write=*/true, 100, 1));
  EXPECT_THAT(harness_->TakePdus(), IsEmpty());
  EXPECT_FALSE(harness_->closed());
}

TEST_F(TargetSessionTest, KnowsHowManyCommandsTheInitiatorHasOutstanding) {
  options_.session.queue_depth = 8;
  Start();
  ScsiCommandPdu first = TestUnitReady();
  Send(first);
  uint32_t seen = Answer<ScsiResponsePdu>(Opcode::kScsiResponse).stat_sn + 1;
  // Two that are answered before the initiator has seen any answer.
  for (uint32_t depth : {1, 2}) {
    ScsiCommandPdu next = TestUnitReady();
    next.exp_stat_sn = seen;
    Send(next);
    EXPECT_EQ(harness_->session()->initiator_depth(), depth);
  }
  harness_->TakePdus();
  EXPECT_FALSE(harness_->session()->awaits_data());
  // And one that waits.
  ScsiCommandPdu write = Transfer(/*write=*/true, 0, 1);
  write.exp_stat_sn = seen + 1;
  Send(write);
  EXPECT_EQ(harness_->session()->initiator_depth(), 2u);
  EXPECT_TRUE(harness_->session()->awaits_data());
  // Who acknowledges what was never sent has no more than the window.
  ScsiCommandPdu wrong = TestUnitReady();
  wrong.exp_stat_sn = seen + 100;
  Send(wrong);
  EXPECT_EQ(harness_->session()->initiator_depth(), 1 + 8u);
}

TEST_F(TargetSessionTest, IgnoresOldAndClosesOnMissingCommands) {
  Start();
  ScsiCommandPdu old = TestUnitReady();
  old.cmd_sn = --cmd_sn_ - 1;
  Send(old);
  EXPECT_THAT(harness_->TakePdus(), IsEmpty());
  ExpectWorks();
  ScsiCommandPdu ahead = TestUnitReady();
  ahead.cmd_sn += 3;
  Send(ahead);
  EXPECT_THAT(harness_->close_reason(), HasSubstr("CmdSN"));
}

TEST_F(TargetSessionTest, RefusesATagThatIsInUse) {
  Start();
  const ScsiCommandPdu first = Transfer(/*write=*/true, 0, 1);
  Send(first);
  Answer<R2tPdu>(Opcode::kR2t);
  ScsiCommandPdu second = TestUnitReady();
  second.initiator_task_tag = first.initiator_task_tag;
  Send(second);
  EXPECT_EQ(Rejected().reason, RejectPdu::kTaskInProgress);
  EXPECT_EQ(data_.size(), kBhsSize);
}

TEST_F(TargetSessionTest, AnswersPings) {
  Start();
  NopOutPdu nop;
  nop.immediate = true;
  nop.initiator_task_tag = 77;
  Send(nop, "hello");
  const auto answer = Answer<NopInPdu>(Opcode::kNopIn);
  EXPECT_EQ(answer.initiator_task_tag, 77u);
  EXPECT_EQ(data_, "hello");
  nop.initiator_task_tag = kReservedTag;
  Send(nop);
  EXPECT_THAT(harness_->TakePdus(), IsEmpty());
}

TEST_F(TargetSessionTest, PingsASilentInitiatorAndDropsADeadOne) {
  Start();
  const absl::Time start = absl::UnixEpoch();
  TargetSession* session = harness_->session();
  EXPECT_EQ(session->Tick(start, start), start + absl::Seconds(30));
  EXPECT_EQ(session->Tick(start + absl::Seconds(30), start),
            start + absl::Seconds(45));
  const auto ping = Answer<NopInPdu>(Opcode::kNopIn);
  EXPECT_EQ(ping.initiator_task_tag, kReservedTag);
  EXPECT_NE(ping.target_transfer_tag, kReservedTag);
  // A sign of life in time, then none.
  const absl::Time heard = start + absl::Seconds(40);
  EXPECT_EQ(session->Tick(start + absl::Seconds(45), heard),
            heard + absl::Seconds(30));
  session->Tick(heard + absl::Seconds(30), heard);
  EXPECT_FALSE(harness_->closed());
  session->Tick(heard + absl::Seconds(45), heard);
  EXPECT_THAT(harness_->close_reason(), HasSubstr("no sign of life for 45s"));
}

TEST_F(TargetSessionTest, EndsASessionThatWithholdsTheDataOfAWrite) {
  Start();
  const absl::Time start = absl::UnixEpoch();
  Send(Transfer(/*write=*/true, 0, 8));
  Answer<R2tPdu>(Opcode::kR2t);
  TargetSession* session = harness_->session();
  // Signs of life do not help.
  for (int seconds = 10; seconds < 60; seconds += 10) {
    const absl::Time now = start + absl::Seconds(seconds);
    session->Tick(now, now);
    EXPECT_FALSE(harness_->closed()) << seconds;
  }
  const absl::Time late = start + absl::Seconds(60);
  session->Tick(late, late);
  EXPECT_THAT(harness_->close_reason(), HasSubstr("did not come within 1m"));
}

TEST_F(TargetSessionTest, DataErrorsEndTheCommandNotTheSession) {
  Start();
  const ScsiCommandPdu write = Transfer(/*write=*/true, 0, 8);
  Send(write);
  const auto r2t = Answer<R2tPdu>(Opcode::kR2t);
  ScsiDataOutPdu data;
  data.final = true;
  data.initiator_task_tag = write.initiator_task_tag;
  data.target_transfer_tag = r2t.target_transfer_tag;
  data.buffer_offset = 512;
  Send(data, std::string(3584, 'x'));
  const auto response = Answer<ScsiResponsePdu>(Opcode::kScsiResponse);
  EXPECT_EQ(response.status, 2);
  ASSERT_GE(data_.size(), 16u);
  EXPECT_EQ(data_[2 + 2], 0x0b);
  EXPECT_EQ(data_[2 + 12], 0x4b);
  ExpectWorks();
}

TEST_F(TargetSessionTest, LogsOut) {
  Start();
  LogoutRequestPdu logout;
  logout.immediate = true;
  logout.reason = LogoutRequestPdu::kRemoveForRecovery;
  Send(logout);
  EXPECT_EQ(Answer<LogoutResponsePdu>(Opcode::kLogoutResponse).response,
            LogoutResponsePdu::kRecoveryNotSupported);
  logout.reason = LogoutRequestPdu::kCloseConnection;
  logout.cid = 99;
  Send(logout);
  EXPECT_EQ(Answer<LogoutResponsePdu>(Opcode::kLogoutResponse).response,
            LogoutResponsePdu::kCidNotFound);
  EXPECT_FALSE(harness_->closed());
  logout.reason = LogoutRequestPdu::kCloseSession;
  Send(logout);
  EXPECT_EQ(Answer<LogoutResponsePdu>(Opcode::kLogoutResponse).response,
            LogoutResponsePdu::kClosed);
  EXPECT_TRUE(harness_->closed());
}

TEST_F(TargetSessionTest, RefusesPdusOutOfPlace) {
  // Before login.
  harness_ = std::make_unique<TargetSessionHarness>(options_);
  Send(TestUnitReady());
  const auto refusal = Answer<LoginResponsePdu>(Opcode::kLoginResponse);
  EXPECT_EQ(refusal.status_class, 2);
  EXPECT_EQ(refusal.status_detail, 0x0b);
  EXPECT_TRUE(harness_->closed());
  // SCSI in a discovery session.
  Start("", /*discovery=*/true);
  Send(TestUnitReady());
  EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError);
  EXPECT_TRUE(harness_->closed());
  // Login in full feature phase, an opcode of targets, one that does not exist.
  Start();
  harness_->Receive(TargetSessionHarness::LoginRequest("", false));
  EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError);
  Start();
  Send(NopInPdu());
  EXPECT_EQ(Rejected().reason, RejectPdu::kCommandNotSupported);
  Send(SnackRequestPdu());
  EXPECT_EQ(Rejected().reason, RejectPdu::kSnackReject);
  ExpectWorks();
}

TEST_F(TargetSessionTest, LimitsImmediateCommands) {
  options_.session.max_immediate_tasks = 2;
  Start();
  for (int i = 0; i < 2; ++i) {
    ScsiCommandPdu write = Transfer(/*write=*/true, 0, 1);
    write.immediate = true;
    write.cmd_sn = --cmd_sn_;
    Send(write);
    Answer<R2tPdu>(Opcode::kR2t);
  }
  ScsiCommandPdu third = Transfer(/*write=*/true, 0, 1);
  third.immediate = true;
  third.cmd_sn = --cmd_sn_;
  Send(third);
  EXPECT_EQ(Rejected().reason, RejectPdu::kImmediateCommandReject);
  ExpectWorks();
}

// One that there is no memory for is refused; the session goes on.
TEST_F(TargetSessionTest, WithoutMemoryForATaskTheCommandIsRefused) {
  MemoryBudget budget(1 << 20);
  options_.budget = &budget;
  options_.session.queue_depth = 32;
  Start();
  budget.RefuseEvery(1);
  uint32_t refused = 0;
  for (int i = 0; i < 20; ++i) {
    Send(Transfer(/*write=*/true, 0, 1));
    for (const WirePdu& pdu : harness_->TakePdus()) {
      if (pdu.opcode() != Opcode::kScsiResponse) continue;
      const auto response = As<ScsiResponsePdu>(pdu);
      EXPECT_EQ(response.status, 0x28) << "TASK SET FULL";
      EXPECT_TRUE(response.underflow);
      ++refused;
    }
  }
  EXPECT_EQ(refused, 12u) << "all but those of the first chunk";
  EXPECT_EQ(budget.use().lacking, 12u);
  budget.RefuseEvery(0);
  Send(Transfer(/*write=*/true, 0, 1));
  Answer<R2tPdu>(Opcode::kR2t);
}

// An answered command keeps its slot until the answer has left.
TEST_F(TargetSessionTest, ImmediateCommandsWithoutReadingStayBounded) {
  options_.session.queue_depth = 16;
  options_.session.max_immediate_tasks = 4;
  Start();
  for (int i = 0; i < 100; ++i) {
    ScsiCommandPdu pdu = TestUnitReady();
    pdu.immediate = true;
    pdu.cmd_sn = --cmd_sn_;
    Send(pdu);
  }
  size_t answers = 0;
  for (const WirePdu& pdu : harness_->TakePdus()) {
    if (pdu.opcode() == Opcode::kScsiResponse) {
      ++answers;
      // The window that was open stays open.
      EXPECT_EQ(As<ScsiResponsePdu>(pdu).max_cmd_sn, cmd_sn_ + 15);
    } else {
      EXPECT_EQ(As<RejectPdu>(pdu).reason, RejectPdu::kImmediateCommandReject);
    }
  }
  EXPECT_EQ(answers, 4u);
  ExpectWorks();
}

TEST_F(TargetSessionTest, AFloodWithoutReadingStaysBounded) {
  options_.session.queue_depth = 16;
  options_.datamover.memory.max_send_queue_bytes = 100000;
  Start();
  // Commands as fast as they can be encoded, whatever the window says.
  for (int i = 0; i < 5000; ++i) Send(Transfer(/*write=*/false, 0, 8));
  EXPECT_FALSE(harness_->closed());
  EXPECT_LE(harness_->session()->counters().commands, 200u);
}

// The limit holds within one read of the stream, too.
TEST_F(TargetSessionTest, CommandsThatCameTogetherWaitForTheSendQueue) {
  options_.datamover.memory.max_send_queue_bytes = 64 << 10;
  Start();
  std::string batch;
  for (int i = 0; i < 64; ++i) batch += ToWire(Transfer(false, 0, 256));
  const uint64_t before = harness_->session()->counters().commands;
  harness_->Receive(batch);
  EXPECT_EQ(harness_->session()->counters().commands, before + 1);
  uint32_t answered = 0;
  for (int turn = 0; turn < 64; ++turn) {
    for (const WirePdu& pdu : harness_->TakePdus()) {
      if (As<ScsiDataInPdu>(pdu).has_status) ++answered;
    }
    EXPECT_EQ(answered, turn + 1u);
    NopOutPdu nop;
    nop.immediate = true;
    Send(nop);
  }
  ExpectWorks();
}

// Section 11.13.5. Whatever keeps the policy, it is asked before there is a
// session.
TEST_F(TargetSessionTest, ALoginIsRefusedAsTheAccessPolicySays) {
  const struct {
    absl::Status admission;
    int detail;
  } cases[] = {{absl::UnauthenticatedError("who is it?"), 0x01},
               {absl::PermissionDeniedError("it is not on the list"), 0x02}};
  for (const auto& c : cases) {
    const auto policy = std::make_shared<scsi::testing::TestPolicy>();
    policy->admission = c.admission;
    options_.access = policy;
    harness_ = std::make_unique<TargetSessionHarness>(options_);
    harness_->Receive(
        TargetSessionHarness::LoginRequest("", /*discovery=*/false));
    const auto refusal = Answer<LoginResponsePdu>(Opcode::kLoginResponse);
    EXPECT_EQ(refusal.status_class, 2);
    EXPECT_EQ(refusal.status_detail, c.detail);
    EXPECT_THAT(harness_->close_reason(),
                HasSubstr(std::string(c.admission.message())));
    ASSERT_THAT(policy->admitted, SizeIs(1));
    const scsi::NexusIdentity& who = policy->admitted[0];
    EXPECT_EQ(who.initiator, TargetSessionHarness::kInitiatorName);
    EXPECT_THAT(harness_->close_reason(), HasSubstr(who.initiator_port));
    EXPECT_EQ(who.target_port,
              absl::StrCat(TargetSessionHarness::kTargetName, ",t,0x0001"));
    EXPECT_EQ(harness_->memory_uses(), 0);
  }
}

TEST_F(TargetSessionTest, ALoginIsRefusedWhereTheTargetsMemoryCannotBeUsed) {
  harness_ = std::make_unique<TargetSessionHarness>(options_);
  harness_->set_memory_use(absl::ResourceExhaustedError("too much is locked"));
  harness_->Receive(
      TargetSessionHarness::LoginRequest("", /*discovery=*/false));
  const auto refusal = Answer<LoginResponsePdu>(Opcode::kLoginResponse);
  EXPECT_EQ(refusal.status_class, 3);
  EXPECT_EQ(refusal.status_detail, 0);
  EXPECT_THAT(harness_->close_reason(), HasSubstr("too much is locked"));
  EXPECT_EQ(harness_->memory_uses(), 1);
}

}  // namespace
}  // namespace skiff::protocol
