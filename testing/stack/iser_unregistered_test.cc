// Commands whose memory cannot be registered for RDMA: they alone fail.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Outcome = scsi::Command::Outcome;
using testing::SimRdmaOptions;

// More than the pools of buffers grow by, and less than a read.
constexpr size_t kLockable = size_t{3} << 20;
constexpr uint32_t kTooLong = 4u << 20;
constexpr uint32_t kFits = 64 * 1024;

SimRdmaOptions Device(bool windows, std::shared_ptr<size_t> lockable) {
  SimRdmaOptions options = SimRdmaOptions::InfiniBand();
  options.capabilities.memory_windows = windows;
  options.lockable_bytes = std::move(lockable);
  return options;
}

class UnregisteredTest : public ::testing::TestWithParam<bool> {
 protected:
  UnregisteredTest() : UnregisteredTest(std::make_shared<size_t>(SIZE_MAX)) {}
  explicit UnregisteredTest(const std::shared_ptr<size_t>& lockable)
      : stack_(1, 1, Device(GetParam(), lockable)) {
    stack_.LogIn();
    *lockable = kLockable;
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
  }
  void ExpectServes() {
    TestCommand write(scsi::cdb::Write(0, kFits / kBlock), 0,
                      std::string(kFits, 'w'));
    stack_.Run(&write.command);
    EXPECT_EQ(write.command.outcome, Outcome::kCompleted);
    TestCommand read(scsi::cdb::Read(0, kFits / kBlock), kFits);
    stack_.Run(&read.command);
    EXPECT_EQ(read.command.outcome, Outcome::kCompleted);
    EXPECT_EQ(read.buffer, std::string(kFits, 'w'));
    EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  }

  SimStack stack_;
};

INSTANTIATE_TEST_SUITE_P(Devices, UnregisteredTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Windows" : "NoWindows";
                         });

// One that is alone, with others, and again and again: CmdSNs have no gap.
TEST_P(UnregisteredTest, FailsAlone) {
  for (int i = 0; i < 3; ++i) {
    TestCommand read(scsi::cdb::Read(0, kTooLong / kBlock), kTooLong);
    stack_.Run(&read.command);
    EXPECT_EQ(read.command.outcome, Outcome::kNotRegistered);
    TestCommand write(scsi::cdb::Write(0, kTooLong / kBlock), 0,
                      std::string(kTooLong, 'x'));
    TestCommand other(scsi::cdb::Read(0, 1), kBlock);
    for (TestCommand* command : {&write, &other}) {
      stack_.initiator->Submit(&command->command);
    }
    EXPECT_FALSE(write.finished) << "called back from inside Submit";
    ASSERT_TRUE(
        stack_.RunUntil([&] { return write.finished && other.finished; }));
    EXPECT_EQ(write.command.outcome, Outcome::kNotRegistered);
    EXPECT_EQ(other.command.outcome, Outcome::kCompleted);
    ExpectServes();
  }
  EXPECT_THAT(stack_.log,
              Contains(HasSubstr("cannot lock 4194304 bytes more")).Times(1));
}

// Only one of its two buffers can be.
TEST_P(UnregisteredTest, FailsAloneWhenItIsBidirectional) {
  const std::string out(kFits, 'o');
  TestCommand both(scsi::cdb::Write(0, kFits / kBlock), kTooLong);
  iovec from = {const_cast<char*>(out.data()), out.size()};
  both.command.data_out = &from;
  both.command.data_out_count = 1;
  both.command.data_out_length = kFits;
  stack_.Run(&both.command);
  EXPECT_EQ(both.command.outcome, Outcome::kNotRegistered);
  ExpectServes();
}

// While others wait for room in the window.
TEST_P(UnregisteredTest, FailsInItsTurn) {
  std::vector<std::unique_ptr<TestCommand>> commands;
  int finished = 0;
  for (int i = 0; i < 300; ++i) {
    const bool too_long = i % 50 == 7;
    const uint32_t length = too_long ? kTooLong : kBlock;
    commands.push_back(std::make_unique<TestCommand>(
        scsi::cdb::Read(0, length / kBlock), length));
    stack_.initiator->Submit(&commands.back()->command);
  }
  ASSERT_TRUE(stack_.RunUntil([&] {
    finished = 0;
    for (const auto& command : commands) finished += command->finished ? 1 : 0;
    return finished == 300;
  }));
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(commands[i]->command.outcome,
              i % 50 == 7 ? Outcome::kNotRegistered : Outcome::kCompleted)
        << i;
  }
  ExpectServes();
}

}  // namespace
}  // namespace skiff::protocol
