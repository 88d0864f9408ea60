#include "scsi/initiator/disk.h"

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/initiator/fake_command_port.h"
#include "scsi/initiator/run_until.h"
#include "scsi/initiator/scsi_error.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Op = DiskIo::Op;

constexpr uint8_t kRead10 = 0x28;
constexpr uint8_t kWrite10 = 0x2a;
constexpr FakeCommandPort::Answer kUnitAttention = {
    .status = 0x02,
    .key = SenseKey::kUnitAttention,
    .code = AdditionalSense::kCapacityDataHasChanged};
constexpr FakeCommandPort::Answer kBusy = {.status = 0x08};

// An I/O with its memory.
struct TestIo : DiskIo {
  explicit TestIo(Op op_arg, uint64_t offset_arg = 0, uint64_t length_arg = 0,
                  std::string data_arg = "")
      : data(std::move(data_arg)), element{data.data(), data.size()} {
    op = op_arg;
    offset = offset_arg;
    length = length_arg;
    iov = &element;
    iov_count = 1;
    done = [](DiskIo* io) { ++static_cast<TestIo*>(io)->completions; };
  }
  TestIo(const TestIo&) = delete;
  TestIo& operator=(const TestIo&) = delete;

  std::string data;
  iovec element;
  int completions = 0;
};

class DiskTest : public ::testing::Test {
 protected:
  void Create() {
    auto disk = Disk::Create(&port_, reactor_.get(), options_);
    ASSERT_TRUE(disk.ok()) << disk.status();
    disk_ = *std::move(disk);
  }
  absl::Status Open() {
    if (disk_ == nullptr) Create();
    absl::Status result = absl::UnknownError("still opening");
    disk_->Open([&result](absl::Status status) { result = std::move(status); });
    EXPECT_TRUE(RunUntil(
        reactor_.get(),
        [&result] { return result.code() != absl::StatusCode::kUnknown; },
        absl::Seconds(20)));
    return result;
  }
  absl::Status Run(TestIo* io) {
    const int before = io->completions;
    disk_->Submit(io);
    EXPECT_EQ(io->completions, before) << "done ran inside Submit()";
    EXPECT_TRUE(RunUntil(
        reactor_.get(), [&] { return io->completions > before; },
        absl::Seconds(20)));
    EXPECT_EQ(io->completions, before + 1);
    return io->status;
  }
  absl::Status Write(uint64_t offset, const std::string& data) {
    TestIo io(Op::kWrite, offset, data.size(), data);
    return Run(&io);
  }

  std::unique_ptr<transport::EpollReactor> reactor_ =
      *transport::EpollReactor::Create();
  FakeCommandPort port_{reactor_.get()};
  DiskOptions options_;
  std::unique_ptr<Disk> disk_;
};

TEST_F(DiskTest, ReadsAndWrites) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Write(4096, std::string(1024, 'w')).ok());
  EXPECT_EQ(port_.Content(8, 2), std::string(1024, 'w'));
  TestIo read(Op::kRead, 4096, 1024, std::string(1024, '?'));
  EXPECT_TRUE(Run(&read).ok());
  EXPECT_EQ(read.data, std::string(1024, 'w'));
  TestIo flush(Op::kFlush);
  EXPECT_TRUE(Run(&flush).ok());
  EXPECT_EQ(port_.log().back(), "SYNCHRONIZE CACHE (10) 0+0");
  TestIo empty(Op::kRead);
  EXPECT_TRUE(Run(&empty).ok());
}

