// Commands that are longer than a buffer, on a medium without direct memory:
// one half of the buffer is filled while the other is emptied.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb16;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint32_t kBlock = 512;
constexpr uint32_t kHalf = 128u << 10;  // Of TestReactor's buffers.

class LongCommandsTest : public ::testing::Test {
 protected:
  LongCommandsTest()
      : backend_(std::make_shared<TestBackend>(ThinInfo(8192))),
        target_(backend_) {
    backend_->completion = TestBackend::Completion::kHeld;
    target_.port().immediate_data_out = false;
  }

  // Of `pieces` halves of a buffer.
  std::unique_ptr<TestCommand> Read(uint32_t pieces) {
    const Bytes data = Pattern(pieces * kHalf, 5);
    std::copy(data.begin(), data.end(), backend_->bytes().begin());
    return Submit(std::make_unique<TestCommand>(
        Cdb16(0x88, 0, pieces * kHalf / kBlock), Bytes(), pieces * kHalf));
  }
  std::unique_ptr<TestCommand> Write(uint32_t pieces) {
    return Submit(
        std::make_unique<TestCommand>(Cdb16(0x8a, 0, pieces * kHalf / kBlock),
                                      Pattern(pieces * kHalf, 6), 0));
  }
  std::unique_ptr<TestCommand> Submit(std::unique_ptr<TestCommand> command) {
    target_.nexus().Submit(command.get());
    return command;
  }
  // What is under way: requests of the medium, and transfers.
  std::string UnderWay() const {
    return std::to_string(backend_->held()) + " I/O, " +
           std::to_string(target_.port().waiting_transfers()) + " transfers";
  }
  // The same after what is under way of either kind has ended.
  std::string AfterIo() {
    backend_->CompleteHeld();
    return UnderWay();
  }
  std::string AfterTransfer() {
    target_.port().FinishTransfer();
    return UnderWay();
  }

  std::shared_ptr<TestBackend> backend_;
  mutable TestTarget target_;
};

TEST_F(LongCommandsTest, ReadsAheadWhileItSends) {
  const auto read = Read(4);
  EXPECT_EQ(UnderWay(), "1 I/O, 0 transfers");
  EXPECT_EQ(AfterIo(), "1 I/O, 1 transfers");
  // Whichever ends first waits for the other.
  EXPECT_EQ(AfterIo(), "0 I/O, 1 transfers");
  EXPECT_EQ(AfterTransfer(), "1 I/O, 1 transfers");
  EXPECT_EQ(AfterTransfer(), "1 I/O, 0 transfers");
  EXPECT_EQ(AfterIo(), "1 I/O, 1 transfers");
  backend_->CompleteHeld();
  target_.port().FinishTransfer();
  EXPECT_EQ(Outcome(*read), "GOOD");
  EXPECT_EQ(read->data_in, Pattern(4 * kHalf, 5));
}

TEST_F(LongCommandsTest, ReceivesAheadWhileItWrites) {
  const auto write = Write(4);
  EXPECT_EQ(UnderWay(), "0 I/O, 1 transfers");
  EXPECT_EQ(AfterTransfer(), "1 I/O, 1 transfers");
  EXPECT_EQ(AfterTransfer(), "1 I/O, 0 transfers");
  EXPECT_EQ(AfterIo(), "1 I/O, 1 transfers");
  EXPECT_EQ(AfterIo(), "0 I/O, 1 transfers");
  EXPECT_EQ(AfterTransfer(), "1 I/O, 1 transfers");
  target_.port().FinishTransfer();
  EXPECT_EQ(AfterIo(), "1 I/O, 0 transfers");
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*write), "GOOD");
  EXPECT_EQ(
      Bytes(backend_->bytes().begin(), backend_->bytes().begin() + 4 * kHalf),
      Pattern(4 * kHalf, 6));
}

TEST_F(LongCommandsTest, WhatFitsTheBufferGoesAtOnce) {
  const auto read = Read(2);
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*read), "GOOD");
  EXPECT_EQ(read->data_in, Pattern(2 * kHalf, 5));
}

TEST_F(LongCommandsTest, AFailedReadAheadWaitsForTheTransfer) {
  const auto read = Read(4);
  backend_->CompleteHeld();
  backend_->failure = {IoRequest::Op::kRead, IoStatus::kReadError, kHalf};
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*read), "pending");
  target_.port().FinishTransfer();
  EXPECT_EQ(read->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(read->code(), AdditionalSense::kUnrecoveredReadError);
  EXPECT_EQ(UnderWay(), "0 I/O, 0 transfers");
}

