// Registrations of memory that an initiator's commands used, kept for the
// commands after them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_memory.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"
#include "testing/stack/ways.h"

namespace skiff::protocol {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Outcome = scsi::Command::Outcome;
using transport::Address;

constexpr uint32_t kTransfer = 16 * 1024;

class KeptMemoryTest : public ::testing::TestWithParam<Fabric> {
 public:
  ~KeptMemoryTest() override { stack_.initiator.reset(); }

 protected:
  KeptMemoryTest() : stack_(1, 1, GetParam().rdma) {
    ways_.emplace(&stack_, *GetParam().rdma);
  }
  // What keeps registrations, with each device.
  InitiatorOptions Options() const {
    InitiatorOptions options = stack_.Options();
    options.portal = Address::Parse("auto://server:3260").value();
    options.rdma_retry_interval = absl::Seconds(20);
    options.offer.immediate_data = false;
    options.keep_registrations = true;
    options.rdma.lasting_keys = !windows();
    return options;
  }
  void LogIn(const InitiatorOptions& options) {
    stack_.LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
    registered_ = Regions();
  }
  bool windows() const { return GetParam().rdma->capabilities.memory_windows; }

  // How often the command had to register its memory.
  uint64_t WriteFrom(std::string* from) {
    return Run(scsi::cdb::Write(0, kTransfer / kBlock), from, /*write=*/true);
  }
  uint64_t ReadInto(std::string* to) {
    return Run(scsi::cdb::Read(0, kTransfer / kBlock), to, /*write=*/false);
  }
  void Forget(const std::string& memory) {
    stack_.initiator->ForgetMemory(memory.data(), memory.size());
  }
  // What the device has registered for commands.
  size_t Kept() const { return Regions() - registered_; }

  static void SetUp(scsi::Command* command, const scsi::Cdb& cdb, iovec* iov,
                    bool write) {
    SetCdb(cdb, command);
    (write ? command->data_out : command->data_in) = iov;
    (write ? command->data_out_count : command->data_in_count) = 1;
    (write ? command->data_out_length : command->data_in_length) =
        static_cast<uint32_t>(iov->iov_len);
  }
  void ExpectModel(const std::string& model) {
    ASSERT_TRUE(stack_.RunUntil([&] {
      return stack_.initiator->connected() &&
             stack_.initiator->data_model() == model;
    })) << stack_.initiator->data_model();
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_.Run(&ready.command);
  }
  void CutRdma() {
    ways_->rdma.works = false;
    stack_.world.network().ResetConnections("client", "server");
  }

  std::optional<Ways> ways_;  // Outlive what they are used by.
  SimStack stack_;
  std::string out_ = std::string(kTransfer, 'o');
  std::string in_ = std::string(kTransfer, '\0');

 private:
  size_t Regions() const {
    return static_cast<testing::SimDomain*>(ways_->rdma.domain)->regions();
  }
  uint64_t Registrations() const {
    return stack_.initiator->connection().counters.registrations;
  }
  uint64_t Run(const scsi::Cdb& cdb, std::string* data, bool write) {
    const uint64_t before = Registrations();
    scsi::Command command;
    iovec iov = {data->data(), data->size()};
    SetUp(&command, cdb, &iov, write);
    stack_.Run(&command);
    EXPECT_EQ(command.outcome, Outcome::kCompleted);
    EXPECT_EQ(command.status, 0);
    return Registrations() - before;
  }

  size_t registered_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, KeptMemoryTest,
                         ::testing::Values(InfiniBand(), Iwarp(), Plain()),
                         FabricName());

TEST_P(KeptMemoryTest, TheSecondUseRegistersNothing) {
  LogIn(Options());
  for (int i = 0; i < 3; ++i) {
    std::fill(out_.begin(), out_.end(), static_cast<char>('a' + i));
    const uint64_t expected = i == 0 ? 1 : 0;
    EXPECT_EQ(WriteFrom(&out_), expected);
    EXPECT_EQ(ReadInto(&in_), expected);
    EXPECT_EQ(in_, out_);
    EXPECT_EQ(Kept(), 2u);
  }
  // A buffer for both directions is registered for each: data that are written
  // may be in memory that cannot be written to.
  EXPECT_EQ(ReadInto(&out_), 1u);
  EXPECT_EQ(ReadInto(&out_), 0u);
}

TEST_P(KeptMemoryTest, WithoutWindowsKeysOutliveTheirCommandsIfTheyMay) {
  LogIn(Options());
  if (!windows()) {
    EXPECT_THAT(stack_.initiator->connection().fallbacks,
                Contains(HasSubstr("keys outlive their commands: the device")));
  }
  InitiatorOptions options = Options();
  options.rdma.lasting_keys = false;
  LogIn(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(WriteFrom(&out_), windows() && i > 0 ? 0u : 1u);
  }
  EXPECT_EQ(Kept(), windows() ? 1u : 0u);
}

TEST_P(KeptMemoryTest, WhatWasForgottenIsRegisteredAnew) {
  LogIn(Options());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(WriteFrom(&out_), 1u);
    EXPECT_EQ(ReadInto(&in_), 1u);
    EXPECT_EQ(ReadInto(&out_), 1u);
    EXPECT_EQ(Kept(), 3u);
    Forget(in_);
    EXPECT_EQ(Kept(), 2u);
    // Of a part of it, all is forgotten, for both directions.
    stack_.initiator->ForgetMemory(out_.data() + 100, 1);
    EXPECT_EQ(Kept(), 0u);
  }
}