TEST_F(DiskTest, SplitsLongTransfersAndRunsThemTogether) {
  options_.max_transfer_bytes = 4096;
  options_.max_commands = 4;
  port_.newest_first = true;
  ASSERT_TRUE(Open().ok());
  std::string data(10 * 4096 + 512, '\0');
  std::mt19937 random(5);
  for (char& c : data) c = static_cast<char>(random());
  TestIo write(Op::kWrite, 512, data.size(), data);
  port_.hold = true;
  disk_->Submit(&write);
  EXPECT_EQ(port_.pending(), 4u) << "as many as may run";
  port_.hold = false;
  port_.Release();
  RunUntil(reactor_.get(), [&] { return write.completions > 0; });
  EXPECT_TRUE(write.status.ok()) << write.status;
  EXPECT_EQ(port_.CountOf("WRITE (10)"), 11u);
  EXPECT_EQ(port_.Content(1, 81), data);

  // Into memory that is scattered at odd places.
  TestIo read(Op::kRead, 512, data.size(), std::string(data.size() + 9, '?'));
  iovec iov[] = {{read.data.data(), 5000},
                 {read.data.data() + 5000, 0},
                 {read.data.data() + 5000, 1},
                 {read.data.data() + 5001, read.data.size() - 5001}};
  read.iov = iov;
  read.iov_count = 4;
  EXPECT_TRUE(Run(&read).ok());
  EXPECT_EQ(read.data, data + std::string(9, '?'));
}

TEST_F(DiskTest, SplitsAtTheDisksLimit) {
  port_.disk.max_transfer_blocks = 3;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(disk_->info().max_transfer_bytes, 3u * 512);
  EXPECT_TRUE(Write(0, std::string(4096, 'w')).ok());
  EXPECT_EQ(port_.CountOf("WRITE (10)"), 3u);
  EXPECT_EQ(port_.Content(0, 8), std::string(4096, 'w'));
}

TEST_F(DiskTest, MemoryInTooManyPieces) {
  ASSERT_TRUE(Open().ok());
  // One command takes any number of pieces.
  std::string data(4096, 'w');
  std::vector<iovec> iov;
  for (size_t at = 0; at < data.size(); at += 8) {
    iov.push_back({data.data() + at, 8});
  }
  TestIo write(Op::kWrite, 0, 4096);
  write.iov = iov.data();
  write.iov_count = static_cast<int>(iov.size());
  EXPECT_TRUE(Run(&write).ok());
  EXPECT_EQ(port_.Content(0, 8), data);
  // Part of them only so many for each block.
  write.length = 2048;
  EXPECT_EQ(Run(&write).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(write.status.message()),
              HasSubstr("more than 32 pieces"));
}

TEST_F(DiskTest, RefusesMistakes) {
  Create();
  TestIo early(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_EQ(Run(&early).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Open().ok());
  TestIo odd(Op::kRead, 100, 512, std::string(512, '?'));
  EXPECT_THAT(std::string(Run(&odd).message()),
              HasSubstr("multiples of the block size, 512"));
  const uint64_t size = disk_->info().size_bytes;
  TestIo beyond(Op::kRead, size - 512, 1024, std::string(1024, '?'));
  EXPECT_EQ(Run(&beyond).code(), absl::StatusCode::kOutOfRange);
  TestIo wraps(Op::kUnmap, ~uint64_t{511}, 1024);
  EXPECT_EQ(Run(&wraps).code(), absl::StatusCode::kOutOfRange);
  TestIo small(Op::kWrite, 0, 1024, std::string(1023, '?'));
  EXPECT_THAT(std::string(Run(&small).message()),
              HasSubstr("shorter than 1024"));
  TestIo large(Op::kCompareAndWrite, 0, 9 * 512, std::string(18 * 512, '?'));
  EXPECT_THAT(std::string(Run(&large).message()),
              HasSubstr("4096 bytes at most, not 4608"));
}

TEST_F(DiskTest, ReportsErrorsWithDetails) {
  options_.max_transfer_bytes = 512;
  ASSERT_TRUE(Open().ok());
  port_.answers[kRead10] = {{},
                            {.status = 0x02,
                             .key = SenseKey::kMediumError,
                             .code = AdditionalSense::kUnrecoveredReadError}};
  TestIo read(Op::kRead, 4096, 2048, std::string(2048, '?'));
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status.message()),
              HasSubstr("READ (10): CHECK CONDITION: MEDIUM ERROR"));
  EXPECT_THAT(std::string(read.status.message()), HasSubstr("byte 4608"));
  ASSERT_TRUE(GetScsiError(read.status).has_value());
  EXPECT_EQ(GetScsiError(read.status)->sense->key, SenseKey::kMediumError);
}

