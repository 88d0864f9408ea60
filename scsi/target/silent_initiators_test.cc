// One initiator that announces data and does not send them, beside others that
// are well: what it holds, others must not wait for.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "scsi/backend/ram_backend.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestTarget;

constexpr uint32_t kBlock = 512;
constexpr char kResponseTimeout[] =
    "ABORTED COMMAND, INITIATOR RESPONSE TIMEOUT (4Bh/06h)";

WorkerOptions Impatient() {
  WorkerOptions options = testing::TestReactor::SmallPool();
  options.data_patience = absl::Milliseconds(1);
  return options;
}

WorkerOptions Patient() {
  WorkerOptions options = testing::TestReactor::SmallPool();
  options.data_patience = absl::Hours(1);
  return options;
}

std::shared_ptr<Backend> Ram() {
  return *MakeRamBackend({.size_bytes = 1u << 20});
}

// The target's own nexus is the silent one.
class SilentTarget {
 public:
  explicit SilentTarget(std::shared_ptr<Backend> backend,
                        const WorkerOptions& worker)
      : target_(std::move(backend), {}, worker), other_(AddNexus("b")) {
    target_.port().immediate_data_out = false;
  }

  std::unique_ptr<TestNexus> AddNexus(const std::string& name) {
    auto nexus =
        std::make_unique<TestNexus>(target_.target(), &target_.reactor(), name);
    nexus->ClearUnitAttentions();
    return nexus;
  }
  std::unique_ptr<TestCommand> Silent(const Bytes& cdb, uint32_t bytes) {
    auto command = std::make_unique<TestCommand>(cdb, Pattern(bytes, 1), 0);
    target_.nexus().Submit(command.get());
    return command;
  }
  std::unique_ptr<TestCommand> SilentWrite(uint32_t lba, uint16_t blocks) {
    return Silent(Cdb10(0x2a, lba, blocks), blocks * kBlock);
  }
  // Until transfers of the silent one were cancelled, which then end.
  void AwaitCancel() {
    while (target_.port().cancels == 0) target_.reactor().Turn();
    target_.port().FinishTransfers();
  }

  TestNexus& silent() { return target_.nexus(); }
  TestNexus& other() { return *other_; }
  testing::TestReactor& reactor() { return target_.reactor(); }

 private:
  TestTarget target_;
  std::unique_ptr<TestNexus> other_;
};

Bytes CompareAndWriteCdb(uint32_t lba) {
  Bytes cdb(16);
  cdb[0] = 0x89;
  cdb[9] = static_cast<uint8_t>(lba);
  cdb[13] = 1;
  return cdb;
}

std::unique_ptr<TestCommand> CompareAndWrite(uint32_t lba) {
  return std::make_unique<TestCommand>(CompareAndWriteCdb(lba),
                                       Bytes(2 * kBlock), 0);
}

TEST(SilentInitiatorsTest, AWriteElsewhereIsNotWaitedFor) {
  SilentTarget target(Ram(), Patient());
  const auto silent = target.SilentWrite(0, 8);
  const auto swap = CompareAndWrite(100);
  target.other().Run(swap.get());
  EXPECT_EQ(Outcome(*swap), "GOOD");
  const auto again = CompareAndWrite(100);
  target.other().Run(again.get());
  EXPECT_EQ(Outcome(*again), "GOOD");
  EXPECT_EQ(Outcome(*silent), "pending");
  // Its data come after all.
  target.silent().port.FinishTransfers();
  EXPECT_EQ(Outcome(*silent), "GOOD");
}

TEST(SilentInitiatorsTest, AWriteToTheSameBlocksIsGivenUp) {
  SilentTarget target(Ram(), Impatient());
  const auto silent = target.SilentWrite(96, 8);
  const auto swap = CompareAndWrite(100);
  target.other().Submit(swap.get());
  EXPECT_EQ(Outcome(*swap), "pending");
  target.AwaitCancel();
  target.other().Settle();
  EXPECT_EQ(Outcome(*swap), "GOOD");
  EXPECT_EQ(Outcome(*silent), kResponseTimeout);
}

