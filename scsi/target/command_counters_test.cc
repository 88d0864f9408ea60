// What is counted of commands, for a logical unit and for a nexus.

#include "scsi/target/command_counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>

#include "scsi/backend/ram_backend.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestTarget;
using testing::ThinInfo;

TEST(LatencyCountsTest, BucketsDouble) {
  EXPECT_EQ(LatencyCounts::BucketOf(0), 0u);
  EXPECT_EQ(LatencyCounts::BucketOf(1023), 0u);
  EXPECT_EQ(LatencyCounts::BucketOf(1024), 1u);
  EXPECT_EQ(LatencyCounts::BucketOf(2047), 1u);
  EXPECT_EQ(LatencyCounts::BucketOf(2048), 2u);
  constexpr size_t kLast = LatencyCounts::kBuckets - 1;
  EXPECT_EQ(LatencyCounts::BucketOf((uint64_t{1024} << (kLast - 1)) - 1),
            kLast - 1);
  EXPECT_EQ(LatencyCounts::BucketOf(uint64_t{1024} << (kLast - 1)), kLast);
  EXPECT_EQ(LatencyCounts::BucketOf(~uint64_t{0}), kLast);
}

uint64_t Sum(const LatencyCounts& latency) {
  return std::accumulate(latency.buckets.begin(), latency.buckets.end(),
                         uint64_t{0});
}

class CommandCountersTest : public ::testing::Test {
 protected:
  CommandCountersTest() { before_ = Lu(); }

  CommandCounts Lu() {
    return target_.target()->LogicalUnitStatuses().at(0).commands;
  }
  CommandCounts Nexus() { return target_.nexus().nexus()->Counts(); }

  const std::shared_ptr<TestBackend> backend_ =
      std::make_shared<TestBackend>(ThinInfo(1024));
  TestTarget target_{backend_};
  CommandCounts before_;  // Of the LUN, as the test begins.
};

TEST_F(CommandCountersTest, CountsByKind) {
  for (const uint8_t read : {0x28, 0xa8}) {
    Bytes cdb = Cdb10(read, 0, 0);
    cdb.resize(read == 0xa8 ? 12 : 10);
    cdb[read == 0xa8 ? 9 : 8] = 8;
    target_.Run(cdb, {}, 4096);
  }
  target_.Run(Cdb16(0x88, 0, 2), {}, 1024);
  target_.Run(Cdb10(0x2a, 0, 4), Bytes(2048));
  target_.Run(Cdb10(0x2e, 0, 1), Bytes(512));  // WRITE AND VERIFY.
  target_.Run(Cdb10(0x35, 0, 0));              // SYNCHRONIZE CACHE.
  target_.Run(Cdb10(0x41, 0, 4), Bytes(512));  // WRITE SAME.
  const CommandCounts now = Lu();
  EXPECT_EQ(now.reads, 3u);
  EXPECT_EQ(now.read_bytes, 9216u);
  EXPECT_EQ(now.writes, 2u);
  EXPECT_EQ(now.written_bytes, 2560u);
  EXPECT_EQ(now.others - before_.others, 2u);
  EXPECT_EQ(now.check_conditions, before_.check_conditions);
  EXPECT_EQ(now.busy + now.aborted + now.in_flight, 0u);
  EXPECT_EQ(Sum(now.read_latency()), 3u);
  EXPECT_EQ(Sum(now.write_latency()), 2u);
  EXPECT_GT(now.read_latency().sum_ns, 0u) << "the medium took turns";
  EXPECT_LE(now.read_latency().max_ns, now.read_latency().sum_ns);
  EXPECT_GE(3 * now.read_latency().max_ns, now.read_latency().sum_ns);
  EXPECT_EQ(Nexus(), now) << "the one nexus, and no other LUN";
}

TEST(SizeClassTest, GoesByTheBytes) {
  EXPECT_EQ(SizeClassOf(0), SizeClass::kSmall);
  EXPECT_EQ(SizeClassOf(4096), SizeClass::kSmall);
  EXPECT_EQ(SizeClassOf(4097), SizeClass::kMedium);
  EXPECT_EQ(SizeClassOf(65536), SizeClass::kMedium);
  EXPECT_EQ(SizeClassOf(65537), SizeClass::kLarge);
  EXPECT_EQ(SizeClassOf(~uint32_t{0}), SizeClass::kLarge);
}

TEST_F(CommandCountersTest, TellsTheLatenciesOfSizesApart) {
  target_.Run(Cdb10(0x28, 0, 8), {}, 4096);
  target_.Run(Cdb10(0x28, 0, 9), {}, 4608);
  target_.Run(Cdb10(0x28, 0, 128), {}, 65536);
  target_.Run(Cdb10(0x28, 0, 129), {}, 66048);
  target_.Run(Cdb10(0x2a, 0, 129), Bytes(66048));
  const CommandCounts now = Lu();
  EXPECT_EQ(Sum(now.read_latencies[0]), 1u);
  EXPECT_EQ(Sum(now.read_latencies[1]), 2u);
  EXPECT_EQ(Sum(now.read_latencies[2]), 1u);
  EXPECT_EQ(Sum(now.write_latencies[2]), 1u);
  EXPECT_EQ(Sum(now.read_latency()), now.reads);
  EXPECT_EQ(Sum(now.write_latency()), now.writes);
}

// The initiator takes less than the CDB names.
TEST_F(CommandCountersTest, CountsWhatWasMoved) {
  target_.Run(Cdb10(0x28, 0, 8), {}, 1000);
  target_.Run(Cdb10(0x2a, 0, 8), Bytes(1024));
  EXPECT_EQ(Lu().read_bytes, 1000u);
  EXPECT_EQ(Lu().written_bytes, 1024u);
}

