#include "protocol/session/target_session.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session/target_session_harness.h"
#include "scsi/target/testing_backend.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <typename Pdu>
Pdu As(const WirePdu& wire) {
  Pdu pdu;
  EXPECT_TRUE(Decode(wire.bhs.data(), &pdu).ok());
  return pdu;
}

class TargetSessionTest : public ::testing::Test {
 protected:
  void Start(absl::string_view keys = "InitialR2T=No|",
             bool discovery = false) {
    harness_.reset();
    harness_ = std::make_unique<TargetSessionHarness>(options_);
    ASSERT_TRUE(harness_->Login(keys, discovery)) << harness_->close_reason();
    cmd_sn_ = 1;
    // The unit attention of a new nexus.
    if (!discovery) Send(TestUnitReady());
    harness_->TakePdus();
  }

  ScsiCommandPdu Command(uint8_t operation) {
    ScsiCommandPdu pdu;
    pdu.initiator_task_tag = next_tag_++;
    pdu.cmd_sn = cmd_sn_++;
    pdu.cdb[0] = operation;
    return pdu;
  }
  ScsiCommandPdu TestUnitReady() { return Command(0x00); }
  // READ(10) and WRITE(10).
  ScsiCommandPdu Transfer(bool write, uint32_t lba, uint16_t blocks) {
    ScsiCommandPdu pdu = Command(write ? 0x2a : 0x28);
    pdu.read = !write;
    pdu.write = write;
    pdu.expected_data_transfer_length = uint32_t{blocks} * 512;
    for (int i = 0; i < 4; ++i)
      pdu.cdb[2 + i] = static_cast<uint8_t>(lba >> (24 - 8 * i));
    pdu.cdb[7] = static_cast<uint8_t>(blocks >> 8);
    pdu.cdb[8] = static_cast<uint8_t>(blocks);
    return pdu;
  }
  template <typename Pdu>
  void Send(const Pdu& pdu, absl::string_view data = "") {
    harness_->Receive(ToWire(pdu, data));
  }
  // Exactly one PDU must have been sent, of this kind.
  template <typename Pdu>
  Pdu Answer(Opcode opcode) {
    const std::vector<WirePdu> pdus = harness_->TakePdus();
    EXPECT_EQ(pdus.size(), 1u);
    if (pdus.size() != 1 || pdus[0].opcode() != opcode) {
      ADD_FAILURE() << "expected " << OpcodeName(static_cast<uint8_t>(opcode));
      return Pdu();
    }
    data_ = pdus[0].data;
    return As<Pdu>(pdus[0]);
  }
  RejectPdu Rejected() { return Answer<RejectPdu>(Opcode::kReject); }
  void ExpectWorks() {
    Send(TestUnitReady());
    EXPECT_EQ(Answer<ScsiResponsePdu>(Opcode::kScsiResponse).status, 0);
  }

  TargetSessionHarness::Options options_;
  std::unique_ptr<TargetSessionHarness> harness_;
  uint32_t cmd_sn_ = 1;
  uint32_t next_tag_ = 100;
  std::string data_;
};

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

TEST_F(TargetSessionTest, GivesUpASilentWriteForACompareAndWrite) {
  options_.data_patience = absl::Milliseconds(1);
  Start();
  const ScsiCommandPdu write = Transfer(/*write=*/true, 0, 8);
  Send(write);
  const auto r2t = Answer<R2tPdu>(Opcode::kR2t);
  ScsiCommandPdu swap = Command(0x89);
  swap.write = true;
  swap.expected_data_transfer_length = 1024;
  swap.cdb[13] = 1;
  Send(swap, std::string(1024, '\0'));
  std::vector<WirePdu> answers;
  while (answers.size() < 2) {
    harness_->Settle();
    for (const WirePdu& pdu : harness_->TakePdus()) answers.push_back(pdu);
  }
  const auto given_up = As<ScsiResponsePdu>(answers[0]);
  EXPECT_EQ(given_up.initiator_task_tag, write.initiator_task_tag);
  EXPECT_EQ(given_up.status, 0x02);
  EXPECT_EQ(answers[0].data[2 + 2], 0x0b) << "ABORTED COMMAND";
  EXPECT_EQ(answers[0].data[2 + 12], 0x4b);
  EXPECT_EQ(answers[0].data[2 + 13], 0x06);
  const auto swapped = As<ScsiResponsePdu>(answers[1]);
  EXPECT_EQ(swapped.initiator_task_tag, swap.initiator_task_tag);
  EXPECT_EQ(swapped.status, 0x00);
  // Its data come too late and change nothing.
  ScsiDataOutPdu late;
  late.final = true;
  late.initiator_task_tag = write.initiator_task_tag;
  late.target_transfer_tag = r2t.target_transfer_tag;
  Send(late, std::string(4096, 'x'));
  EXPECT_THAT(harness_->TakePdus(), IsEmpty());
  ExpectWorks();
}

