#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Outcome;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint64_t kBlocks = 1000;

class SendDiagnosticTest : public ::testing::Test {
 protected:
  SendDiagnosticTest()
      : backend_(std::make_shared<TestBackend>(ThinInfo(kBlocks))),
        target_(backend_) {}
  std::unique_ptr<TestCommand> Run(const Bytes& cdb) {
    return target_.Run(cdb);
  }

  std::shared_ptr<TestBackend> backend_;
  TestTarget target_;
};

Bytes SelfTest(uint8_t byte1 = 0x04) { return {0x1d, byte1, 0, 0, 0, 0}; }

TEST_F(SendDiagnosticTest, TheSelfTestReadsBothEndsOfTheMedium) {
  backend_->completion = TestBackend::Completion::kHeld;
  const uint64_t last = (kBlocks - 1) * 512;
  for (const std::optional<uint64_t> bad :
       {std::optional<uint64_t>(), std::optional<uint64_t>(0),
        std::optional<uint64_t>(last)}) {
    TestCommand command(SelfTest(), {}, 0);
    target_.nexus().Submit(&command);
    for (const uint64_t offset : {uint64_t{0}, last}) {
      ASSERT_EQ(Outcome(command), "pending");
      EXPECT_EQ(command.task.io.op, IoRequest::Op::kRead);
      EXPECT_EQ(command.task.io.offset, offset);
      EXPECT_EQ(command.task.io.length, 512u);
      if (offset == bad) {
        backend_->failure = TestBackend::Failure{IoRequest::Op::kRead,
                                                 IoStatus::kReadError, offset};
      }
      backend_->CompleteHeld();
      if (offset == bad) break;
    }
    EXPECT_EQ(Outcome(command),
              bad.has_value()
                  ? "HARDWARE ERROR, LOGICAL UNIT FAILED SELF-TEST (3Eh/03h)"
                  : "GOOD");
  }
}

TEST_F(SendDiagnosticTest, TheSelfTestDoesNotBlameTheMediumForOthers) {
  backend_->failure =
      TestBackend::Failure{IoRequest::Op::kRead, IoStatus::kNoMemory, 0};
  EXPECT_EQ(Outcome(*Run(SelfTest())), "BUSY");
  backend_->failure =
      TestBackend::Failure{IoRequest::Op::kRead, IoStatus::kGone, 0};
  EXPECT_EQ(Run(SelfTest())->sense()->key, SenseKey::kNotReady);
}

TEST_F(SendDiagnosticTest, ThereIsNothingToDiagnoseButTheSelfTest) {
  backend_->log.clear();
  EXPECT_EQ(Outcome(*Run(SelfTest(0x00))), "GOOD") << "no parameter list";
  EXPECT_EQ(Outcome(*Run(SelfTest(0x03))), "GOOD") << "DEVOFFL, UNITOFFL";
  EXPECT_TRUE(backend_->log.empty());
  EXPECT_EQ(Outcome(*Run(SelfTest(0x07))), "GOOD");
  // SELF-TEST CODE, with and without SELFTEST, and PF.
  for (const uint8_t byte1 : {0x20, 0x24, 0x40, 0x80, 0xa0, 0xc0, 0x10, 0x14}) {
    const auto command = Run(SelfTest(byte1));
    ASSERT_EQ(command->code(), AdditionalSense::kInvalidFieldInCdb);
    EXPECT_EQ(command->sense()->field_pointer->byte, 1);
    EXPECT_GE(command->sense()->field_pointer->bit, 4);
  }
  for (const uint8_t byte : {3, 4}) {
    for (const uint8_t byte1 : {0x00, 0x04}) {
      Bytes with_list = SelfTest(byte1);
      with_list[byte] = 1;
      TestCommand command(with_list, Bytes(256), 0);
      target_.nexus().Run(&command);
      ASSERT_EQ(command.code(), AdditionalSense::kInvalidFieldInCdb);
      EXPECT_EQ(command.sense()->field_pointer->byte, byte);
    }
  }
}

}  // namespace
}  // namespace skiff::scsi