// While a COMPARE AND WRITE waits, writes elsewhere go on, and those to its
// blocks come after it.
TEST(SilentInitiatorsTest, OnlyWritesToTheSameBlocksWaitBehindIt) {
  SilentTarget target(Ram(), Patient());
  const auto silent = target.SilentWrite(96, 8);
  const auto swap = CompareAndWrite(100);
  target.other().Submit(swap.get());
  const auto third = target.AddNexus("c");
  TestCommand elsewhere(Cdb10(0x2a, 8, 8), Pattern(8 * kBlock, 3), 0);
  third->Submit(&elsewhere);
  EXPECT_EQ(Outcome(elsewhere), "GOOD");
  TestCommand same(Cdb10(0x2a, 100, 1), Pattern(kBlock, 4), 0);
  third->Submit(&same);
  target.reactor().Turn();
  EXPECT_EQ(Outcome(same), "pending");
  EXPECT_EQ(Outcome(*swap), "pending");
  target.silent().port.FinishTransfers();
  target.other().Settle();
  EXPECT_EQ(swap->status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(swap->code(), AdditionalSense::kMiscompareDuringVerify);
  EXPECT_EQ(Outcome(same), "GOOD");
}

// A grant belongs to the blocks that it was asked for.
TEST(SilentInitiatorsTest, ACancelledRequestDoesNotServeOtherBlocks) {
  SilentTarget target(Ram(), Patient());
  const auto at_100 = target.SilentWrite(96, 8);
  const auto at_200 = target.SilentWrite(200, 8);
  const auto first = CompareAndWrite(100);
  const auto second = CompareAndWrite(200);
  target.other().Submit(first.get());
  target.other().Submit(second.get());
  target.reactor().Turn();
  EXPECT_EQ(target.other().Manage(TaskManagement::kAbortTask, 0, &first->task),
            TaskManagementResult::kFunctionComplete);
  target.silent().port.FinishTransfer();
  for (int i = 0; i < 8; ++i) target.reactor().Turn();
  EXPECT_EQ(Outcome(*at_100), "GOOD");
  EXPECT_EQ(Outcome(*second), "pending");
  target.silent().port.FinishTransfer();
  target.other().Settle();
  EXPECT_EQ(Outcome(*at_200), "GOOD");
  EXPECT_EQ(second->code(), AdditionalSense::kMiscompareDuringVerify);
}

// Those that come while somebody waits for their blocks hold up nobody.
TEST(SilentInitiatorsTest, ALaterWriteMayBeSilentToo) {
  SilentTarget target(Ram(), Impatient());
  const auto first = target.SilentWrite(100, 1);
  const auto swap = CompareAndWrite(100);
  target.other().Submit(swap.get());
  const auto later = target.SilentWrite(100, 1);
  const auto next = CompareAndWrite(100);
  target.other().Submit(next.get());
  while (target.silent().port.cancels == 0) target.reactor().Turn();
  target.silent().port.FinishCancelled();
  while (!next->completed) target.reactor().Turn();
  EXPECT_EQ(Outcome(*swap), "GOOD");
  EXPECT_EQ(Outcome(*next), "GOOD");
  EXPECT_EQ(Outcome(*first), kResponseTimeout);
  EXPECT_EQ(Outcome(*later), "pending");
  target.silent().Settle();
  EXPECT_EQ(Outcome(*later), "GOOD");
}

// --- Buffers. The medium has no memory of its own.

std::shared_ptr<Backend> File() {
  auto backend = std::make_shared<TestBackend>(testing::ThinInfo(65536));
  backend->completion = TestBackend::Completion::kInline;
  return backend;
}

// Without an end, so that it fails by its timeout.
void Await(SilentTarget* target, TestNexus* nexus, const TestCommand& command) {
  while (!command.completed) {
    target->reactor().Turn();
    nexus->port.FinishTransfers();
  }
}

std::vector<std::unique_ptr<TestCommand>> ManySilentWrites(SilentTarget* target,
                                                           int count,
                                                           uint16_t blocks) {
  std::vector<std::unique_ptr<TestCommand>> writes;
  for (int i = 0; i < count; ++i) {
    writes.push_back(target->SilentWrite(0, blocks));
  }
  return writes;
}

class SilentSizesTest : public ::testing::TestWithParam<uint16_t> {};

TEST_P(SilentSizesTest, OthersFindBuffersBesideSilentWrites) {
  SilentTarget target(File(), Patient());
  const auto writes = ManySilentWrites(&target, 128, GetParam());
  for (const uint16_t blocks : {1, 64, 512, 2048}) {
    TestCommand read(Cdb10(0x28, 0, blocks), {}, blocks * kBlock);
    target.other().Run(&read);
    EXPECT_EQ(Outcome(read), "GOOD") << blocks;
    TestCommand write(Cdb10(0x2a, 0, blocks), Pattern(blocks * kBlock, 7), 0);
    target.other().Run(&write);
    EXPECT_EQ(Outcome(write), "GOOD") << blocks;
  }
  // Of the silent one, too, what is small goes on.
  TestCommand inquiry({0x12, 0, 0, 0, 96, 0}, {}, 96);
  target.silent().Submit(&inquiry);
  EXPECT_EQ(Outcome(inquiry), "GOOD");
  for (const auto& write : writes) Await(&target, &target.silent(), *write);
}

INSTANTIATE_TEST_SUITE_P(Blocks, SilentSizesTest,
                         ::testing::Values(uint16_t{8}, uint16_t{128},
                                           uint16_t{2048}));

// Many of them take all that can be borrowed; an account's own remains.
TEST(SilentInitiatorsTest, AnAccountsOwnBufferIsNeverBorrowed) {
  SilentTarget target(File(), Patient());
  std::vector<std::unique_ptr<TestNexus>> nexuses;
  std::vector<std::unique_ptr<TestCommand>> writes;
  for (int i = 0; i < 20; ++i) {
    nexuses.push_back(target.AddNexus("silent"));
    nexuses.back()->port.immediate_data_out = false;
    for (const uint16_t blocks : {8, 8, 8, 8, 8, 128, 128, 512, 512}) {
      writes.push_back(std::make_unique<TestCommand>(
          Cdb10(0x2a, 0, blocks), Pattern(blocks * kBlock, 1), 0));
      nexuses.back()->Submit(writes.back().get());
    }
  }
  TestCommand read(Cdb10(0x28, 0, 2048), {}, 2048 * kBlock);
  target.other().Run(&read);
  EXPECT_EQ(Outcome(read), "GOOD");
  TestCommand write(Cdb10(0x2a, 0, 2048), Pattern(2048 * kBlock, 7), 0);
  target.other().Run(&write);
  EXPECT_EQ(Outcome(write), "GOOD");
  TestCommand inquiry({0x12, 0, 0, 0, 96, 0}, {}, 96);
  target.other().Run(&inquiry);
  EXPECT_EQ(Outcome(inquiry), "GOOD");
  for (const auto& pending : writes) {
    while (!pending->completed) {
      for (auto& nexus : nexuses) nexus->Settle();
    }
  }
}

// What can only have a large buffer waits until a silent write is given up.
TEST(SilentInitiatorsTest, ASilentWriteGivesItsBufferBack) {
  WorkerOptions options = Impatient();
  options.buffer_pool_bytes = 384u << 10;  // One large buffer.
  SilentTarget target(File(), options);
  const auto silent = target.SilentWrite(0, 512);
  TestCommand swap(
      [] {
        Bytes cdb = CompareAndWriteCdb(0);
        cdb[13] = 128;
        return cdb;
      }(),
      Bytes(2 * 128 * kBlock), 0);
  target.other().Submit(&swap);
  EXPECT_EQ(Outcome(swap), "pending");
  target.AwaitCancel();
  Await(&target, &target.other(), swap);
  EXPECT_EQ(Outcome(swap), "GOOD");
  EXPECT_EQ(Outcome(*silent), kResponseTimeout);
  EXPECT_EQ(target.reactor().worker()->buffer_use().given_up, 1u);
  // It is trusted with nothing now, and gets on with what is its own.
  const auto write = target.SilentWrite(0, 512);
  EXPECT_EQ(target.reactor().worker()->buffer_use().held_bytes, 16u << 10);
  target.silent().Settle();
  EXPECT_EQ(Outcome(*write), "GOOD");
  const auto again = target.SilentWrite(0, 512);
  EXPECT_EQ(target.reactor().worker()->buffer_use().held_bytes, 16u << 10);
  target.silent().Settle();
  EXPECT_EQ(Outcome(*again), "GOOD");
}

TEST(SilentInitiatorsTest, NobodyIsGivenUpWhileNobodyWants) {
  SilentTarget target(File(), Impatient());
  const auto silent = target.SilentWrite(0, 8);
  // Looked at much more often than its patience goes.
  int looks = 0;
  transport::Timer timer(target.reactor().reactor(), [&] {
    if (++looks < 10) timer.ScheduleAfter(absl::Milliseconds(1));
  });
  timer.ScheduleAfter(absl::Milliseconds(1));
  while (looks < 10) target.reactor().Turn();
  EXPECT_EQ(target.silent().port.cancels, 0);
  target.silent().Settle();
  EXPECT_EQ(Outcome(*silent), "GOOD");
}

// Each of them in its turn, whatever it has waiting.
TEST(SilentInitiatorsTest, AccountsAreServedInTurn) {
  WorkerOptions options = Patient();
  options.buffer_pool_bytes = 384u << 10;  // One large buffer.
  SilentTarget target(File(), options);
  const auto holder = target.SilentWrite(0, 512);
  const auto large = [] {
    Bytes cdb = CompareAndWriteCdb(0);
    cdb[13] = 128;
    return std::make_unique<TestCommand>(cdb, Bytes(2 * 128 * kBlock), 0);
  };
  const auto third = target.AddNexus("c");
  target.other().port.immediate_data_out = false;
  third->port.immediate_data_out = false;
  std::vector<std::unique_ptr<TestCommand>> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(large());
    target.other().Submit(many.back().get());
  }
  const auto one = large();
  third->Submit(one.get());
  target.silent().port.FinishTransfers();
  // Nothing goes on inside of what gave the buffer back.
  EXPECT_EQ(target.other().port.waiting_transfers(), 0u);
  target.reactor().Turn();
  EXPECT_EQ(target.other().port.waiting_transfers(), 1u);
  target.other().port.FinishTransfer();
  target.reactor().Turn();
  EXPECT_EQ(third->port.waiting_transfers(), 1u);
  third->Settle();
  EXPECT_EQ(one->completed, true);
  target.other().Settle();
  for (const auto& command : many) EXPECT_TRUE(command->completed);
}