TEST_F(TargetSessionTest, AbortsATaskThatWaitsForData) {
  Start();
  const ScsiCommandPdu write = Transfer(/*write=*/true, 0, 8);
  Send(write);
  const auto r2t = Answer<R2tPdu>(Opcode::kR2t);
  TaskManagementRequestPdu abort;
  abort.immediate = true;
  abort.function = static_cast<uint8_t>(TaskManagementFunction::kAbortTask);
  abort.initiator_task_tag = 5;
  abort.referenced_task_tag = write.initiator_task_tag;
  abort.cmd_sn = cmd_sn_;
  abort.ref_cmd_sn = write.cmd_sn;
  Send(abort);
  auto response =
      Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
  EXPECT_EQ(response.response, TaskManagementResponsePdu::kComplete);
  // Its data come too late and change nothing.
  ScsiDataOutPdu late;
  late.final = true;
  late.initiator_task_tag = write.initiator_task_tag;
  late.target_transfer_tag = r2t.target_transfer_tag;
  Send(late, std::string(4096, 'x'));
  EXPECT_THAT(harness_->TakePdus(), IsEmpty());
  // Once more: it is gone.
  abort.initiator_task_tag = 6;
  Send(abort);
  response = Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
  EXPECT_EQ(response.response, TaskManagementResponsePdu::kTaskDoesNotExist);
  ExpectWorks();
}

// Commands that were given up before they were sent: their numbers count as
// received (section 11.6.1 b), in whichever order they are told.
TEST_F(TargetSessionTest, CommandsThatAreAbortedInsteadOfSent) {
  Start();
  const uint32_t first = cmd_sn_;
  cmd_sn_ += 3;  // Three are not sent, ...
  TaskManagementRequestPdu abort;
  abort.immediate = true;
  abort.function = static_cast<uint8_t>(TaskManagementFunction::kAbortTask);
  abort.initiator_task_tag = 5;
  abort.referenced_task_tag = 4711;
  abort.cmd_sn = cmd_sn_;
  const auto told = [&](uint32_t ref_cmd_sn) {
    abort.ref_cmd_sn = ref_cmd_sn;
    Send(abort);
    const auto response =
        Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
    EXPECT_EQ(response.max_cmd_sn,
              response.exp_cmd_sn + options_.session.queue_depth - 1);
    return std::pair<int, uint32_t>(response.response,
                                    response.exp_cmd_sn - first);
  };
  using Told = std::pair<int, uint32_t>;
  constexpr int kDone = TaskManagementResponsePdu::kComplete;
  constexpr int kNone = TaskManagementResponsePdu::kTaskDoesNotExist;
  EXPECT_EQ(told(first + 2), Told(kDone, 0));
  EXPECT_EQ(told(first + 2), Told(kDone, 0)) << "said twice";
  // ... one comes all the same after it was aborted, and is ignored.
  ScsiCommandPdu late = TestUnitReady();
  late.cmd_sn = first + 2;
  --cmd_sn_;
  Send(late);
  EXPECT_THAT(harness_->TakePdus(), IsEmpty());
  EXPECT_EQ(told(first), Told(kDone, 1));
  EXPECT_EQ(told(first), Told(kNone, 1)) << "before the window";
  // The second comes, and the third is passed with it.
  late.cmd_sn = first + 1;
  Send(late);
  EXPECT_EQ(Answer<ScsiResponsePdu>(Opcode::kScsiResponse).exp_cmd_sn, cmd_sn_);
  ExpectWorks();
  EXPECT_FALSE(harness_->closed());
}

