// How many RDMA operations of long commands are under way at once.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/datamover/iser/iser_datamover.h"
#include "scsi/target/testing_backend.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

using scsi::testing::TestBackend;
using Outcome = scsi::Command::Outcome;

constexpr uint32_t kMiB = 1u << 20;
constexpr uint32_t kSplit = 256u << 10;
constexpr uint32_t kMaxReads = 8;
constexpr absl::Duration kLatency = absl::Milliseconds(10);

class PipeliningTest : public ::testing::TestWithParam<Fabric> {
 protected:
  void Make(bool memory, uint32_t read_depth = 16, bool serial = false) {
    testing::SimRdmaOptions fabric = *GetParam().rdma;
    fabric.capabilities.max_read_depth = read_depth;
    fabric.capabilities.serial_transfers = serial;
    stack_ = std::make_unique<SimStack>(1, 1, fabric);
    stack_->StopServer();
    stack_->target = memory ? MakeRamTarget(/*thin=*/false) : BufferedTarget();
    stack_->StartServer();
    stack_->LogIn();
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_->Run(&ready.command);
  }
  static std::shared_ptr<scsi::Target> BufferedTarget() {
    std::shared_ptr<scsi::Target> target = scsi::Target::Create(kTargetName);
    const absl::Status added = target->AddLogicalUnit(
        std::make_shared<TestBackend>(scsi::testing::ThinInfo(kBlocks)),
        scsi::LogicalUnitOptions());
    EXPECT_TRUE(added.ok()) << added;
    return target;
  }
  // Nothing that is posted ends within two of these.
  void SlowDown() {
    testing::LinkOptions far = testing::LinkOptions::Calm();
    far.latency_min = far.latency_max = kLatency;
    stack_->world.network().SetLink("client", "server", far);
  }
  std::unique_ptr<TestCommand> Write(uint32_t bytes, uint64_t lba = 0) {
    return std::make_unique<TestCommand>(scsi::cdb::Write(lba, bytes / kBlock),
                                         0, Pattern(bytes));
  }
  static std::unique_ptr<TestCommand> Read(uint32_t bytes) {
    return std::make_unique<TestCommand>(scsi::cdb::Read(0, bytes / kBlock),
                                         bytes);
  }
  static std::string Pattern(uint32_t bytes) {
    std::string data(bytes, '\0');
    for (uint32_t i = 0; i < bytes; ++i) {
      data[i] = static_cast<char>('a' + (i / 512) % 23);
    }
    return data;
  }
  ConnectionCounters Counters() {
    return stack_->Sessions().at(0).connection.counters;
  }
  uint64_t Operations() {
    const ConnectionCounters counters = Counters();
    return counters.rdma_reads + counters.rdma_writes;
  }
  // How many RDMA operations the command begins with, before any of them ends.
  uint64_t FirstOperations(TestCommand* command) {
    const uint64_t before = Operations();
    SlowDown();
    stack_->initiator->Submit(&command->command);
    stack_->world.RunFor(1.5 * kLatency);
    return Operations() - before;
  }
  void Finish(TestCommand* command) {
    ASSERT_TRUE(stack_->RunUntil([&] { return command->finished; }));
    EXPECT_EQ(command->command.outcome, Outcome::kCompleted);
    EXPECT_EQ(command->command.status, 0);
  }
  void ExpectMedium(const std::string& data) {
    const auto read = Read(static_cast<uint32_t>(data.size()));
    stack_->Run(&read->command);
    EXPECT_TRUE(read->buffer == data);
  }

  // A write of so many bytes begins with so many RDMA Reads, and ends well.
  void ExpectBegins(uint32_t bytes, uint32_t reads) {
    SCOPED_TRACE(bytes);
    const auto write = Write(bytes);
    EXPECT_EQ(FirstOperations(write.get()), reads);
    Finish(write.get());
    ExpectMedium(write->buffer);
  }

  std::unique_ptr<SimStack> stack_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, PipeliningTest,
                         ::testing::Values(InfiniBand(), Iwarp(), Plain()),
                         FabricName());

TEST_P(PipeliningTest, TheDefaultsAreWhatTheTestsCountWith) {
  EXPECT_EQ(IserDatamoverOptions().max_rdma_bytes, kSplit);
  EXPECT_EQ(IserDatamoverOptions().max_reads_of_task, kMaxReads);
}

