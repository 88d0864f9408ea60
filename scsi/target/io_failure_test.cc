// Failed operations of a medium: what is logged, counted and told.

#include "scsi/target/io_failure.h"

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;
using ::testing::SizeIs;
using testing::TestBackend;
using testing::TestReactor;
using testing::TestTarget;
using Op = IoRequest::Op;

class IoFailureTest : public ::testing::Test {
 protected:
  IoFailureTest() : IoFailureTest(transport::LogLimits()) {}
  explicit IoFailureTest(const transport::LogLimits& limits) {
    WorkerOptions worker = TestReactor::SmallPool();
    worker.log = [this](transport::LogLevel level, absl::string_view line) {
      EXPECT_EQ(level, transport::LogLevel::kError);
      log_.emplace_back(line);
    };
    worker.log_limits = limits;
    target_ = std::make_unique<TestTarget>(
        backend_, LogicalUnitOptions{.lun = 0}, worker);
  }

  // Runs a command that meets the failure.
  std::string Run(Op op, IoStatus status, int error, const Bytes& cdb,
                  const Bytes& data_out = {}, uint32_t room = 0) {
    backend_->failure = TestBackend::Failure{op, status, 1024, error};
    return Outcome(*target_->Run(cdb, data_out, room));
  }
  IoFailures Failures() {
    return target_->target()->LogicalUnitStatuses().at(0).failures;
  }

  static BackendInfo Info() {
    BackendInfo info = testing::ThinInfo(1024);
    info.volatile_write_cache = true;  // Or there is nothing to flush.
    return info;
  }

  std::shared_ptr<TestBackend> backend_ = std::make_shared<TestBackend>(Info());
  std::vector<std::string> log_;
  std::unique_ptr<TestTarget> target_;
};

TEST_F(IoFailureTest, EveryOperationIsLoggedCountedAndTold) {
  for (const auto completion :
       {TestBackend::Completion::kInline, TestBackend::Completion::kPosted}) {
    backend_->completion = completion;
    const std::string error = "MEDIUM ERROR";
    EXPECT_THAT(
        Run(Op::kRead, IoStatus::kReadError, EIO, Cdb10(0x28, 2, 8), {}, 4096),
        HasSubstr(error));
    EXPECT_THAT(Run(Op::kWrite, IoStatus::kNoSpace, ENOSPC, Cdb10(0x2a, 2, 8),
                    Bytes(4096)),
                HasSubstr("DATA PROTECT"));
    EXPECT_THAT(Run(Op::kFlush, IoStatus::kWriteError, EIO, Cdb10(0x35, 0, 0)),
                HasSubstr(error));
    Bytes list(24);
    list[1] = 22;
    list[3] = 16;
    list[15] = 1;  // LBA.
    list[19] = 8;  // Blocks.
    Bytes unmap(10);
    unmap[0] = 0x42;
    unmap[8] = 24;
    EXPECT_THAT(Run(Op::kUnmap, IoStatus::kGone, ENODEV, unmap, list),
                HasSubstr("NOT READY"));
    EXPECT_THAT(Run(Op::kWriteZeroes, IoStatus::kWriteError, EIO,
                    Cdb10(0x41, 0, 8), Bytes(512)),
                HasSubstr(error));
    Bytes compare = Cdb16(0x89, 0, 0);
    compare[13] = 1;
    EXPECT_THAT(Run(Op::kCompareAndWrite, IoStatus::kWriteError, 0, compare,
                    Bytes(1024)),
                HasSubstr(error));
  }
  const IoFailures failures = Failures();
  EXPECT_EQ(failures.reads, 2u);
  EXPECT_EQ(failures.writes, 2u);
  EXPECT_EQ(failures.flushes, 2u);
  EXPECT_EQ(failures.unmaps, 2u);
  EXPECT_EQ(failures.write_zeroes, 2u);
  EXPECT_EQ(failures.compare_and_writes, 2u);
  ASSERT_THAT(log_, SizeIs(12));
  const std::string who = "iqn.2026-01.example:t LUN 0: ";
  EXPECT_EQ(log_[0], who +
                         "read of 4096 bytes at byte 1024 failed: "
                         "Input/output error (failure 1 of this LUN)");
  EXPECT_EQ(log_[1], who +
                         "write of 4096 bytes at byte 1024 failed: No space "
                         "left on device (failure 2 of this LUN)");
  EXPECT_THAT(log_[2], HasSubstr("flush failed: Input/output error; data that "
                                 "were acknowledged may be lost"));
  EXPECT_THAT(log_[3], HasSubstr("unmap of 4096 bytes at byte 512 failed: No "
                                 "such device"));
  EXPECT_THAT(log_[5], HasSubstr("it cannot be written"));
  EXPECT_THAT(log_[11], HasSubstr("(failure 12 of this LUN)"));
}

TEST_F(IoFailureTest, AnswersAreNoFailures) {
  Bytes compare = Cdb16(0x89, 0, 0);
  compare[13] = 1;
  EXPECT_THAT(Outcome(*target_->Run(compare, Bytes(1024, 1))),
              HasSubstr("MISCOMPARE"));
  // The medium has no way to zero: zeroes are written.
  backend_->supports_write_zeroes = false;
  EXPECT_EQ(Outcome(*target_->Run(Cdb10(0x41, 0, 8), Bytes(512))), "GOOD");
  EXPECT_THAT(log_, IsEmpty());
  EXPECT_EQ(Failures().total(), 0u);
}

