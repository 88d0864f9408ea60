// Data that come before a target has a place for them, more than it may keep;
// and memory that runs out.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/target/testing_backend.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using scsi::testing::TestBackend;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint8_t kGood = 0x00;
constexpr uint8_t kTaskSetFull = 0x28;

// The parameter: RDMA, and so iSER.
class MemoryBudgetTest : public ::testing::TestWithParam<bool> {
 protected:
  MemoryBudgetTest()
      : stack_(1, 1,
               GetParam() ? std::optional(testing::SimRdmaOptions::InfiniBand())
                          : std::nullopt),
        bytes_(GetParam() ? 512 : 64 << 10),
        count_(GetParam() ? 100 : 24),
        budget_(std::make_shared<MemoryBudget>(8 * bytes_)),
        backend_(std::make_shared<TestBackend>(scsi::testing::ThinInfo(8192))) {
    stack_.StopServer();
    stack_.target = scsi::Target::Create(kTargetName);
    EXPECT_TRUE(stack_.target->AddLogicalUnit(backend_, {}).ok());
    TargetServerOptions& options = stack_.server_options;
    options.budget = budget_;
    options.limits.memory.max_spare_buffer_bytes = 0;
    options.worker.buffer_pool_bytes = 4u << 20;
    options.worker.buffer_bytes = 256u << 10;
    options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
  }

  void LogIn(bool digests = false) {
    InitiatorOptions options = stack_.Options();
    options.offer.immediate_data = true;
    options.offer.first_burst_length = 64 << 10;
    options.offer.max_recv_data_segment_length = 64 << 10;
    if (digests) options.offer.data_digest = {Digest::kCrc32c};
    stack_.LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.RunToGood(&ready);
  }

  TestCommand* Write(uint32_t index) {
    commands_.push_back(std::make_unique<TestCommand>(
        scsi::cdb::Write(uint64_t{index} * bytes_ / kBlock, bytes_ / kBlock), 0,
        std::string(bytes_, static_cast<char>('a' + index % 26))));
    stack_.initiator->Submit(&commands_.back()->command);
    return commands_.back().get();
  }
  bool AllFinished() const {
    for (const auto& command : commands_) {
      if (!command->finished) return false;
    }
    return true;
  }
  // How often each status came.
  std::map<uint8_t, size_t> Statuses() const {
    std::map<uint8_t, size_t> statuses;
    for (const auto& command : commands_) ++statuses[command->command.status];
    return statuses;
  }

  std::vector<std::string> log_;
  SimStack stack_;
  // Of a write, all of which comes with it; over RDMA that is not much. Of so
  // many, some find a buffer.
  const uint32_t bytes_;
  const uint32_t count_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<TestBackend> backend_;
  std::vector<std::unique_ptr<TestCommand>> commands_;
};

INSTANTIATE_TEST_SUITE_P(Transports, MemoryBudgetTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Rdma" : "Stream";
                         });

TEST_P(MemoryBudgetTest, WhatDoesNotFitEndsInTaskSetFull) {
  LogIn();
  backend_->completion = TestBackend::Completion::kHeld;
  for (uint32_t i = 0; i < count_; ++i) Write(i);
  stack_.RunFor(absl::Seconds(1));
  // Half of it, so that another session finds as much.
  EXPECT_EQ(budget_->use().charged, 4 * bytes_);
  EXPECT_GT(budget_->use().refused, 0u);
  backend_->completion = TestBackend::Completion::kPosted;
  backend_->CompleteHeld();
  ASSERT_TRUE(stack_.RunUntil([this] { return AllFinished(); }));
  const auto statuses = Statuses();
  EXPECT_EQ(statuses.size(), 2u);
  EXPECT_EQ(statuses.at(kGood) + statuses.at(kTaskSetFull), count_);
  EXPECT_GT(statuses.at(kGood), 4u);
  for (uint32_t i = 0; i < count_; ++i) {
    const char wanted = commands_[i]->command.status == kGood
                            ? static_cast<char>('a' + i % 26)
                            : '\0';
    const auto begin = backend_->bytes().begin() + i * bytes_;
    EXPECT_EQ(std::string(begin, begin + bytes_), std::string(bytes_, wanted))
        << i;
  }
  EXPECT_EQ(budget_->use().charged, 0u);
  EXPECT_THAT(log_, Contains(HasSubstr("TASK SET FULL")));
  // Once there is room, all is well.
  commands_.clear();
  Write(0);
  ASSERT_TRUE(stack_.RunUntil([this] { return AllFinished(); }));
  EXPECT_EQ(commands_[0]->command.status, kGood);
}

// Whatever fails: commands or connections end, and are served again after.
TEST_P(MemoryBudgetTest, EveryNthAllocationMayFail) {
  LogIn(/*digests=*/true);
  for (const uint32_t n : {1, 2, 3, 7}) {
    SCOPED_TRACE(n);
    const uint64_t lacking = budget_->use().lacking;
    backend_->completion = TestBackend::Completion::kHeld;
    budget_->RefuseEvery(n);
    for (uint32_t i = 0; i < count_; ++i) Write(i);
    stack_.RunFor(absl::Seconds(1));
    backend_->completion = TestBackend::Completion::kPosted;
    backend_->CompleteHeld();
    stack_.RunFor(absl::Seconds(1));
    EXPECT_GT(budget_->use().lacking, lacking);
    budget_->RefuseEvery(0);
    ASSERT_TRUE(stack_.RunUntil([this] { return AllFinished(); }));
    TestCommand read(scsi::cdb::Read(0, bytes_ / kBlock), bytes_);
    stack_.RunToGood(&read);
    commands_.clear();
  }
}

}  // namespace
}  // namespace skiff::protocol
