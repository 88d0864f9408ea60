// Commands that the disk holds come to an end of another kind: nothing touches
// their memory after that. Over every network.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scsi/target/target.h"
#include "testing/datamover_conformance/holding_backend.h"
#include "testing/datamover_conformance/network.h"
#include "testing/datamover_conformance/transfer.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

class HeldCommandsTest : public ::testing::TestWithParam<Network> {
 protected:
  static constexpr uint32_t kTransfers = 12;
  static constexpr uint32_t kBlocksEach = 128;  // One request to the disk.

  HeldCommandsTest()
      : disk_(std::make_shared<HoldingBackend>(kBlocks * kBlock)),
        stack_(GetParam().MakeStack(1)) {
    stack_->StopServer();
    stack_->target = scsi::Target::Create(kTargetName);
    const absl::Status added =
        stack_->target->AddLogicalUnit(disk_, scsi::LogicalUnitOptions());
    EXPECT_TRUE(added.ok()) << added;
    stack_->StartServer();
  }
  void TearDown() override { disk_->Release(); }

  void LogIn() {
    InitiatorOptions options = stack_->Options();
    options.offer.immediate_data = false;
    stack_->LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_->Run(&ready.command);
  }
  // Reads and writes in turns, all of which get as far as the disk.
  void Begin() {
    disk_->Hold();
    transfers_.clear();
    for (uint32_t i = 0; i < kTransfers; ++i) {
      transfers_.push_back(
          std::make_unique<Transfer>(i, kBlocksEach, i % 2 == 0));
      stack_->initiator->Submit(&transfers_.back()->command);
    }
    ASSERT_TRUE(stack_->RunUntil([this] {
      return disk_->held() == kTransfers;
    })) << disk_->held()
        << " requests are at the disk";
  }
  // The target has heard of all that was asked for. One ping may go before what
  // was asked for in the same turn, the next does not.
  void WaitForTarget() {
    for (int i = 0; i < 2; ++i) {
      const absl::Status answer = stack_->Await(
          [this](auto done) { stack_->initiator->Ping(std::move(done)); });
      EXPECT_TRUE(answer.ok()) << answer;
    }
  }
  bool AllFinished() const {
    for (const auto& transfer : transfers_) {
      if (!transfer->finished) return false;
    }
    return true;
  }
  uint32_t Count(Outcome outcome) const {
    uint32_t count = 0;
    for (const auto& transfer : transfers_) {
      count += transfer->command.outcome == outcome ? 1 : 0;
    }
    return count;
  }
  // All have ended, and their memory is left alone.
  void ExpectEnded() {
    ASSERT_TRUE(stack_->RunUntil([this] { return AllFinished(); }));
    for (const auto& transfer : transfers_) {
      ExpectNothingForeign(stack_.get(), *transfer);
    }
    for (const auto& transfer : transfers_) {
      EXPECT_TRUE(transfer->left_alone());
    }
    EXPECT_EQ(stack_->initiator->stats().reconnects, 0u);
    const ConnectionInfo info = stack_->initiator->connection();
    if (info.remote_invalidation) {
      EXPECT_EQ(info.counters.local_invalidations, 0u)
          << "of keys that the target may have been about to invalidate";
    }
  }

  const std::shared_ptr<HoldingBackend> disk_;
  // They may end with the stack.
  std::vector<std::unique_ptr<Transfer>> transfers_;
  const std::unique_ptr<Stack> stack_;
};

INSTANTIATE_TEST_SUITE_P(Networks, HeldCommandsTest,
                         ::testing::ValuesIn(Networks()), NetworkName());

TEST_P(HeldCommandsTest, OneOfManyAborted) {
  LogIn();
  // A write, a read.
  for (const uint32_t index : {kTransfers - 2, kTransfers - 1}) {
    SCOPED_TRACE(index);
    Begin();
    stack_->initiator->Abort(&transfers_[index]->command);
    WaitForTarget();
    // Not before the memory is nobody's.
    EXPECT_FALSE(transfers_[index]->finished);
    disk_->Release();
    ExpectEnded();
    EXPECT_EQ(transfers_[index]->command.outcome, Outcome::kAborted);
    EXPECT_EQ(Count(Outcome::kCompleted), kTransfers - 1);
  }
}

TEST_P(HeldCommandsTest, AllAbortedAtOnce) {
  LogIn();
  for (const TaskManagementFunction function : kEndAllTasks) {
    SCOPED_TRACE(static_cast<int>(function));
    Begin();
    std::optional<absl::Status> answer;
    stack_->initiator->Manage(
        function, 0, nullptr,
        [&answer](absl::Status status) { answer = std::move(status); });
    WaitForTarget();
    EXPECT_FALSE(answer.has_value());
    disk_->Release();
    ASSERT_TRUE(stack_->RunUntil([&] { return answer.has_value(); }));
    EXPECT_TRUE(answer->ok()) << *answer;
    ExpectEnded();
    EXPECT_EQ(Count(Outcome::kCompleted), 0u);
  }
}

TEST_P(HeldCommandsTest, LogoutFailsThem) {
  LogIn();
  Begin();
  std::optional<absl::Status> answer;
  stack_->initiator->Logout(
      [&answer](absl::Status status) { answer = std::move(status); });
  ASSERT_TRUE(stack_->RunUntil([this] { return AllFinished(); }));
  EXPECT_EQ(Count(Outcome::kConnectionLost), kTransfers);
  disk_->Release();
  ASSERT_TRUE(stack_->RunUntil([&] { return answer.has_value(); }));
  EXPECT_TRUE(answer->ok()) << *answer;
  LogIn();
  ExpectEnded();
}

// With more of them than the target lets come.
TEST_P(HeldCommandsTest, DestroyingTheInitiatorFailsThem) {
  LogIn();
  Begin();
  std::vector<std::unique_ptr<Transfer>> more;
  for (uint32_t i = 0; i < 300; ++i) {
    more.push_back(std::make_unique<Transfer>(kTransfers + i % 50, kBlocksEach,
                                              i % 2 == 0));
    stack_->initiator->Submit(&more.back()->command);
  }
  WaitForTarget();
  stack_->initiator.reset();
  for (auto& transfer : more) transfers_.push_back(std::move(transfer));
  EXPECT_TRUE(AllFinished());
  EXPECT_EQ(Count(Outcome::kConnectionLost), transfers_.size());
  disk_->Release();
  LogIn();
  ExpectEnded();
}

}  // namespace
}  // namespace skiff::protocol
