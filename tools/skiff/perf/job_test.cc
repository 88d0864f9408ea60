#include "tools/skiff/perf/job.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/sense.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kBlock = 512;

// A disk in memory, which completes commands in the order of a dice.
class MemoryDisk : public scsi::CommandPort {
 public:
  explicit MemoryDisk(size_t bytes) : bytes_(bytes) {}

  void Submit(scsi::Command* command) override {
    pending_.push_back(command);
    max_pending = std::max(max_pending, pending_.size());
    ++submitted;
  }
  void Abort(scsi::Command*) override {}

  // Completes one command; false when there is none.
  bool RunOne() {
    if (pending_.empty()) return false;
    dice_ = dice_ * 6364136223846793005u + 1442695040888963407u;
    std::swap(pending_[(dice_ >> 33) % pending_.size()], pending_.back());
    scsi::Command* command = pending_.back();
    pending_.pop_back();
    command->outcome = scsi::Command::Outcome::kCompleted;
    command->status = 0;
    command->residual = 0;
    if (before_each == nullptr || before_each(command)) Transfer(command);
    command->done(command);
    return true;
  }
  void RunAll() {
    while (RunOne()) {
    }
  }

  static uint64_t Lba(const scsi::Command& command) {
    uint64_t lba = 0;  // READ (10) and WRITE (10).
    for (int i = 2; i < 6; ++i) lba = lba << 8 | command.cdb[i];
    return lba;
  }

  std::vector<uint64_t> lbas_read;
  std::vector<uint64_t> lbas_written;
  size_t max_pending = 0;
  uint64_t submitted = 0;
  // Returns false to keep the command from doing anything.
  std::function<bool(scsi::Command*)> before_each;
  std::vector<uint8_t>& medium() { return bytes_; }

 private:
  void Transfer(scsi::Command* command) {
    const uint64_t lba = Lba(*command);
    uint8_t* at = bytes_.data() + lba * kBlock;
    if (command->data_in_length > 0) {
      lbas_read.push_back(lba);
      std::memcpy(command->data_in->iov_base, at, command->data_in_length);
    } else {
      lbas_written.push_back(lba);
      std::memcpy(at, command->data_out->iov_base, command->data_out_length);
    }
  }

  std::vector<uint8_t> bytes_;
  std::vector<scsi::Command*> pending_;
  uint64_t dice_ = 1;
};

PerfJobOptions Options() {
  PerfJobOptions options;
  options.offset = 8192;
  options.size = 64 * 4096;
  options.io_bytes = 4096;
  options.depth = 8;
  options.run = 42;
  return options;
}

// Runs a pass to its end.
const PerfJobResult& RunPass(PerfJob* job, MemoryDisk* disk,
                             PerfJob::Pass pass = PerfJob::Pass::kWorkload) {
  bool done = false;
  job->Start(pass, absl::ZeroDuration(), [&] { done = true; });
  disk->RunAll();
  EXPECT_TRUE(done) << "the job hangs";
  return job->result();
}

TEST(PerfJobTest, ReadsTheRangeOnceInOrder) {
  MemoryDisk disk(1 << 20);
  PerfJob job(Options(), &disk);
  const PerfJobResult& result = RunPass(&job, &disk);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.read_nanos.count(), 64u);
  EXPECT_EQ(result.write_nanos.count(), 0u);
  EXPECT_EQ(disk.max_pending, 8u);
  const std::set<uint64_t> lbas(disk.lbas_read.begin(), disk.lbas_read.end());
  EXPECT_EQ(lbas.size(), 64u);
  EXPECT_EQ(*lbas.begin(), 16u);
  EXPECT_EQ(*lbas.rbegin(), 16u + 63 * 8);
}

TEST(PerfJobTest, StopsWithWhatIsInFlight) {
  MemoryDisk disk(1 << 20);
  PerfJob job(Options(), &disk);
  bool done = false;
  job.Start(PerfJob::Pass::kWorkload, absl::Hours(1), [&] { done = true; });
  for (int i = 0; i < 100; ++i) disk.RunOne();
  job.Stop();
  disk.RunAll();
  EXPECT_TRUE(done);
  EXPECT_EQ(job.result().read_nanos.count(), 108u);
  // A pass that begins later is over at once.
  EXPECT_EQ(RunPass(&job, &disk).read_nanos.count(), 0u);
}