TEST_F(LongCommandsTest, AFailedWriteWaitsForTheTransfer) {
  const auto write = Write(4);
  target_.port().FinishTransfer();
  backend_->failure = {IoRequest::Op::kWrite, IoStatus::kNoSpace, 0};
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*write), "pending");
  target_.port().FinishTransfer();
  EXPECT_EQ(write->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(UnderWay(), "0 I/O, 0 transfers");
}

// The memory is not the task's any more once it has ended.
TEST_F(LongCommandsTest, AFailedTransferWaitsForTheMedium) {
  for (const bool is_write : {false, true}) {
    const auto command = is_write ? Write(4) : Read(4);
    if (is_write) {
      target_.port().FinishTransfer();
    } else {
      backend_->CompleteHeld();
    }
    EXPECT_EQ(UnderWay(), "1 I/O, 1 transfers");
    target_.port().CancelTransfers(&command->task);  // The port's own trouble.
    target_.port().FinishTransfer();
    EXPECT_EQ(Outcome(*command), "pending");
    EXPECT_FALSE(command->released);
    backend_->CompleteHeld();
    EXPECT_EQ(Outcome(*command), "ABORTED COMMAND, DATA PHASE ERROR (4Bh/00h)");
    EXPECT_EQ(UnderWay(), "0 I/O, 0 transfers");
  }
}

TEST_F(LongCommandsTest, AnAbortWaitsForBoth) {
  for (const bool medium_first : {false, true}) {
    const auto write = Write(4);
    EXPECT_EQ(AfterTransfer(), "1 I/O, 1 transfers");
    bool done = false;
    target_.nexus().nexus()->Manage(TaskManagement::kAbortTask, 0, &write->task,
                                    [&](TaskManagementResult) { done = true; });
    if (medium_first) {
      backend_->CompleteHeld();
      EXPECT_EQ(Outcome(*write), "pending");
      target_.port().FinishTransfer();
    } else {
      target_.port().FinishTransfer();
      EXPECT_EQ(Outcome(*write), "pending");
      backend_->CompleteHeld();
    }
    EXPECT_EQ(Outcome(*write), "aborted");
    target_.nexus().Settle();
    EXPECT_TRUE(done);
  }
}

// While its data come in time, a long write counts as one write in flight.
TEST_F(LongCommandsTest, CompareAndWriteWaitsForTheWholeWrite) {
  const auto write = Write(4);
  target_.port().FinishTransfer();
  target_.port().immediate_data_out = true;
  Bytes both = Pattern(kBlock, 6);
  both.resize(2 * kBlock, 'n');
  Bytes cdb = Cdb16(0x89, 0, 0);
  cdb[13] = 1;
  const auto swap = Submit(std::make_unique<TestCommand>(cdb, both, 0));
  target_.port().FinishTransfer();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Outcome(*write), "pending");
    EXPECT_EQ(backend_->CompleteHeld(), 1u) << "the swap waits";
  }
  EXPECT_EQ(Outcome(*write), "GOOD");
  EXPECT_EQ(Outcome(*swap), "pending");
  target_.nexus().Settle();  // The guard lets it in from a later turn.
  backend_->CompleteHeld();
  EXPECT_EQ(Outcome(*swap), "GOOD");
  EXPECT_EQ(backend_->log.back(), IoRequest::Op::kCompareAndWrite);
}

// Whether the medium answers before it is asked again, or later.
TEST_F(LongCommandsTest, CompareAndWriteDoesNotWaitForASilentInitiator) {
  for (const bool at_once : {false, true}) {
    if (at_once) backend_->completion = TestBackend::Completion::kInline;
    const auto write = Write(4);
    target_.port().FinishTransfer();
    backend_->CompleteHeld();
    ASSERT_EQ(UnderWay(), "0 I/O, 1 transfers");
    target_.port().immediate_data_out = true;
    Bytes both = Pattern(kBlock, 6);
    both.resize(2 * kBlock, 'n');
    Bytes cdb = Cdb16(0x89, 0, 0);
    cdb[13] = 1;
    const auto swap = Submit(std::make_unique<TestCommand>(cdb, both, 0));
    EXPECT_EQ(UnderWay(), at_once ? "0 I/O, 1 transfers" : "1 I/O, 1 transfers")
        << "the swap does not wait";
    // The write's next piece waits for the swap.
    target_.port().FinishTransfer();
    EXPECT_EQ(UnderWay(),
              at_once ? "0 I/O, 0 transfers" : "1 I/O, 0 transfers");
    backend_->CompleteHeld();
    EXPECT_EQ(Outcome(*swap), "GOOD");
    target_.nexus().Settle();
    while (backend_->CompleteHeld() > 0) target_.nexus().Settle();
    EXPECT_EQ(Outcome(*write), "GOOD");
    EXPECT_EQ(backend_->bytes()[0], 'n');
    target_.port().immediate_data_out = false;
  }
}

}  // namespace
}  // namespace skiff::scsi