TEST_F(TargetSessionTest, HostileReferencesToCommandsThatWereNotSent) {
  Start();
  TaskManagementRequestPdu abort;
  abort.immediate = true;
  abort.function = static_cast<uint8_t>(TaskManagementFunction::kAbortTask);
  abort.initiator_task_tag = 5;
  abort.referenced_task_tag = 4711;
  const uint32_t depth = options_.session.queue_depth;
  const struct {
    uint32_t cmd_sn, ref_cmd_sn;
  } kCases[] = {
      {cmd_sn_, cmd_sn_},                      // An immediate command's.
      {cmd_sn_, cmd_sn_ + 1},                  // After the request.
      {cmd_sn_ + depth + 5, cmd_sn_ + depth},  // Beyond the window.
      {cmd_sn_ + 0x7fffffff, cmd_sn_ + 0x7ffffffe},
      {cmd_sn_ + 1, cmd_sn_ - 1},
      {cmd_sn_ + 1, cmd_sn_ + 0x80000000},
  };
  for (const auto& c : kCases) {
    abort.cmd_sn = c.cmd_sn;
    abort.ref_cmd_sn = c.ref_cmd_sn;
    Send(abort);
    const auto response =
        Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
    EXPECT_EQ(response.response, TaskManagementResponsePdu::kTaskDoesNotExist);
    EXPECT_EQ(response.exp_cmd_sn, cmd_sn_);
  }
  // All of the window but its first, and that: never more than the window is
  // remembered.
  abort.cmd_sn = cmd_sn_ + depth;
  for (uint32_t i = depth; i-- > 0;) {
    abort.ref_cmd_sn = cmd_sn_ + i;
    Send(abort);
    EXPECT_EQ(Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse)
                  .exp_cmd_sn,
              i == 0 ? cmd_sn_ + depth : cmd_sn_);
  }
  cmd_sn_ += depth;
  ExpectWorks();
}

// Section 11.5.1: a task management request can't be aborted.
TEST_F(TargetSessionTest, AbortsNoTaskManagement) {
  const auto disk = std::make_shared<scsi::testing::TestBackend>(
      scsi::testing::ThinInfo(1024));
  options_.backend = disk;
  Start();
  disk->completion = scsi::testing::TestBackend::Completion::kHeld;
  Send(Transfer(/*write=*/false, 0, 8));
  TaskManagementRequestPdu request;
  request.immediate = true;
  request.function =
      static_cast<uint8_t>(TaskManagementFunction::kAbortTaskSet);
  request.initiator_task_tag = 5;
  request.cmd_sn = cmd_sn_;
  Send(request);
  EXPECT_THAT(harness_->TakePdus(), IsEmpty()) << "it waits for the disk";
  request.function = static_cast<uint8_t>(TaskManagementFunction::kAbortTask);
  request.initiator_task_tag = 6;
  request.referenced_task_tag = 5;
  request.ref_cmd_sn = cmd_sn_;
  Send(request);
  auto response =
      Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
  EXPECT_EQ(response.initiator_task_tag, 6u);
  EXPECT_EQ(response.response, TaskManagementResponsePdu::kRejected);
  EXPECT_EQ(disk->CompleteHeld(), 1u);
  harness_->Settle();
  response = Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
  EXPECT_EQ(response.initiator_task_tag, 5u);
  EXPECT_EQ(response.response, TaskManagementResponsePdu::kComplete);
}

// The same LUN, written in another way (SAM-5 section 4.7.7).
TEST_F(TargetSessionTest, AbortsByAnyFormOfTheLun) {
  Start();
  const ScsiCommandPdu write = Transfer(/*write=*/true, 0, 8);
  Send(write);
  Answer<R2tPdu>(Opcode::kR2t);
  TaskManagementRequestPdu abort;
  abort.immediate = true;
  abort.function = static_cast<uint8_t>(TaskManagementFunction::kAbortTask);
  abort.lun = uint64_t{0x4000} << 48;
  abort.initiator_task_tag = 5;
  abort.referenced_task_tag = write.initiator_task_tag;
  abort.cmd_sn = cmd_sn_;
  abort.ref_cmd_sn = write.cmd_sn;
  Send(abort);
  EXPECT_EQ(Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse)
                .response,
            TaskManagementResponsePdu::kComplete);
  EXPECT_FALSE(harness_->session()->awaits_data());
}

TEST_F(TargetSessionTest, TaskSetFunctionsEndAllWaitingTasks) {
  for (const auto function : {TaskManagementFunction::kAbortTaskSet,
                              TaskManagementFunction::kClearTaskSet,
                              TaskManagementFunction::kLogicalUnitReset,
                              TaskManagementFunction::kTargetWarmReset}) {
    Start();
    for (int i = 0; i < 5; ++i) Send(Transfer(/*write=*/true, 0, 8));
    EXPECT_THAT(harness_->TakePdus(), SizeIs(5));
    TaskManagementRequestPdu request;
    request.immediate = true;
    request.function = static_cast<uint8_t>(function);
    request.initiator_task_tag = 5;
    request.cmd_sn = cmd_sn_;
    Send(request);
    const auto response =
        Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse);
    EXPECT_EQ(response.response, TaskManagementResponsePdu::kComplete);
    EXPECT_EQ(response.max_cmd_sn, cmd_sn_ + options_.session.queue_depth - 1);
  }
}