class LimitedIoFailureTest : public IoFailureTest {
 protected:
  LimitedIoFailureTest() : IoFailureTest({.burst = 3}) {}
};

TEST_F(LimitedIoFailureTest, ManyFailuresAreAFewLines) {
  for (int i = 0; i < 100; ++i) {
    Run(Op::kRead, IoStatus::kReadError, EIO, Cdb10(0x28, 0, 8), {}, 4096);
  }
  EXPECT_THAT(log_, SizeIs(3));
  EXPECT_EQ(Failures().reads, 100u);
  // Which hide no failures of another kind.
  Run(Op::kFlush, IoStatus::kWriteError, EIO, Cdb10(0x35, 0, 0));
  ASSERT_THAT(log_, SizeIs(4));
  EXPECT_THAT(log_[3], HasSubstr("flush failed"));
  target_.reset();
  EXPECT_THAT(log_.back(), HasSubstr("97 more were not logged like: "));
}

// Read or written, with or without memory of its own: nobody gets old data in
// place of what was acknowledged.
TEST_F(IoFailureTest, AMediumThatLostDataIsNotReadOrWritten) {
  BackendInfo info = Info();
  info.data_loss = "data may be lost";
  log_.clear();
  WorkerOptions worker = TestReactor::SmallPool();
  worker.log = [this](transport::LogLevel, absl::string_view line) {
    log_.emplace_back(line);
  };
  TestTarget target(std::make_shared<TestBackend>(info), {}, worker);
  EXPECT_EQ(Outcome(*target.Run(Bytes(6))), "GOOD") << "TEST UNIT READY";
  EXPECT_EQ(Outcome(*target.Run(Cdb10(0x25, 0, 0), {}, 8)), "GOOD");
  for (const uint8_t flags : {0x00, 0x08}) {
    EXPECT_THAT(Outcome(*target.Run(Cdb10(0x28, 2, 8, flags), {}, 4096)),
                HasSubstr("MEDIUM ERROR"));
    EXPECT_THAT(Outcome(*target.Run(Cdb10(0x2a, 2, 8, flags), Bytes(4096))),
                HasSubstr("MEDIUM ERROR"));
  }
  EXPECT_THAT(Outcome(*target.Run(Cdb10(0x35, 0, 0))),
              HasSubstr("MEDIUM ERROR"));
  EXPECT_THAT(Outcome(*target.Run(Cdb10(0x2f, 0, 8))),
              HasSubstr("MEDIUM ERROR"));
  EXPECT_THAT(Outcome(*target.Run(Cdb10(0x41, 0, 8), Bytes(512))),
              HasSubstr("MEDIUM ERROR"));
  EXPECT_EQ(target.target()->LogicalUnitStatuses().at(0).data_loss,
            "data may be lost");
  EXPECT_THAT(log_.front(), HasSubstr("an operator has to clear"));
}

TEST(MediumIdentityTest, NamesTheLogicalUnitUnlessASerialIsGiven) {
  BackendInfo info = testing::ThinInfo(8);
  const auto serial = [&info](const std::string& target, uint64_t lun,
                              const std::string& given = "") {
    const std::unique_ptr<Target> made = Target::Create(target);
    EXPECT_TRUE(made->AddLogicalUnit(std::make_shared<TestBackend>(info),
                                     {.lun = lun, .serial = given})
                    .ok());
    return made->LogicalUnitStatuses().at(0).serial;
  };
  EXPECT_NE(serial("iqn.2026-01.example:a", 0),
            serial("iqn.2026-01.example:b", 0));
  info.identity = "0123456789abcdef";
  EXPECT_EQ(serial("iqn.2026-01.example:a", 0), info.identity);
  EXPECT_EQ(serial("iqn.2026-01.example:b", 7), info.identity);
  EXPECT_EQ(serial("iqn.2026-01.example:b", 7, "mine"), "mine");
  info.identity = "one\ntwo";
  EXPECT_FALSE(Target::Create("iqn.2026-01.example:a")
                   ->AddLogicalUnit(std::make_shared<TestBackend>(info), {})
                   .ok());
}

TEST(OpenFailureTest, AMediumThatCannotBeUsedIsLogged) {
  auto backend = std::make_shared<TestBackend>(testing::ThinInfo(8));
  backend->refuse_channels = true;
  std::vector<std::string> log;
  WorkerOptions worker = TestReactor::SmallPool();
  worker.log = [&log](transport::LogLevel, absl::string_view line) {
    log.emplace_back(line);
  };
  const std::unique_ptr<Target> target =
      Target::Create("iqn.2026-01.example:t");
  ASSERT_TRUE(target->AddLogicalUnit(backend, {.lun = 3}).ok());
  TestReactor reactor(worker);
  const testing::TestNexus nexus(target.get(), &reactor);
  EXPECT_THAT(log, ElementsAre("iqn.2026-01.example:t LUN 3: the medium cannot "
                               "be used: refused by the test"));
}

}  // namespace
}  // namespace skiff::scsi