TEST(PerfJobTest, RandomStaysInItsRange) {
  MemoryDisk disk(1 << 20);
  PerfJobOptions options = Options();
  options.random = true;
  options.read_percent = 0;
  PerfJob job(options, &disk);
  EXPECT_EQ(RunPass(&job, &disk).write_nanos.count(), 64u);
  std::set<uint64_t> lbas(disk.lbas_written.begin(), disk.lbas_written.end());
  EXPECT_GT(lbas.size(), 20u);
  EXPECT_GE(*lbas.begin(), 16u);
  EXPECT_LE(*lbas.rbegin(), 16u + 63 * 8);
  EXPECT_FALSE(
      std::is_sorted(disk.lbas_written.begin(), disk.lbas_written.end()));
}

TEST(PerfJobTest, MixesAsAsked) {
  MemoryDisk disk(64 << 20);
  PerfJobOptions options = Options();
  options.size = 8192 * 4096;
  options.random = true;
  options.read_percent = 70;
  PerfJob job(options, &disk);
  const PerfJobResult& result = RunPass(&job, &disk);
  EXPECT_EQ(result.read_nanos.count() + result.write_nanos.count(), 8192u);
  EXPECT_NEAR(static_cast<double>(result.read_nanos.count()), 0.7 * 8192, 200);
}

TEST(PerfJobTest, GoesOnForTheRuntime) {
  MemoryDisk disk(1 << 20);
  PerfJob job(Options(), &disk);
  bool done = false;
  job.Start(PerfJob::Pass::kWorkload, absl::Milliseconds(50),
            [&] { done = true; });
  disk.RunAll();
  EXPECT_TRUE(done);
  EXPECT_GT(job.result().read_nanos.count(), 64u);
  EXPECT_GE(job.result().end_nanos - job.result().start_nanos, 50'000'000);
}

TEST(PerfJobTest, VerifiesWhatItWrote) {
  for (const bool random : {false, true}) {
    MemoryDisk disk(1 << 20);
    PerfJobOptions options = Options();
    options.random = random;
    options.read_percent = 0;
    options.verify = true;
    PerfJob job(options, &disk);
    EXPECT_EQ(RunPass(&job, &disk).error, "");
    const std::set<uint64_t> written(disk.lbas_written.begin(),
                                     disk.lbas_written.end());
    disk.lbas_read.clear();
    const PerfJobResult& result =
        RunPass(&job, &disk, PerfJob::Pass::kReadBack);
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.verified, written.size());
    EXPECT_EQ(std::set<uint64_t>(disk.lbas_read.begin(), disk.lbas_read.end()),
              written);
  }
}

TEST(PerfJobTest, VerifiesMixedWorkloadsAfterFilling) {
  MemoryDisk disk(1 << 20);
  PerfJobOptions options = Options();
  options.depth = 64;  // Every block can be busy.
  options.random = true;
  options.read_percent = 50;
  options.verify = true;
  PerfJob job(options, &disk);
  EXPECT_EQ(RunPass(&job, &disk, PerfJob::Pass::kFill).error, "");
  EXPECT_EQ(disk.lbas_written.size(), 64u);
  bool done = false;
  job.Start(PerfJob::Pass::kWorkload, absl::Milliseconds(100),
            [&] { done = true; });
  disk.RunAll();
  ASSERT_TRUE(done);
  EXPECT_EQ(job.result().error, "");
  EXPECT_GT(job.result().verified, 0u);
  EXPECT_EQ(RunPass(&job, &disk, PerfJob::Pass::kReadBack).verified, 64u);
}