TEST_F(TargetSessionTest, AnswersFunctionsItDoesNotHave) {
  Start();
  TaskManagementRequestPdu request;
  request.immediate = true;
  request.cmd_sn = cmd_sn_;
  request.function =
      static_cast<uint8_t>(TaskManagementFunction::kTaskReassign);
  Send(request);
  EXPECT_EQ(Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse)
                .response,
            TaskManagementResponsePdu::kReassignNotSupported);
  // A power cycle of the target is not for one of its initiators to ask for.
  Send(Transfer(/*write=*/true, 0, 8));
  Answer<R2tPdu>(Opcode::kR2t);
  for (const int function :
       {99, static_cast<int>(TaskManagementFunction::kTargetColdReset)}) {
    request.function = static_cast<uint8_t>(function);
    request.cmd_sn = cmd_sn_;
    Send(request);
    EXPECT_EQ(Answer<TaskManagementResponsePdu>(Opcode::kTaskManagementResponse)
                  .response,
              TaskManagementResponsePdu::kNotSupported);
  }
  EXPECT_TRUE(harness_->session()->awaits_data()) << "nothing was aborted";
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

TEST_F(TargetSessionTest, SendsTargetsInPiecesThatFit) {
  Start("MaxRecvDataSegmentLength=512|", /*discovery=*/true);
  TextRequestPdu text;
  text.initiator_task_tag = 9;
  text.cmd_sn = cmd_sn_++;
  Send(text, absl::string_view("SendTargets=All\0", 16));
  const auto response = Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_TRUE(response.final);
  EXPECT_EQ(response.target_transfer_tag, kReservedTag);
  EXPECT_THAT(data_, HasSubstr("TargetName=iqn.2026-11.org.example:disk"));
  EXPECT_THAT(data_, HasSubstr("TargetAddress=127.0.0.1:3260,1"));
}

// As at login (section 4.2.7.1).
TEST_F(TargetSessionTest, TellsOfATargetByItsNameInAnyCase) {
  for (const bool discovery : {true, false}) {
    Start("", discovery);
    TextRequestPdu text;
    text.initiator_task_tag = 9;
    text.cmd_sn = cmd_sn_++;
    Send(text,
         absl::string_view("SendTargets=IQN.2026-11.ORG.Example:DISK\0", 41));
    Answer<TextResponsePdu>(Opcode::kTextResponse);
    EXPECT_THAT(data_, HasSubstr("TargetName=iqn.2026-11.org.example:disk"));
  }
}

TEST_F(TargetSessionTest, TakesANewSegmentLengthAndRefusesOtherKeys) {
  Start();
  TextRequestPdu text;
  text.initiator_task_tag = 9;
  text.cmd_sn = cmd_sn_++;
  Send(text, absl::string_view("MaxRecvDataSegmentLength=512\0", 29));
  Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_EQ(data_, "");
  Send(Transfer(/*write=*/false, 0, 3));
  EXPECT_THAT(harness_->TakePdus(), SizeIs(3));
  text.cmd_sn = cmd_sn_++;
  Send(text,
       absl::string_view(
           "MaxRecvDataSegmentLength=511\0InitialR2T=Yes\0X-none=1\0", 53));
  Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_THAT(data_, HasSubstr("MaxRecvDataSegmentLength=Reject"));
  EXPECT_THAT(data_, HasSubstr("InitialR2T=Reject"));
  EXPECT_THAT(data_, HasSubstr("X-none=NotUnderstood"));
}

TEST_F(TargetSessionTest, RefusesHostileText) {
  const std::vector<std::string> texts = {
      "SendTargets", "=All", std::string("SendTargets=All"),
      std::string("\0\0", 2), std::string(70, 'K') + "=1"};
  for (const std::string& body : texts) {
    Start("", /*discovery=*/true);
    TextRequestPdu text;
    text.initiator_task_tag = 9;
    text.cmd_sn = cmd_sn_++;
    Send(text, body);
    EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError) << body;
  }
  // CVE-2021-28361's shape: to be continued, but nothing there.
  Start("", /*discovery=*/true);
  TextRequestPdu text;
  text.final = false;
  text.continue_ = true;
  text.cmd_sn = cmd_sn_++;
  Send(text);
  EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError);
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
  options_.datamover.max_send_queue_bytes = 100000;
  Start();
  // Commands as fast as they can be encoded, whatever the window says.
  for (int i = 0; i < 5000; ++i) Send(Transfer(/*write=*/false, 0, 8));
  EXPECT_FALSE(harness_->closed());
  EXPECT_LE(harness_->session()->counters().commands, 200u);
}

// The limit holds within one read of the stream, too.
TEST_F(TargetSessionTest, CommandsThatCameTogetherWaitForTheSendQueue) {
  options_.datamover.max_send_queue_bytes = 64 << 10;
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

}  // namespace
}  // namespace skiff::protocol
