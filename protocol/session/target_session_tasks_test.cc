// A target's session: commands that are aborted, and task management.

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session/target_session.h"
#include "protocol/session/target_session_harness.h"
#include "protocol/session/target_session_test_util.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// Another initiator in the same target, who has come to no unit attention.
struct Neighbour {
  explicit Neighbour(TargetSessionHarness* harness)
      : nexus(*harness->target()->OpenNexus(
            harness->worker(), &port, scsi::testing::IdentityOf("other"))) {
    port.set_nexus(nexus.get());
    scsi::testing::TestCommand first(scsi::testing::Bytes(6), {}, 0);
    nexus->Submit(&first.task);
    port.auto_release = false;
  }
  ~Neighbour() {
    port.auto_release = true;
    port.ReleaseCompleted();
    nexus->Close([] {});
  }

  scsi::testing::FakeTargetPort port;
  std::unique_ptr<scsi::Nexus> nexus;
};

TEST_F(TargetSessionTest, ClosesASlowReaderWhoseBuffersOthersLack) {
  constexpr uint32_t kBlocks = 256;  // 128 KiB, of which there are eight.
  options_.data_patience = absl::Milliseconds(1);
  auto backend = std::make_shared<scsi::testing::TestBackend>(
      scsi::testing::ThinInfo(65536));
  backend->completion = scsi::testing::TestBackend::Completion::kInline;
  options_.backend = std::move(backend);
  Start();
  for (int i = 0; i < 8; ++i) Send(Transfer(/*write=*/false, 0, kBlocks));
  scsi::testing::TestCommand reads[2] = {
      {scsi::testing::Cdb10(0x28, 0, kBlocks), {}, kBlocks * 512},
      {scsi::testing::Cdb10(0x28, 0, kBlocks), {}, kBlocks * 512}};
  scsi::testing::Bytes cdb = scsi::testing::Cdb16(0x89, 0, 0);
  cdb[13] = kBlocks / 2;
  scsi::testing::TestCommand swap(cdb, scsi::testing::Bytes(kBlocks * 512), 0);
  Neighbour other(harness_.get());
  Neighbour third(harness_.get());
  for (auto& read : reads) other.nexus->Submit(&read.task);
  third.nexus->Submit(&swap.task);
  EXPECT_FALSE(swap.completed);
  (void)harness_->TakeBytes(/*limit=*/1);
  while (!harness_->closed()) harness_->Settle();
  EXPECT_THAT(harness_->close_reason(), HasSubstr("min_read_rate"));
  harness_->session()->Terminate();
  while (!swap.completed) harness_->Settle();
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

}  // namespace
}  // namespace skiff::protocol
