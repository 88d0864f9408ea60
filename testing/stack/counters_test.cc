// What connections count, seen from both ends: above all, that iSER copies no
// payload.

#include <string>

#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kTransfer = 64 * 1024;
constexpr int kRounds = 10;

class CountersTest : public ::testing::Test {
 protected:
  void Start(const std::optional<testing::SimRdmaOptions>& fabric,
             bool immediate_data, Digest data_digest = Digest::kNone) {
    stack_ = std::make_unique<SimStack>(1, 1, fabric);
    InitiatorOptions options = stack_->Options();
    options.offer.immediate_data = immediate_data;
    options.offer.data_digest = {data_digest};
    stack_->LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);  // A unit attention.
    stack_->Run(&ready.command);
  }
  void Write() {
    const std::string data(kTransfer, 'd');
    for (int i = 0; i < kRounds; ++i) {
      TestCommand write(scsi::cdb::Write(i * 128, kTransfer / kBlock), 0, data);
      stack_->Run(&write.command);
      ASSERT_EQ(write.command.status, 0);
    }
  }
  void Read() {
    for (int i = 0; i < kRounds; ++i) {
      TestCommand read(scsi::cdb::Read(i * 128, kTransfer / kBlock), kTransfer);
      stack_->Run(&read.command);
      ASSERT_EQ(read.command.status, 0);
    }
  }
  ConnectionInfo Target() { return stack_->Sessions().at(0).connection; }
  ConnectionInfo Initiator() const { return stack_->initiator->connection(); }

  std::unique_ptr<SimStack> stack_;
};

TEST_F(CountersTest, IserCopiesNoPayload) {
  for (const auto& fabric : {testing::SimRdmaOptions::InfiniBand(),
                             testing::SimRdmaOptions::Iwarp()}) {
    Start(fabric, /*immediate_data=*/false);
    const uint64_t before = Target().counters.copied_bytes;
    Write();
    Read();
    EXPECT_EQ(Initiator().counters.copied_bytes, 0u);
    EXPECT_EQ(Target().counters.copied_bytes, before);
    const ConnectionCounters target = Target().counters;
    EXPECT_EQ(target.rdma_read_bytes, uint64_t{kRounds} * kTransfer);
    EXPECT_EQ(target.rdma_write_bytes, uint64_t{kRounds} * kTransfer);
    // A thin disk is not registered as a whole.
    EXPECT_EQ(target.registrations, uint64_t{2 * kRounds});
  }
}

// They arrive in a message, which is not where the medium wants them.
TEST_F(CountersTest, ImmediateDataAreCopiedOnceByTheTarget) {
  constexpr uint32_t kSmall = 4096;
  Start(testing::SimRdmaOptions::InfiniBand(), /*immediate_data=*/true);
  const uint64_t before = Target().counters.copied_bytes;
  TestCommand command(scsi::cdb::Write(0, kSmall / kBlock), 0,
                      std::string(kSmall, 'd'));
  stack_->Run(&command.command);
  EXPECT_EQ(command.command.status, 0);
  EXPECT_EQ(Target().counters.copied_bytes - before, kSmall);
  EXPECT_EQ(Target().counters.rdma_reads, 0u);
}

// A part of them would be copied, and save no RDMA Read.
TEST_F(CountersTest, DataThatDoNotFitAreAllRead) {
  Start(testing::SimRdmaOptions::InfiniBand(), /*immediate_data=*/true);
  const uint64_t before = Target().counters.copied_bytes;
  Write();
  EXPECT_EQ(Initiator().counters.copied_bytes, 0u);
  EXPECT_EQ(Target().counters.copied_bytes, before);
  EXPECT_EQ(Target().counters.rdma_read_bytes, uint64_t{kRounds} * kTransfer);
}

TEST_F(CountersTest, ImmediateDataInRegisteredMemoryAreNotCopiedToBeSent) {
  constexpr uint32_t kSmall = 4096;
  Start(testing::SimRdmaOptions::InfiniBand(), /*immediate_data=*/true);
  const auto write = [this](const iovec& iov) {
    TestCommand command(scsi::cdb::Write(0, kSmall / kBlock), 0,
                        std::string(kSmall, 'd'));
    command.iov = iov;
    stack_->Run(&command.command);
    EXPECT_EQ(command.command.status, 0);
  };
  auto memory = std::make_shared<std::string>(2 * kSmall, 'm');
  const iovec part = {memory->data() + kSmall / 2, kSmall};
  write(part);
  EXPECT_EQ(Initiator().counters.copied_bytes, kSmall);
  ASSERT_TRUE(
      stack_->initiator->UseMemory(memory->data(), memory->size(), memory)
          .ok());
  write(part);
  EXPECT_EQ(Initiator().counters.copied_bytes, kSmall);
  EXPECT_EQ(Initiator().counters.registrations, 0u);
}