TEST_F(CommandCountersTest, CountsFailures) {
  backend_->failure =
      TestBackend::Failure{IoRequest::Op::kRead, IoStatus::kReadError, 0};
  target_.Run(Cdb10(0x28, 0, 8), {}, 4096);
  target_.Run(Cdb10(0x28, 4096, 8), {}, 4096);  // Beyond the end.
  target_.Run(Cdb10(0xff, 0, 0));               // No command.
  const CommandCounts now = Lu();
  EXPECT_EQ(now.check_conditions - before_.check_conditions, 3u);
  EXPECT_EQ(now.reads, 2u);
  EXPECT_EQ(now.others - before_.others, 1u);
  EXPECT_EQ(now.read_bytes, 0u);
}

TEST_F(CommandCountersTest, CountsWhatIsInFlightAndAborted) {
  backend_->completion = TestBackend::Completion::kHeld;
  TestCommand read(Cdb10(0x28, 0, 8), {}, 4096);
  TestCommand write(Cdb10(0x2a, 0, 8), Bytes(4096), 0);
  target_.nexus().Submit(&read);
  target_.nexus().Submit(&write);
  target_.nexus().Settle();
  EXPECT_EQ(Lu().in_flight, 2u);
  backend_->completion = TestBackend::Completion::kPosted;
  backend_->cancellation = TestBackend::Cancellation::kTakenBack;
  EXPECT_EQ(target_.nexus().Manage(TaskManagement::kAbortTask, 0, &read.task),
            TaskManagementResult::kFunctionComplete);
  EXPECT_EQ(Lu().in_flight, 1u);
  EXPECT_EQ(Lu().aborted, 1u);
  backend_->CompleteHeld();
  target_.nexus().Settle();
  EXPECT_TRUE(write.completed);
  const CommandCounts now = Lu();
  EXPECT_EQ(now.in_flight, 0u);
  EXPECT_EQ(now.reads, 0u);
  EXPECT_EQ(now.writes, 1u);
}

TEST_F(CommandCountersTest, CountsWhatTheTaskSetHasNoRoomFor) {
  ASSERT_TRUE(target_.target()
                  ->AddLogicalUnit(std::make_shared<TestBackend>(ThinInfo(64)),
                                   {.lun = 1, .max_tasks = 1})
                  .ok());
  target_.nexus().Settle();
  constexpr uint64_t kSecond = uint64_t{1} << 48;
  target_.nexus().ClearUnitAttentions(kSecond);
  target_.port().immediate_data_out = false;
  TestCommand first(Cdb10(0x2a, 0, 1), Bytes(512), 0, kSecond);
  TestCommand second(Cdb10(0x28, 0, 1), {}, 512, kSecond);
  target_.nexus().Submit(&first);
  target_.nexus().Submit(&second);
  EXPECT_EQ(second.status(), ScsiStatus::kTaskSetFull);
  target_.nexus().Settle();
  const auto statuses = target_.target()->LogicalUnitStatuses();
  EXPECT_EQ(statuses.at(1).commands.busy, 1u);
  EXPECT_EQ(statuses.at(1).commands.writes, 1u);
  EXPECT_EQ(statuses.at(0).commands.busy, 0u);
}

// Totals of a LUN outlive nexuses, and those of a nexus LUNs.
TEST_F(CommandCountersTest, TotalsStay) {
  target_.Run(Cdb10(0x28, 0, 8), {}, 4096);
  {
    TestNexus other(target_.target(), &target_.reactor(),
                    "iqn.2026-01.example:o,i,0x1");
    other.ClearUnitAttentions();
    TestCommand write(Cdb10(0x2a, 0, 8), Bytes(4096), 0);
    other.Run(&write);
    EXPECT_EQ(other.nexus()->Counts().writes, 1u);
    EXPECT_EQ(other.nexus()->Counts().reads, 0u);
  }
  EXPECT_EQ(Lu().reads, 1u);
  EXPECT_EQ(Lu().writes, 1u);
  EXPECT_EQ(Sum(Lu().write_latency()), 1u);
  EXPECT_EQ(Nexus().writes, 0u);
  ASSERT_TRUE(target_.target()->RemoveLogicalUnit(0).ok());
  target_.nexus().Settle();
  EXPECT_EQ(Nexus().reads, 1u);
  target_.Run(Cdb10(0x28, 0, 8), {}, 4096);
  EXPECT_EQ(Nexus().check_conditions, before_.check_conditions + 1)
      << "there is no such logical unit";
}

// ThreadSanitizer watches.
TEST_F(CommandCountersTest, AnyThreadMayLook) {
  std::atomic<bool> stop = false;
  std::thread operators([&] {
    CommandCounts last;
    while (!stop) {
      const CommandCounts now = Lu();
      EXPECT_GE(now.reads, last.reads);
      EXPECT_GE(now.read_latency().sum_ns, last.read_latency().sum_ns);
      last = now;
    }
  });
  for (int i = 0; i < 200; ++i) {
    TestNexus other(target_.target(), &target_.reactor(),
                    "iqn.2026-01.example:o,i,0x1");
    other.ClearUnitAttentions();
    TestCommand read(Cdb10(0x28, 0, 8), {}, 4096);
    other.Run(&read);
  }
  stop = true;
  operators.join();
  EXPECT_EQ(Lu().reads, 200u);
}

}  // namespace
}  // namespace skiff::scsi