// Into memory, all of it is asked for at once, but for a bound.
TEST_P(PipeliningTest, WritesIntoMemory) {
  Make(/*memory=*/true);
  ExpectBegins(kSplit, 1);
  ExpectBegins(kMiB, 4);
  ExpectBegins(4 * kMiB, kMaxReads);
}

// Through a buffer of 1 MiB. What does not fit uses both halves in turn.
TEST_P(PipeliningTest, WritesThroughABuffer) {
  Make(/*memory=*/false);
  ExpectBegins(kMiB, 4);
  ExpectBegins(4 * kMiB, 2);
}

TEST_P(PipeliningTest, Reads) {
  for (const bool memory : {true, false}) {
    SCOPED_TRACE(memory);
    Make(memory);
    const auto write = Write(4 * kMiB);
    stack_->Run(&write->command);
    for (const auto& [bytes, writes] :
         {std::pair(kMiB, 4u), std::pair(4 * kMiB, memory ? 16u : 2u)}) {
      SCOPED_TRACE(bytes);
      const auto read = Read(bytes);
      EXPECT_EQ(FirstOperations(read.get()), writes);
      Finish(read.get());
      EXPECT_TRUE(read->buffer == write->buffer.substr(0, bytes));
    }
  }
}

TEST_P(PipeliningTest, KeepsWithinTheReadDepth) {
  for (const bool memory : {true, false}) {
    SCOPED_TRACE(memory);
    Make(memory, /*read_depth=*/3);
    ExpectBegins(kMiB, 3);
  }
}

TEST_P(PipeliningTest, SplitsLessWhereTransfersAreSerial) {
  Make(/*memory=*/true, /*read_depth=*/16, /*serial=*/true);
  ExpectBegins(4 * kMiB, 4);
}

// A write that comes after a long one does not wait for all of that.
TEST_P(PipeliningTest, LeavesRoomForOtherCommands) {
  Make(/*memory=*/true, /*read_depth=*/2);
  const auto long_write = Write(4 * kMiB);
  const auto other = Write(kSplit, /*lba=*/4 * kMiB / kBlock);
  SlowDown();
  stack_->initiator->Submit(&long_write->command);
  stack_->initiator->Submit(&other->command);
  ASSERT_TRUE(stack_->RunUntil([&] { return other->finished; }));
  EXPECT_FALSE(long_write->finished);
  Finish(long_write.get());
  Finish(other.get());
  ExpectMedium(long_write->buffer);
}

// Once the target has answered that a write is aborted, it reads no more of it:
// what was posted is waited for, and nothing follows.
TEST_P(PipeliningTest, AnAbortedWriteReadsNothingMore) {
  for (const bool memory : {true, false}) {
    SCOPED_TRACE(memory);
    Make(memory);
    const auto write = Write(4 * kMiB);
    const uint64_t begun = FirstOperations(write.get());
    stack_->initiator->Abort(&write->command);
    ASSERT_TRUE(stack_->RunUntil([&] { return write->finished; }));
    EXPECT_EQ(write->command.outcome, Outcome::kAborted);
    const uint64_t reads = Counters().rdma_reads;
    EXPECT_EQ(reads, begun);
    std::fill(write->buffer.begin(), write->buffer.end(), '!');
    stack_->world.RunFor(10 * kLatency);
    EXPECT_EQ(Counters().rdma_reads, reads);
    EXPECT_EQ(stack_->initiator->stats().reconnects, 0u);
    const auto read = Read(4 * kMiB);
    stack_->Run(&read->command);
    EXPECT_EQ(read->buffer.find('!'), std::string::npos);
    const auto again = Write(4 * kMiB);
    stack_->initiator->Submit(&again->command);
    Finish(again.get());
    ExpectMedium(again->buffer);
  }
}

// Reads that end with their connection are not followed by more.
TEST_P(PipeliningTest, AConnectionEndsAmidALongWrite) {
  Make(/*memory=*/true);
  const auto write = Write(4 * kMiB);
  EXPECT_EQ(FirstOperations(write.get()), kMaxReads);
  stack_->world.network().ResetConnections("client", "server");
  ASSERT_TRUE(stack_->RunUntil([&] { return write->finished; }));
  EXPECT_EQ(stack_->initiator->stats().reconnects, 1u);
  const auto again = Write(4 * kMiB);
  do {
    again->finished = false;
    stack_->Run(&again->command);
  } while (again->command.status != 0);  // A unit attention.
  ExpectMedium(again->buffer);
}

}  // namespace
}  // namespace skiff::protocol