// Messages of 4096 bytes have 4020 of data.
TEST_F(CountersTest, DataThatWouldMakeAMessageWaitAreSplitOrReadInstead) {
  testing::SimRdmaOptions fabric = testing::SimRdmaOptions::InfiniBand();
  fabric.capabilities.eager_message_bytes = 4096;
  Start(fabric, /*immediate_data=*/true);
  const auto write = [this](uint32_t blocks) {
    TestCommand command(scsi::cdb::Write(0, blocks), 0,
                        std::string(blocks * kBlock, 'd'));
    stack_->Run(&command.command);
    EXPECT_EQ(command.command.status, 0);
  };
  // Commands and Data-Out.
  const auto messages = [this] { return Target().counters.pdus_in; };
  uint64_t before = messages();
  write(7);
  EXPECT_EQ(messages() - before, 1u);
  before = messages();
  write(8);
  EXPECT_EQ(messages() - before, 2u);
  before = messages();
  write(16);
  write(23);
  EXPECT_EQ(messages() - before, 6u);
  EXPECT_EQ(Target().counters.rdma_reads, 0u);
  const uint64_t copied = Target().counters.copied_bytes;
  before = messages();
  write(24);  // It would take four.
  write(128);
  EXPECT_EQ(messages() - before, 2u);
  EXPECT_EQ(Target().counters.rdma_reads, 2u);
  EXPECT_EQ(Target().counters.rdma_read_bytes, (24u + 128u) * kBlock);
  EXPECT_EQ(Target().counters.copied_bytes, copied);
}

// Where messages are split, too, a peer may want to be asked for all data.
TEST_F(CountersTest, DataAreNotSplitAgainstTheKeys) {
  for (const bool immediate_data : {false, true}) {
    testing::SimRdmaOptions fabric = testing::SimRdmaOptions::InfiniBand();
    fabric.capabilities.eager_message_bytes = 4096;
    stack_ = std::make_unique<SimStack>(1, 1, fabric);
    InitiatorOptions options = stack_->Options();
    options.offer.immediate_data = immediate_data;
    options.offer.initial_r2t = true;
    stack_->LogIn(options);
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_->Run(&ready.command);
    for (const uint32_t blocks : {7u, 8u}) {
      TestCommand command(scsi::cdb::Write(0, blocks), 0,
                          std::string(blocks * kBlock, 'd'));
      stack_->Run(&command.command);
      EXPECT_EQ(command.command.status, 0);
    }
    EXPECT_EQ(Target().counters.rdma_reads, immediate_data ? 1u : 2u);
  }
}

TEST_F(CountersTest, IserCountsWhatItDoes) {
  Start(testing::SimRdmaOptions::InfiniBand(), /*immediate_data=*/false);
  const ConnectionCounters before = Initiator().counters;
  const ConnectionCounters target_before = Target().counters;
  Write();
  Read();
  const ConnectionInfo target = Target();
  const ConnectionInfo initiator = Initiator();
  EXPECT_EQ(initiator.data_model, "iSER");
  EXPECT_EQ(target.data_model, "iSER");
  EXPECT_FALSE(initiator.device.empty());
  EXPECT_FALSE(target.device.empty());
  EXPECT_TRUE(initiator.remote_invalidation);
  EXPECT_TRUE(target.remote_invalidation);
  EXPECT_TRUE(initiator.fallbacks.empty());
  EXPECT_TRUE(target.fallbacks.empty());
  constexpr uint64_t kCommands = 2 * kRounds;
  EXPECT_EQ(initiator.counters.pdus_out - before.pdus_out, kCommands);
  EXPECT_EQ(initiator.counters.pdus_in - before.pdus_in, kCommands);
  EXPECT_EQ(target.counters.pdus_in - target_before.pdus_in, kCommands);
  EXPECT_EQ(target.counters.pdus_out - target_before.pdus_out, kCommands);
  EXPECT_EQ(target.counters.invalidations_sent, kCommands);
  EXPECT_EQ(initiator.counters.remote_invalidations, kCommands);
  EXPECT_EQ(initiator.counters.local_invalidations, 0u);
  // What RDMA moved was moved by the target, and belongs to both.
  EXPECT_EQ(initiator.counters.rdma_reads + initiator.counters.rdma_writes, 0u);
  EXPECT_EQ(initiator.counters.bytes_in, target.counters.bytes_out);
  EXPECT_EQ(initiator.counters.bytes_out, target.counters.bytes_in);
}

