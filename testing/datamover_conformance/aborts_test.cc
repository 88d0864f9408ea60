// Task management while data move: nothing touches the memory of a command
// that has ended, whatever was under way for it. What is under way when is a
// matter of virtual time: held_commands.cc has what any network can do.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "testing/datamover_conformance/transfer.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

using Outcome = scsi::Command::Outcome;

constexpr uint32_t kBlocksEach = 1024;  // 512 KiB.

class AbortTest : public ::testing::TestWithParam<Fabric> {
 protected:
  static constexpr uint32_t kTransfers = 12;

  // So that data of some commands wait until those of others have come.
  static std::optional<testing::SimRdmaOptions> FewReads(
      std::optional<testing::SimRdmaOptions> rdma) {
    if (rdma.has_value()) rdma->capabilities.max_read_depth = 1;
    return rdma;
  }

  // Transfers that are under way in every phase, over a slow link.
  void Begin() {
    testing::LinkOptions link = testing::LinkOptions::Calm();
    link.bytes_per_second = 200 << 20;
    stack_.world.network().SetLink("client", "server", link);
    InitiatorOptions options = stack_.Options();
    options.offer.immediate_data = false;
    stack_.LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
    for (uint32_t i = 0; i < kTransfers; ++i) {
      transfers_.push_back(
          std::make_unique<Transfer>(i, kBlocksEach, i % 2 == 0));
      stack_.initiator->Submit(&transfers_.back()->command);
    }
  }
  bool AllFinished() const {
    for (const auto& transfer : transfers_) {
      if (!transfer->finished) return false;
    }
    return true;
  }
  uint32_t Completed() const {
    uint32_t count = 0;
    for (const auto& transfer : transfers_) {
      count += transfer->command.outcome == Outcome::kCompleted ? 1 : 0;
    }
    return count;
  }
  // All have ended, their memory is left alone, and the session goes on.
  void ExpectEnded() {
    ASSERT_TRUE(stack_.RunUntil([this] { return AllFinished(); }));
    stack_.world.RunFor(absl::Seconds(1));
    for (const auto& transfer : transfers_) {
      EXPECT_TRUE(transfer->left_alone());
      ExpectNothingForeign(&stack_, *transfer);
    }
    EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  }

  // They may end with the stack.
  std::vector<std::unique_ptr<Transfer>> transfers_;
  SimStack stack_{1, 1, FewReads(GetParam().rdma)};
};

INSTANTIATE_TEST_SUITE_P(Fabrics, AbortTest, AllFabrics(), FabricName());

TEST_P(AbortTest, OneOfMany) {
  for (const absl::Duration after :
       {absl::Microseconds(50), absl::Milliseconds(2), absl::Milliseconds(5)}) {
    SCOPED_TRACE(absl::FormatDuration(after));
    transfers_.clear();
    Begin();
    stack_.world.RunFor(after);
    // The last write: others are ahead of it.
    Transfer& last = *transfers_[kTransfers - 2];
    ASSERT_TRUE(last.write && !last.finished);
    stack_.initiator->Abort(&last.command);
    ExpectEnded();
    EXPECT_EQ(last.command.outcome, Outcome::kAborted);
    EXPECT_EQ(Completed(), kTransfers - 1);
  }
}

TEST_P(AbortTest, AllAtOnce) {
  for (const TaskManagementFunction function : kEndAllTasks) {
    SCOPED_TRACE(static_cast<int>(function));
    transfers_.clear();
    Begin();
    stack_.world.RunFor(absl::Milliseconds(2));
    const absl::Status status = stack_.Await([&](auto done) {
      stack_.initiator->Manage(function, 0, nullptr, std::move(done));
    });
    EXPECT_TRUE(status.ok()) << status;
    ExpectEnded();
    EXPECT_LT(Completed(), kTransfers);
  }
}

// Functions that do not end commands.
TEST_P(AbortTest, NothingElseHurts) {
  Begin();
  stack_.world.RunFor(absl::Milliseconds(2));
  const auto manage = [this](TaskManagementFunction function) {
    return stack_.Await([&](auto done) {
      stack_.initiator->Manage(function, 0, nullptr, std::move(done));
    });
  };
  EXPECT_TRUE(manage(TaskManagementFunction::kClearAca).ok());
  EXPECT_FALSE(manage(TaskManagementFunction::kTaskReassign).ok());
  ExpectEnded();
  EXPECT_EQ(Completed(), kTransfers);
}

}  // namespace
}  // namespace skiff::protocol