TEST(PerfJobTest, FindsALostWrite) {
  MemoryDisk disk(1 << 20);
  PerfJobOptions options = Options();
  options.read_percent = 0;
  options.verify = true;
  {
    PerfJob before(options, &disk);
    ASSERT_EQ(RunPass(&before, &disk).error, "");
  }
  options.run = 43;
  PerfJob job(options, &disk);
  disk.before_each = [](scsi::Command* command) {
    return MemoryDisk::Lba(*command) != 16 + 8 * 8;
  };
  ASSERT_EQ(RunPass(&job, &disk).error, "");
  disk.before_each = nullptr;
  const PerfJobResult& result = RunPass(&job, &disk, PerfJob::Pass::kReadBack);
  EXPECT_EQ(result.error,
            "offset 40960: holds the block of an earlier run; the write was "
            "lost");
  EXPECT_TRUE(result.verify_failed);
}

// Each buffer still holds what was written to the very block that it is to
// receive.
TEST(PerfJobTest, FindsReadsThatBringNothing) {
  MemoryDisk disk(1 << 20);
  PerfJobOptions options = Options();
  options.depth = 1;
  options.size = options.io_bytes;
  options.read_percent = 0;
  options.verify = true;
  PerfJob job(options, &disk);
  ASSERT_EQ(RunPass(&job, &disk).error, "");
  disk.before_each = [](scsi::Command*) { return false; };
  EXPECT_TRUE(RunPass(&job, &disk, PerfJob::Pass::kReadBack).verify_failed);
}

TEST(PerfJobTest, FindsDamageWrittenByAnEarlierRun) {
  MemoryDisk disk(1 << 20);
  PerfJobOptions options = Options();
  options.read_percent = 0;
  options.verify = true;
  PerfJob writer(options, &disk);
  ASSERT_EQ(RunPass(&writer, &disk).error, "");

  options.read_percent = 100;
  options.run = 77;
  {
    PerfJob reader(options, &disk);
    EXPECT_EQ(RunPass(&reader, &disk).error, "");
    EXPECT_EQ(reader.result().verified, 64u);
  }
  disk.medium()[8192 + 5000] ^= 1;
  PerfJob reader(options, &disk);
  EXPECT_THAT(RunPass(&reader, &disk).error,
              HasSubstr("offset 12288: the checksum is wrong"));
}

TEST(PerfJobTest, StopsAtTheFirstError) {
  MemoryDisk disk(1 << 20);
  disk.before_each = [](scsi::Command* command) {
    command->status = 0x02;
    command->sense_length = static_cast<uint8_t>(
        scsi::EncodeSense({scsi::SenseKey::kMediumError,
                           scsi::AdditionalSense::kUnrecoveredReadError},
                          scsi::SenseFormat::kFixed, command->sense.data()));
    return false;
  };
  PerfJob job(Options(), &disk);
  const PerfJobResult& result = RunPass(&job, &disk);
  EXPECT_THAT(result.error, HasSubstr("MEDIUM ERROR"));
  EXPECT_FALSE(result.verify_failed);
  EXPECT_EQ(disk.submitted, 8u);
}

TEST(PerfJobTest, CountsRecoveredErrorsAsSuccess) {
  MemoryDisk disk(1 << 20);
  int left = 3;
  bool short_one = false;
  disk.before_each = [&](scsi::Command* command) {
    if (left == 0) return true;
    --left;
    command->status = 0x02;
    command->underflow = short_one;
    command->residual = short_one ? 512 : 0;
    command->sense_length = static_cast<uint8_t>(scsi::EncodeSense(
        {scsi::SenseKey::kRecoveredError, scsi::AdditionalSense::kNone},
        scsi::SenseFormat::kFixed, command->sense.data()));
    return false;
  };
  PerfJob job(Options(), &disk);
  EXPECT_EQ(RunPass(&job, &disk).error, "");
  EXPECT_EQ(disk.submitted, 64u);
  EXPECT_EQ(job.result().read_nanos.count(), 64u);
  EXPECT_EQ(job.result().recovered, 3u);
  // Without all of its data it is none.
  left = 1;
  short_one = true;
  PerfJob other(Options(), &disk);
  EXPECT_NE(RunPass(&other, &disk).error.find("512 bytes untransferred"),
            std::string::npos);
}