TEST_F(CountersTest, TellsWhatIsSlowerThanItCouldBe) {
  testing::SimRdmaOptions plain = testing::SimRdmaOptions::Iwarp();
  plain.capabilities.memory_windows = false;
  plain.capabilities.send_with_invalidate = false;
  plain.slow_reads = "READs are slow: somebody says so";
  Start(plain, /*immediate_data=*/false);
  Write();
  const ConnectionInfo initiator = Initiator();
  EXPECT_FALSE(initiator.remote_invalidation);
  EXPECT_EQ(initiator.counters.registrations, uint64_t{kRounds});
  ASSERT_EQ(initiator.fallbacks.size(), 2u);
  EXPECT_EQ(initiator.fallbacks[0],
            "keys are not invalidated remotely: the device has no memory "
            "windows");
  // RDMA Reads are the target's.
  ASSERT_EQ(Target().fallbacks.size(), 2u);
  EXPECT_EQ(
      Target().fallbacks[0],
      "keys are not invalidated remotely: the initiator does not want it");
  EXPECT_EQ(Target().fallbacks[1], plain.slow_reads);
}

// A transport with several devices can say one thing of itself only.
TEST_F(CountersTest, TheDeviceDecidesOnRemoteInvalidationNotTheTransport) {
  testing::SimRdmaOptions fabric = testing::SimRdmaOptions::InfiniBand();
  fabric.transport_capabilities = fabric.capabilities;
  fabric.capabilities.memory_windows = false;
  fabric.capabilities.send_with_invalidate = false;
  Start(fabric, /*immediate_data=*/false);
  Write();
  EXPECT_FALSE(Initiator().remote_invalidation);
  EXPECT_FALSE(Target().remote_invalidation);
  EXPECT_EQ(Target().counters.invalidations_sent, 0u);
}

TEST_F(CountersTest, ATargetWhoseDeviceCannotInvalidateDoesNot) {
  testing::SimRdmaOptions fabric = testing::SimRdmaOptions::InfiniBand();
  fabric.transport_capabilities = fabric.capabilities;
  fabric.capabilities.send_with_invalidate = false;
  Start(fabric, /*immediate_data=*/false);
  Write();
  const ConnectionInfo initiator = Initiator();
  EXPECT_FALSE(initiator.remote_invalidation);
  EXPECT_EQ(initiator.counters.remote_invalidations, 0u);
  EXPECT_EQ(initiator.counters.local_invalidations, uint64_t{kRounds});
  ASSERT_FALSE(initiator.fallbacks.empty());
  EXPECT_EQ(initiator.fallbacks[0],
            "keys are not invalidated remotely: the target does not do it");
  ASSERT_FALSE(Target().fallbacks.empty());
  EXPECT_EQ(Target().fallbacks[0],
            "keys are not invalidated remotely: the device has no Send with "
            "Invalidate");
}

TEST_F(CountersTest, StreamsCountPdusAndBytes) {
  Start(std::nullopt, /*immediate_data=*/false);
  Write();
  const ConnectionInfo initiator = Initiator();
  const ConnectionInfo target = Target();
  EXPECT_EQ(initiator.data_model, "iSCSI");
  EXPECT_TRUE(initiator.device.empty());
  EXPECT_EQ(initiator.counters.pdus_out, target.counters.pdus_in);
  EXPECT_EQ(initiator.counters.pdus_in, target.counters.pdus_out);
  EXPECT_EQ(initiator.counters.bytes_out, target.counters.bytes_in);
  EXPECT_EQ(initiator.counters.bytes_in, target.counters.bytes_out);
  EXPECT_GT(target.counters.bytes_in, uint64_t{kRounds} * kTransfer);
  // An R2T and a Data-Out or more for each command.
  EXPECT_GE(target.counters.pdus_in, 2u * kRounds);
  EXPECT_EQ(initiator.counters.copied_bytes, 0u);
}

TEST_F(CountersTest, ADataDigestCostsACopyWhereDataAreSent) {
  Start(std::nullopt, /*immediate_data=*/false, Digest::kCrc32c);
  const uint64_t before = Initiator().counters.copied_bytes;
  Write();
  EXPECT_EQ(Initiator().counters.copied_bytes - before,
            uint64_t{kRounds} * kTransfer);
}

}  // namespace
}  // namespace skiff::protocol