TEST_F(DiskTest, IncompleteTransferIsAnError) {
  ASSERT_TRUE(Open().ok());
  port_.answers[kRead10] = {{.residual = 100}};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status.message()),
              HasSubstr("residual of 100 bytes"));
}

TEST_F(DiskTest, RecoveredErrorsAreToldAndCountAsSuccess) {
  int told = 0;
  options_.on_recovered_error = [&told](const SenseData& sense) {
    EXPECT_EQ(sense.key, SenseKey::kRecoveredError);
    ++told;
  };
  ASSERT_TRUE(Open().ok());
  const FakeCommandPort::Answer recovered = {.status = 0x02,
                                             .key = SenseKey::kRecoveredError};
  port_.answers[kRead10] = {recovered};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_TRUE(Run(&read).ok()) << read.status;
  EXPECT_EQ(told, 1);
  // Only with all of the data.
  FakeCommandPort::Answer short_one = recovered;
  short_one.residual = 100;
  port_.answers[kRead10] = {short_one};
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status.message()),
              HasSubstr("RECOVERED ERROR, but a residual of 100 bytes"));
  EXPECT_EQ(told, 2);
}

// A list of which nothing was taken was not carried out, either.
TEST_F(DiskTest, UntakenParametersAreAnError) {
  ASSERT_TRUE(Open().ok());
  TestIo unmap(Op::kUnmap, 0, 4096, "");
  port_.answers[0x42] = {{.residual = 24}};
  EXPECT_EQ(Run(&unmap).code(), absl::StatusCode::kDataLoss);
  port_.answers[0x42] = {{.residual = 8}};
  EXPECT_TRUE(Run(&unmap).ok()) << unmap.status;
}

TEST_F(DiskTest, RetriesWhatMayPass) {
  std::vector<AdditionalSense> seen;
  options_.on_unit_attention = [&seen](const SenseData& sense) {
    seen.push_back(sense.code);
  };
  options_.retry.first_delay = absl::Milliseconds(1);
  ASSERT_TRUE(Open().ok());
  port_.answers[kWrite10] = {kUnitAttention,
                             kBusy,
                             {.status = 0x28},  // TASK SET FULL.
                             {.status = 0x40},  // TASK ABORTED.
                             {.status = 0x02,
                              .key = SenseKey::kAbortedCommand,
                              .code = AdditionalSense::kDataPhaseError}};
  EXPECT_TRUE(Write(0, std::string(512, 'w')).ok());
  EXPECT_EQ(port_.CountOf("WRITE"), 6u);
  EXPECT_EQ(port_.Content(0, 1), std::string(512, 'w'));
  EXPECT_THAT(seen, ElementsAre(AdditionalSense::kCapacityDataHasChanged));
}