// Neither does harm.
TEST_P(KeptMemoryTest, ForgettingWhatIsNotKept) {
  InitiatorOptions options = Options();
  options.keep_registrations = false;
  LogIn(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(WriteFrom(&out_), 1u);
    EXPECT_EQ(Kept(), 0u);
    Forget(out_);
  }
  LogIn(Options());
  const auto arena = std::make_shared<std::string>(kTransfer, 'a');
  EXPECT_TRUE(
      stack_.initiator->UseMemory(arena->data(), arena->size(), arena).ok());
  Forget(*arena);
  EXPECT_EQ(WriteFrom(arena.get()), 0u);
}

TEST_P(KeptMemoryTest, KeepsNoMoreThanItMay) {
  for (const bool by_bytes : {false, true}) {
    SCOPED_TRACE(by_bytes);
    InitiatorOptions options = Options();
    if (by_bytes) {
      options.kept_registrations.max_bytes = 2 * kTransfer + 1;
    } else {
      options.kept_registrations.max_regions = 2;
    }
    LogIn(options);
    std::vector<std::string> buffers(3, std::string(kTransfer, 'b'));
    for (int i = 0; i < 3; ++i) {
      for (std::string& buffer : buffers) EXPECT_EQ(WriteFrom(&buffer), 1u);
      EXPECT_EQ(Kept(), 2u);
    }
    // The two that were used last.
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(WriteFrom(&buffers[1]), 0u);
      EXPECT_EQ(WriteFrom(&buffers[2]), 0u);
    }
  }
}

TEST_P(KeptMemoryTest, MemoryWithoutRoomIsRegisteredForItsCommand) {
  InitiatorOptions options = Options();
  options.kept_registrations.max_bytes = kTransfer - 1;
  LogIn(options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(WriteFrom(&out_), 1u);
    EXPECT_EQ(ReadInto(&in_), 1u);
    EXPECT_EQ(in_, out_);
    EXPECT_EQ(Kept(), 0u);
  }
}

TEST_P(KeptMemoryTest, ForgettingWhatCommandsUse) {
  LogIn(Options());
  EXPECT_EQ(WriteFrom(&out_), 1u);
  for (const absl::Duration after :
       {absl::ZeroDuration(), absl::Microseconds(40)}) {
    SCOPED_TRACE(after);
    std::vector<scsi::Command> commands(4);
    iovec iov = {out_.data(), out_.size()};
    int ended = 0;
    for (scsi::Command& command : commands) {
      SetUp(&command, scsi::cdb::Write(0, kTransfer / kBlock), &iov,
            /*write=*/true);
      command.context = &ended;
      command.done = [](scsi::Command* c) { ++*static_cast<int*>(c->context); };
      stack_.initiator->Submit(&command);
    }
    stack_.world.RunFor(after);
    ASSERT_EQ(ended, 0);
    Forget(out_);
    // In use.
    EXPECT_EQ(Kept(), 1u);
    ASSERT_TRUE(stack_.RunUntil([&ended] { return ended == 4; }));
    for (const scsi::Command& command : commands) {
      EXPECT_EQ(command.outcome, Outcome::kCompleted);
      EXPECT_EQ(command.status, 0);
    }
    EXPECT_EQ(Kept(), 0u);
    EXPECT_EQ(WriteFrom(&out_), 1u);
    EXPECT_EQ(WriteFrom(&out_), 0u);
  }
  ReadInto(&in_);
  EXPECT_EQ(in_, out_);
}

// The device is there all the time, and its registrations.
TEST_P(KeptMemoryTest, StaysWhileTheSessionIsOnAByteStream) {
  LogIn(Options());
  std::string other(kTransfer, 'x');
  EXPECT_EQ(WriteFrom(&out_), 1u);
  EXPECT_EQ(WriteFrom(&other), 1u);
  CutRdma();
  ASSERT_NO_FATAL_FAILURE(ExpectModel("iSCSI"));
  EXPECT_EQ(WriteFrom(&out_), 0u);
  EXPECT_EQ(Kept(), 2u);
  Forget(other);
  EXPECT_EQ(Kept(), 1u);
  ways_->rdma.works = true;
  ASSERT_NO_FATAL_FAILURE(ExpectModel("iSER"));
  EXPECT_EQ(WriteFrom(&out_), 0u);
  EXPECT_EQ(WriteFrom(&other), 1u);
  EXPECT_EQ(ReadInto(&in_), 1u);
  EXPECT_EQ(in_, other);
}

// Of an initiator, its own.
TEST_P(KeptMemoryTest, GoesWithItsInitiator) {
  LogIn(Options());
  EXPECT_EQ(WriteFrom(&out_), 1u);
  EXPECT_EQ(Kept(), 1u);
  LogIn(Options());
  EXPECT_EQ(Kept(), 0u);
  EXPECT_EQ(WriteFrom(&out_), 1u);
}

}  // namespace
}  // namespace skiff::protocol