TEST(PerfJobTest, RepeatsAfterAUnitAttention) {
  MemoryDisk disk(1 << 20);
  int left = 3;
  disk.before_each = [&left](scsi::Command* command) {
    if (left == 0) return true;
    --left;
    command->status = 0x02;
    command->sense_length = static_cast<uint8_t>(scsi::EncodeSense(
        {scsi::SenseKey::kUnitAttention, scsi::AdditionalSense::kPowerOn},
        scsi::SenseFormat::kFixed, command->sense.data()));
    return false;
  };
  PerfJob job(Options(), &disk);
  EXPECT_EQ(RunPass(&job, &disk).error, "");
  EXPECT_EQ(disk.submitted, 67u);
  EXPECT_EQ(job.result().read_nanos.count(), 64u);
  EXPECT_EQ(job.result().interrupted, 3u);
  EXPECT_EQ(job.result().unanswered, 0u);
}

TEST(PerfJobTest, RepeatsOnceWhatWasNotAnswered) {
  MemoryDisk disk(1 << 20);
  // The first attempts for two blocks.
  std::set<uint64_t> lost;
  disk.before_each = [&lost](scsi::Command* command) {
    const uint64_t lba = MemoryDisk::Lba(*command);
    if (lba > 24 || !lost.insert(lba).second) return true;
    command->outcome = scsi::Command::Outcome::kTimedOut;
    return false;
  };
  PerfJob job(Options(), &disk);
  EXPECT_EQ(RunPass(&job, &disk).error, "");
  EXPECT_EQ(disk.submitted, 66u);
  EXPECT_EQ(job.result().read_nanos.count(), 64u);
  EXPECT_EQ(job.result().unanswered, 2u);
  EXPECT_EQ(job.result().interrupted, 0u);

  disk.before_each = [](scsi::Command* command) {
    if (MemoryDisk::Lba(*command) > 16) return true;
    command->outcome = scsi::Command::Outcome::kTimedOut;
    return false;
  };
  EXPECT_THAT(RunPass(&job, &disk).error, HasSubstr("no answer in time"));
  EXPECT_EQ(job.result().unanswered, 1u);
}

TEST(PerfJobTest, RepeatsNothingOnceItHasFailed) {
  MemoryDisk disk(1 << 20);
  bool first = true;
  disk.before_each = [&first](scsi::Command* command) {
    command->outcome = std::exchange(first, false)
                           ? scsi::Command::Outcome::kTimedOutWithSession
                           : scsi::Command::Outcome::kTimedOut;
    return false;
  };
  PerfJob job(Options(), &disk);
  EXPECT_THAT(RunPass(&job, &disk).error, HasSubstr("no answer in time, and"));
  EXPECT_EQ(disk.submitted, 8u);
}

TEST(PerfJobTest, ARepeatedReadHasToMoveData) {
  MemoryDisk disk(1 << 20);
  PerfJobOptions options = Options();
  options.depth = 1;
  options.verify = true;
  options.read_percent = 0;
  EXPECT_EQ(
      RunPass(std::make_unique<PerfJob>(options, &disk).get(), &disk).error,
      "");
  // Moves the data and loses the answer, then says GOOD and moves nothing.
  int attempt = 0;
  disk.before_each = [&](scsi::Command* command) {
    if (attempt++ > 0) return false;
    const size_t at = MemoryDisk::Lba(*command) * kBlock;
    std::memcpy(command->data_in->iov_base, disk.medium().data() + at,
                command->data_in_length);
    command->outcome = scsi::Command::Outcome::kTimedOut;
    return false;
  };
  options.read_percent = 100;
  PerfJob job(options, &disk);
  EXPECT_TRUE(RunPass(&job, &disk).verify_failed);
  EXPECT_EQ(attempt, 2);
}

TEST(PerfJobTest, ReportsShortTransfers) {
  MemoryDisk disk(1 << 20);
  disk.before_each = [](scsi::Command* command) {
    command->residual = 512;
    return true;
  };
  PerfJob job(Options(), &disk);
  EXPECT_THAT(RunPass(&job, &disk).error,
              HasSubstr("the target left 512 bytes untransferred"));
}

}  // namespace
}  // namespace skiff::tools
