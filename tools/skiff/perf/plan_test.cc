#include "tools/skiff/perf/plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCapacity = 1 << 20;
constexpr uint32_t kMaxTransfer = 65536;

TEST(ParseWorkloadTest, KnowsFiosWords) {
  struct {
    const char* rw;
    bool random;
    uint32_t read_percent;
  } const cases[] = {{"read", false, 100},    {"write", false, 0},
                     {"rw", false, 30},       {"readwrite", false, 30},
                     {"randread", true, 100}, {"randwrite", true, 0},
                     {"randrw", true, 30}};
  for (const auto& c : cases) {
    PerfOptions options;
    options.rw = c.rw;
    options.read_percent = 30;
    const auto workload = ParseWorkload(options);
    ASSERT_TRUE(workload.ok()) << c.rw;
    EXPECT_EQ(workload->random, c.random) << c.rw;
    EXPECT_EQ(workload->read_percent, c.read_percent) << c.rw;
  }
  for (const char* rw : {"", "rand", "randreadwrite", "trim", "Read"}) {
    PerfOptions options;
    options.rw = rw;
    const auto workload = ParseWorkload(options);
    EXPECT_EQ(ExitCodeOf(workload.status()), ExitCode::kUsage) << rw;
  }
}

TEST(PlanJobsTest, DividesTheRange) {
  PerfOptions options;
  options.jobs = 3;
  options.depth = 4;
  options.offset = 4096;
  options.size = 100 * 4096;
  options.seed = 10;
  const auto jobs =
      PlanJobs(options, Workload{true, 70}, 512, kCapacity, kMaxTransfer);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const PerfJobOptions& job = (*jobs)[i];
    EXPECT_EQ(job.size, 33u * 4096);
    EXPECT_EQ(job.offset, 4096 + i * 33 * 4096);
    EXPECT_EQ(job.depth, 4u);
    EXPECT_EQ(job.seed, 10 + i);
    EXPECT_TRUE(job.random);
    EXPECT_EQ(job.read_percent, 70u);
  }
}

TEST(PlanJobsTest, TakesTheWholeUnitByDefault) {
  PerfOptions options;
  options.offset = 8192;
  const auto jobs = PlanJobs(options, Workload{}, 512, kCapacity, kMaxTransfer);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_EQ((*jobs)[0].size, kCapacity - 8192);
}

TEST(PlanJobsTest, SaysWhichLimitIsBroken) {
  struct {
    PerfOptions options;
    std::string problem;
  } cases[] = {
      {{}, "--bs 1000 must be a multiple of the block size, 512"},
      {{},
       "--bs 128 KiB is more than the logical unit takes in one command, "
       "64 KiB"},
      {{}, "--offset 100 must be a multiple of the block size, 512"},
      {{},
       "--offset and --size go beyond the end of the logical unit, which "
       "has 1048576 bytes"},
      {{}, "--iodepth must be 1 to 65536 and --numjobs at least 1"},
      {{},
       "the range of 1 MiB has 128 pieces of --bs for each job, fewer than "
       "--iodepth 129"},
  };
  cases[0].options.io_bytes = 1000;
  cases[1].options.io_bytes = 131072;
  cases[2].options.offset = 100;
  cases[3].options.size = kCapacity + 512;
  cases[4].options.depth = 0;
  cases[5].options.depth = 129;
  cases[5].options.jobs = 2;
  for (const auto& c : cases) {
    const auto jobs =
        PlanJobs(c.options, Workload{}, 512, kCapacity, kMaxTransfer);
    ASSERT_FALSE(jobs.ok()) << c.problem;
    EXPECT_THAT(std::string(jobs.status().message()), HasSubstr(c.problem));
    EXPECT_EQ(ExitCodeOf(jobs.status()), ExitCode::kUsage);
  }
}

TEST(PlanJobsTest, BoundsItsMemory) {
  PerfOptions options;
  options.verify = "crc32c";
  options.io_bytes = 512;
  EXPECT_THAT(std::string(PlanJobs(options, Workload{}, 512, uint64_t{1} << 40,
                                   kMaxTransfer)
                              .status()
                              .message()),
              HasSubstr("--verify would need 16 GiB of memory"));
  options = {};
  options.io_bytes = 1 << 20;
  options.depth = 65536;
  EXPECT_THAT(
      std::string(PlanJobs(options, Workload{}, 512, uint64_t{1} << 40, 1 << 20)
                      .status()
                      .message()),
      HasSubstr("need 64 GiB of buffers"));
}

TEST(SummarizeLatencyTest, CountsInMicrosecondsAndMillionsOfBytes) {
  Histogram nanos;
  for (int i = 1; i <= 100; ++i) nanos.Add(static_cast<uint64_t>(i) * 1000);
  const LatencyReport report = SummarizeLatency(nanos, 4096, 0.5);
  EXPECT_EQ(report.ios, 100u);
  EXPECT_DOUBLE_EQ(report.iops, 200);
  EXPECT_DOUBLE_EQ(report.megabytes_per_second, 0.8192);
  EXPECT_DOUBLE_EQ(report.mean_us, 50.5);
  EXPECT_DOUBLE_EQ(report.min_us, 1);
  EXPECT_DOUBLE_EQ(report.max_us, 100);
  ASSERT_EQ(report.percentiles_us.size(), 5u);
  EXPECT_EQ(report.percentiles_us[0].first, "p50");
  EXPECT_NEAR(report.percentiles_us[0].second, 50, 0.5);
  EXPECT_EQ(report.percentiles_us[3].first, "p99.9");
}

}  // namespace
}  // namespace skiff::tools
