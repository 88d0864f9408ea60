// Memory that an initiator's caller registers ahead of its commands.

#include <cstring>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint32_t kTransfer = 16 * 1024;
constexpr uint64_t kRounds = 5;

class LastingMemoryTest : public ::testing::TestWithParam<Fabric> {
 protected:
  LastingMemoryTest()
      : stack_(1, 1, GetParam().rdma),
        memory_(std::make_shared<std::string>(2 * kTransfer, '\0')) {}

  void LogIn(bool lasting_keys) {
    InitiatorOptions options = stack_.Options();
    options.offer.immediate_data = false;
    options.rdma.lasting_keys = lasting_keys;
    stack_.LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
  }
  absl::Status Use() {
    return stack_.initiator->UseMemory(memory_->data(), memory_->size(),
                                       memory_);
  }
  // Writes from one half, reads into the other; says how often something was
  // registered for one command.
  uint64_t RegistrationsOfRounds() {
    const uint64_t before = Counters().registrations;
    for (uint64_t i = 0; i < kRounds; ++i) {
      char* const out = memory_->data();
      char* const in = memory_->data() + kTransfer;
      std::memset(out, static_cast<int>('a' + i), kTransfer);
      Transfer(scsi::cdb::Write(0, kTransfer / kBlock), out, /*write=*/true);
      Transfer(scsi::cdb::Read(0, kTransfer / kBlock), in, /*write=*/false);
      EXPECT_EQ(std::memcmp(out, in, kTransfer), 0);
    }
    return Counters().registrations - before;
  }
  ConnectionCounters Counters() const {
    return stack_.initiator->connection().counters;
  }
  bool rdma() const { return GetParam().rdma.has_value(); }
  bool windows() const {
    return rdma() && GetParam().rdma->capabilities.memory_windows;
  }
  // Without being told of the memory ahead.
  uint64_t OneEach() const { return rdma() ? 2 * kRounds : 0; }

  SimStack stack_;
  std::shared_ptr<std::string> memory_;

 private:
  void Transfer(const scsi::Cdb& cdb, char* data, bool write) {
    scsi::Command command;
    iovec iov = {data, kTransfer};
    SetCdb(cdb, &command);
    (write ? command.data_out : command.data_in) = &iov;
    (write ? command.data_out_count : command.data_in_count) = 1;
    (write ? command.data_out_length : command.data_in_length) = kTransfer;
    stack_.Run(&command);
    EXPECT_EQ(command.outcome, scsi::Command::Outcome::kCompleted);
    EXPECT_EQ(command.status, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LastingMemoryTest, AllFabrics(),
                         FabricName());

TEST_P(LastingMemoryTest, OtherMemoryIsRegisteredForEachCommand) {
  LogIn(/*lasting_keys=*/true);
  EXPECT_EQ(RegistrationsOfRounds(), OneEach());
}

// Windows make keys that end with their commands.
TEST_P(LastingMemoryTest, WindowsAreEnoughToRegisterItOnce) {
  LogIn(/*lasting_keys=*/false);
  EXPECT_TRUE(Use().ok());
  EXPECT_EQ(RegistrationsOfRounds(), windows() ? 0 : OneEach());
  if (!windows()) return;
  const ConnectionCounters counters = Counters();
  EXPECT_EQ(counters.remote_invalidations + counters.local_invalidations,
            2 * kRounds);
}

TEST_P(LastingMemoryTest, WithLastingKeysItIsRegisteredOnceEverywhere) {
  LogIn(/*lasting_keys=*/true);
  EXPECT_TRUE(Use().ok());
  EXPECT_EQ(RegistrationsOfRounds(), 0u);
  if (!rdma() || windows()) return;
  EXPECT_THAT(stack_.initiator->connection().fallbacks,
              Contains(HasSubstr("keys of lasting memory outlive")));
}

TEST_P(LastingMemoryTest, GoesForLaterConnectionsToo) {
  InitiatorOptions options = stack_.Options();
  options.offer.immediate_data = false;
  options.rdma.lasting_keys = true;
  stack_.Connect(options);
  EXPECT_TRUE(Use().ok());  // Before there is any.
  ASSERT_TRUE(stack_.RunUntil([this] { return stack_.ready().has_value(); }));
  for (int i = 0; i < 2; ++i) {
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&ready.command);
    EXPECT_EQ(RegistrationsOfRounds(), 0u);
    stack_.world.network().ResetConnections("client", "server");
    ASSERT_TRUE(
        stack_.RunUntil([this] { return !stack_.initiator->connected(); }));
    ASSERT_TRUE(
        stack_.RunUntil([this] { return stack_.initiator->connected(); }));
  }
}

TEST_P(LastingMemoryTest, IsGivenBack) {
  LogIn(/*lasting_keys=*/true);
  EXPECT_TRUE(Use().ok());
  const std::weak_ptr<std::string> first = memory_;
  memory_ = std::make_shared<std::string>(2 * kTransfer, '\0');
  EXPECT_EQ(!first.expired(), rdma());
  EXPECT_TRUE(Use().ok());
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(RegistrationsOfRounds(), 0u);
  const std::weak_ptr<std::string> second = memory_;
  memory_.reset();
  stack_.initiator.reset();
  EXPECT_TRUE(second.expired());
}

}  // namespace
}  // namespace skiff::protocol