// Small commands that need their buffer whole go before others, but not before
// each other.
TEST(SilentInitiatorsTest, SmallCommandsAreServedInOrder) {
  WorkerOptions options = Patient();
  options.buffer_pool_bytes = 384u << 10;  // Six small buffers.
  SilentTarget target(File(), options);
  const auto writes = ManySilentWrites(&target, 8, 8);
  Bytes cdb(10);
  cdb[0] = 0x42;  // UNMAP.
  cdb[8] = 24;
  std::vector<std::unique_ptr<TestCommand>> unmaps;
  for (int i = 0; i < 4; ++i) unmaps.push_back(target.Silent(cdb, 24));
  std::vector<int> order;
  for (int left = 12; left > 0; --left) {
    target.silent().port.FinishTransfer();
    target.reactor().Turn();
    for (int i = 0; i < 4; ++i) {
      if (unmaps[i]->completed &&
          std::find(order.begin(), order.end(), i) == order.end()) {
        order.push_back(i);
      }
    }
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

// --- Initiators that take the data of their reads slowly.

std::unique_ptr<TestCommand> LargeSwap() {
  Bytes cdb = CompareAndWriteCdb(0);
  cdb[13] = 128;
  return std::make_unique<TestCommand>(cdb, Bytes(2 * 128 * kBlock), 0);
}

// Turns until the timer of the pool has looked so often.
void AwaitLooks(SilentTarget* target, int looks) {
  transport::Timer timer(target->reactor().reactor(), [&] {
    if (--looks > 0) timer.ScheduleAfter(absl::Milliseconds(1));
  });
  timer.ScheduleAfter(absl::Milliseconds(1));
  while (looks > 0) target->reactor().Turn();
}

class SlowReaderTest : public ::testing::Test {
 protected:
  static WorkerOptions Options() {
    WorkerOptions options = Impatient();
    options.buffer_pool_bytes = 384u << 10;  // One large buffer.
    options.min_read_rate = 1 << 20;
    return options;
  }
  SlowReaderTest() : target_(File(), Options()) {
    port().auto_release = false;
    target_.silent().Submit(&read_);
    EXPECT_TRUE(read_.completed);
  }
  void TearDown() override { TakeAll(); }
  void TakeAll() {
    port().ReleaseCompleted();
    port().auto_release = true;
  }
  testing::FakeTargetPort& port() { return target_.silent().port; }

  SilentTarget target_;
  TestCommand read_{Cdb10(0x28, 0, 512), {}, 512 * kBlock};
};

TEST_F(SlowReaderTest, IsEndedWhenOthersLackItsBuffer) {
  const auto swap = LargeSwap();
  target_.other().Submit(swap.get());
  EXPECT_EQ(Outcome(*swap), "pending");
  AwaitLooks(&target_, 1);
  ++port().data_in_taken;  // A little, now and then.
  while (port().ends.empty()) target_.reactor().Turn();
  EXPECT_GT(target_.reactor().worker()->buffer_use().ended, 0u);
  TakeAll();
  Await(&target_, &target_.other(), *swap);
  EXPECT_EQ(Outcome(*swap), "GOOD");
}

TEST_F(SlowReaderTest, IsLeftAloneWhileItTakesEnough) {
  const auto swap = LargeSwap();
  target_.other().Submit(swap.get());
  // However much time passes between two looks.
  port().taken_between_looks = 1u << 30;
  AwaitLooks(&target_, 10);
  EXPECT_TRUE(port().ends.empty());
  TakeAll();
  Await(&target_, &target_.other(), *swap);
}

TEST_F(SlowReaderTest, IsLeftAloneWhileNobodyLacksIt) {
  AwaitLooks(&target_, 10);
  EXPECT_TRUE(port().ends.empty());
}

// Nor when it is itself who waits for more.
TEST_F(SlowReaderTest, IsLeftAloneWhileItLacksItItself) {
  const auto swap = LargeSwap();
  target_.silent().Submit(swap.get());
  AwaitLooks(&target_, 10);
  EXPECT_TRUE(port().ends.empty());
  TakeAll();
  Await(&target_, &target_.silent(), *swap);
}

}  // namespace
}  // namespace skiff::scsi