TEST_F(DiskTest, RetriesAreBounded) {
  options_.retry.max_retries = 3;
  options_.retry.first_delay = absl::Milliseconds(1);
  options_.retry.max_delay = absl::Milliseconds(2);
  ASSERT_TRUE(Open().ok());
  port_.answers[kWrite10].assign(100, kBusy);
  TestIo write(Op::kWrite, 0, 512, std::string(512, 'w'));
  const absl::Time start = transport::EpollReactor::MonotonicNow();
  EXPECT_EQ(Run(&write).code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(transport::EpollReactor::MonotonicNow() - start,
            absl::Milliseconds(5))
      << "1 + 2 + 2 ms of pauses";
  EXPECT_EQ(port_.CountOf("WRITE"), 4u);
  EXPECT_THAT(std::string(write.status.message()),
              HasSubstr("BUSY (tried 4 times)"));
  EXPECT_EQ(GetScsiError(write.status)->status, 0x08) << "payload is kept";
}

TEST_F(DiskTest, LostAnswersCostOneRetry) {
  ASSERT_TRUE(Open().ok());
  const FakeCommandPort::Answer none = {.outcome = Command::Outcome::kTimedOut};
  port_.answers[kWrite10] = {none};
  EXPECT_TRUE(Write(0, std::string(512, 'w')).ok());
  EXPECT_EQ(port_.CountOf("WRITE"), 2u);

  port_.answers[kRead10] = {none, none};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(port_.CountOf("READ (10)"), 2u);
  EXPECT_THAT(std::string(read.status.message()), HasSubstr("(tried 2 times)"));

  port_.answers[0x89] = {none};
  TestIo once(Op::kCompareAndWrite, 0, 512, std::string(1024, '\0'));
  EXPECT_EQ(Run(&once).code(), absl::StatusCode::kDeadlineExceeded)
      << "it may have been executed";
}

TEST_F(DiskTest, TimeoutsAreFinalWhereTheUserWantsIt) {
  options_.retry.max_timeouts = -1;
  EXPECT_EQ(Disk::Create(&port_, reactor_.get(), options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  options_.retry.max_timeouts = 0;
  ASSERT_TRUE(Open().ok());
  port_.answers[kRead10] = {{.outcome = Command::Outcome::kTimedOut}};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(port_.CountOf("READ (10)"), 1u);
}

// The target has not said that the first one has ended.
TEST_F(DiskTest, TimeoutsThatEndTheSessionAreFinal) {
  ASSERT_TRUE(Open().ok());
  port_.answers[kRead10] = {
      {.outcome = Command::Outcome::kTimedOutWithSession}};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(port_.CountOf("READ (10)"), 1u);
}

TEST_F(DiskTest, SurvivesAResetForAnothersSake) {
  ASSERT_TRUE(Open().ok());
  port_.answers[kWrite10] = {{.outcome = Command::Outcome::kAborted}};
  EXPECT_TRUE(Write(0, std::string(512, 'w')).ok());
  EXPECT_EQ(port_.CountOf("WRITE"), 2u);
  EXPECT_EQ(port_.Content(0, 1), std::string(512, 'w'));
}

TEST_F(DiskTest, CompareAndWrite) {
  ASSERT_TRUE(Open().ok());
  port_.SetContent(8, std::string(512, 'a'));
  TestIo io(Op::kCompareAndWrite, 4096, 512,
            std::string(512, 'a') + std::string(512, 'b'));
  EXPECT_TRUE(Run(&io).ok()) << io.status;
  EXPECT_EQ(Run(&io).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetScsiError(io.status)->sense->key, SenseKey::kMiscompare);
  EXPECT_EQ(port_.Content(8, 1), std::string(512, 'b'));
}

TEST_F(DiskTest, CompareAndWriteIsNotRepeatedBlindly) {
  ASSERT_TRUE(Open().ok());
  // It may have been executed: again it would find its own data.
  port_.answers[0x89] = {{.status = 0x02, .key = SenseKey::kAbortedCommand}};
  TestIo io(Op::kCompareAndWrite, 0, 512, std::string(1024, '\0'));
  EXPECT_EQ(Run(&io).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(port_.CountOf("COMPARE AND WRITE"), 1u);
  port_.answers[0x89] = {kUnitAttention};
  EXPECT_TRUE(Run(&io).ok()) << "a unit attention says it was not";
}

TEST_F(DiskTest, UnmapsInWholeGranules) {
  port_.disk.max_unmap_blocks = 20;
  ASSERT_TRUE(Open().ok());
  port_.SetContent(0, std::string(100 * 512, 'x'));
  TestIo unmap(Op::kUnmap, 3 * 512, 50 * 512);
  EXPECT_TRUE(Run(&unmap).ok()) << unmap.status;
  std::vector<std::string> unmaps;
  for (const std::string& line : port_.log()) {
    if (line.starts_with("UNMAP")) unmaps.push_back(line);
  }
  EXPECT_THAT(unmaps, ElementsAre("UNMAP 3+13", "UNMAP 16+16", "UNMAP 32+16",
                                  "UNMAP 48+5"));
  EXPECT_EQ(port_.Content(2, 52), std::string(512, 'x') +
                                      std::string(50 * 512, '\0') +
                                      std::string(512, 'x'));
}

TEST_F(DiskTest, UnmapsByWriteSameWhereThatIsAll) {
  port_.disk.unmap = false;
  ASSERT_TRUE(Open().ok());
  port_.SetContent(0, std::string(4096, 'x'));
  TestIo unmap(Op::kUnmap, 0, 2048);
  EXPECT_TRUE(Run(&unmap).ok());
  EXPECT_EQ(port_.log().back(), "WRITE SAME (16) 0+4");
  EXPECT_EQ(port_.Content(0, 4), std::string(2048, '\0'));
}

TEST_F(DiskTest, UnmapUnsupported) {
  port_.disk.unmap = false;
  port_.disk.write_same_unmap = false;
  ASSERT_TRUE(Open().ok());
  EXPECT_FALSE(disk_->info().unmap);
  TestIo unmap(Op::kUnmap, 0, 2048);
  EXPECT_EQ(Run(&unmap).code(), absl::StatusCode::kUnimplemented);
}

TEST_F(DiskTest, WritesZeroes) {
  port_.disk.max_write_same_blocks = 1000;
  ASSERT_TRUE(Open().ok());
  port_.SetContent(0, std::string(3000 * 512, 'x'));
  TestIo zero(Op::kWriteZeroes, 512, 2500 * 512);
  EXPECT_TRUE(Run(&zero).ok()) << zero.status;
  EXPECT_EQ(port_.CountOf("WRITE SAME (16)"), 3u);
  EXPECT_EQ(port_.Content(0, 2502), std::string(512, 'x') +
                                        std::string(2500 * 512, '\0') +
                                        std::string(512, 'x'));
}

TEST_F(DiskTest, WritesZeroesWithoutWriteSame) {
  port_.disk.write_same = false;
  port_.disk.max_write_same_blocks = 100;
  ASSERT_TRUE(Open().ok());
  port_.SetContent(0, std::string(5000 * 512, 'x'));
  TestIo zero(Op::kWriteZeroes, 512, 4500 * 512);
  EXPECT_TRUE(Run(&zero).ok()) << zero.status;
  EXPECT_EQ(port_.Content(0, 4502), std::string(512, 'x') +
                                        std::string(4500 * 512, '\0') +
                                        std::string(512, 'x'));
  const size_t tried = port_.CountOf("WRITE SAME");
  EXPECT_TRUE(Run(&zero).ok());
  EXPECT_EQ(port_.CountOf("WRITE SAME"), tried) << "remembered";
}

TEST_F(DiskTest, FuaWithAndWithoutTheDisksHelp) {
  ASSERT_TRUE(Open().ok());
  TestIo write(Op::kWrite, 0, 512, std::string(512, 'w'));
  write.fua = true;
  EXPECT_TRUE(Run(&write).ok());
  EXPECT_EQ(port_.CountOf("SYNCHRONIZE"), 0u);
  TestIo zero(Op::kWriteZeroes, 0, 512);
  zero.fua = true;
  EXPECT_TRUE(Run(&zero).ok());
  EXPECT_EQ(port_.CountOf("SYNCHRONIZE"), 1u) << "WRITE SAME has no FUA";

  port_.disk.dpo_fua = false;
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Run(&write).ok());
  EXPECT_EQ(port_.CountOf("SYNCHRONIZE"), 2u);
  EXPECT_TRUE(port_.log().back().starts_with("SYNCHRONIZE"));

  port_.disk.write_cache = false;
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Run(&write).ok());
  EXPECT_EQ(port_.CountOf("SYNCHRONIZE"), 2u) << "stable anyway";
  port_.disk.synchronize_cache = false;
  TestIo flush(Op::kFlush);
  EXPECT_TRUE(Run(&flush).ok()) << "nothing to flush";
}

TEST_F(DiskTest, CancelEndsOneIo) {
  options_.max_transfer_bytes = 512;
  options_.max_commands = 2;
  ASSERT_TRUE(Open().ok());
  port_.hold = true;
  TestIo first(Op::kRead, 0, 4096, std::string(4096, '?'));
  TestIo second(Op::kRead, 0, 512, std::string(512, '?'));
  disk_->Submit(&first);
  disk_->Submit(&second);
  disk_->Cancel(&first);
  port_.hold = false;
  RunUntil(reactor_.get(), [&] { return second.completions > 0; });
  EXPECT_EQ(first.completions, 1);
  EXPECT_EQ(first.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(second.status.ok()) << second.status;
  disk_->Cancel(&first);  // Too late: nothing happens.
  EXPECT_EQ(first.completions, 1);
}

TEST_F(DiskTest, CancelEndsAPause) {
  options_.retry.first_delay = absl::Hours(1);
  options_.retry.max_delay = absl::Hours(1);
  ASSERT_TRUE(Open().ok());
  port_.answers[kRead10] = {kBusy};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  disk_->Submit(&read);
  RunUntil(reactor_.get(), [&] { return port_.pending() == 0; });
  disk_->Cancel(&read);
  EXPECT_EQ(read.completions, 1);
  EXPECT_EQ(read.status.code(), absl::StatusCode::kCancelled);
}

TEST_F(DiskTest, CloseEndsEverything) {
  options_.max_commands = 2;
  ASSERT_TRUE(Open().ok());
  port_.hold = true;
  std::deque<TestIo> ios;
  for (int i = 0; i < 5; ++i) {
    ios.emplace_back(Op::kRead, 0, 512, std::string(512, '?'));
    disk_->Submit(&ios.back());
  }
  disk_->Close();
  RunUntil(reactor_.get(), [&] {
    for (const TestIo& io : ios) {
      if (io.completions == 0) return false;
    }
    return true;
  });
  for (const TestIo& io : ios) {
    EXPECT_EQ(io.completions, 1);
    EXPECT_EQ(io.status.code(), absl::StatusCode::kCancelled);
  }
  TestIo late(Op::kRead, 0, 512, std::string(512, '?'));
  disk_->Submit(&late);
  EXPECT_EQ(late.completions, 0);
  EXPECT_EQ(Open().code(), absl::StatusCode::kFailedPrecondition);
  disk_.reset();
  EXPECT_EQ(late.completions, 1) << "at the latest by the destructor";
}

TEST_F(DiskTest, LostSessionFailsWithoutRetry) {
  ASSERT_TRUE(Open().ok());
  port_.answers[kRead10] = {{.outcome = Command::Outcome::kConnectionLost}};
  TestIo read(Op::kRead, 0, 512, std::string(512, '?'));
  EXPECT_EQ(Run(&read).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(port_.CountOf("READ (10)"), 1u);
}

TEST_F(DiskTest, CompletionMaySubmitAgain) {
  options_.max_commands = 1;
  ASSERT_TRUE(Open().ok());
  struct Again {
    Disk* disk;
    int left;
  } again = {disk_.get(), 20};
  TestIo io(Op::kRead, 0, 512, std::string(512, '?'));
  io.context = &again;
  io.done = [](DiskIo* ended) {
    auto* a = static_cast<Again*>(ended->context);
    if (--a->left > 0) a->disk->Submit(ended);
  };
  disk_->Submit(&io);
  EXPECT_TRUE(RunUntil(
      reactor_.get(), [&] { return again.left == 0; }, absl::Seconds(20)));
  EXPECT_EQ(port_.CountOf("READ (10)"), 20u);
}

TEST_F(DiskTest, RandomIoAgreesWithAModel) {
  constexpr uint64_t kRegion = 64;  // Blocks; one I/O at a time in each.
  options_.max_transfer_bytes = 5 * 512;
  options_.max_commands = 7;
  options_.retry.first_delay = absl::Microseconds(10);
  options_.retry.max_delay = absl::Microseconds(100);
  port_.newest_first = true;
  port_.disk.max_unmap_blocks = 16;
  port_.disk.max_write_same_blocks = 9;
  ASSERT_TRUE(Open().ok());
  std::mt19937 random(23);
  std::string model(16 * kRegion * 512, '\0');
  for (int round = 0; round < 100; ++round) {
    for (const uint8_t opcode : {kRead10, kWrite10}) {
      port_.answers[opcode].assign(random() % 4,
                                   random() % 2 ? kBusy : kUnitAttention);
    }
    std::deque<TestIo> ios;
    for (uint64_t region = 0; region < 16; ++region) {
      constexpr Op kOps[] = {Op::kRead, Op::kWrite, Op::kUnmap,
                             Op::kWriteZeroes};
      const Op op = kOps[random() % 4];
      const uint64_t first = random() % kRegion;
      const uint64_t length = (1 + random() % (kRegion - first)) * 512;
      const uint64_t offset = (region * kRegion + first) * 512;
      TestIo& io = ios.emplace_back(
          op, offset, length, std::string(length, static_cast<char>(random())));
      if (op == Op::kWrite) model.replace(offset, length, io.data);
      if (op == Op::kUnmap || op == Op::kWriteZeroes) {
        model.replace(offset, length, std::string(length, '\0'));
      }
      disk_->Submit(&io);
    }
    ASSERT_TRUE(RunUntil(
        reactor_.get(),
        [&] {
          for (const TestIo& io : ios) {
            if (io.completions == 0) return false;
          }
          return true;
        },
        absl::Seconds(20)));
    for (const TestIo& io : ios) {
      ASSERT_TRUE(io.status.ok()) << io.status;
      if (io.op == Op::kRead) {
        ASSERT_EQ(io.data, model.substr(io.offset, io.length));
      }
    }
  }
  EXPECT_EQ(port_.Content(0, 16 * kRegion), model);
}

// Submits itself again whenever it is done, whatever came of it.
struct Endless : TestIo {
  Endless(Disk* disk_arg, uint64_t offset)
      : TestIo(Op::kWrite, offset, 512, std::string(512, 'x')), disk(disk_arg) {
    done = [](DiskIo* io) {
      auto* self = static_cast<Endless*>(io);
      ++self->completions;
      if (!self->stop) self->disk->Submit(self);
    };
  }
  Disk* disk;
  bool stop = false;
};

TEST_F(DiskTest, WhatIsSubmittedAgainDoesNotKeepATurnFromEnding) {
  ASSERT_TRUE(Open().ok());
  for (const bool closed : {false, true}) {
    SCOPED_TRACE(closed ? "closed" : "misaligned");
    if (closed) disk_->Close();
    Endless io(disk_.get(), 1);
    disk_->Submit(&io);
    for (int turn = 0; turn < 100; ++turn) reactor_->Poll();
    EXPECT_FALSE(io.status.ok());
    EXPECT_GE(io.completions, 100);
    io.stop = true;
    const int before = io.completions;
    ASSERT_TRUE(RunUntil(
        reactor_.get(), [&] { return io.completions > before; },
        absl::Seconds(20)));
  }
}

}  // namespace
}  // namespace skiff::scsi
