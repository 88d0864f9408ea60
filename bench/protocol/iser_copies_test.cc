// Commands of iSER move the right data, copy nothing but immediate data, and
// register nothing where the device has memory windows: without a device, over
// the simulated network, and over libfabric.

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bench/protocol/command_batch.h"
#include "bench/protocol/iser_command_path.h"
#include "bench/protocol/whole_path.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kSmall = 4096;
constexpr uint32_t kBig = 128 * 1024;
constexpr int kBatches = 10;

struct Load {
  const char* name;
  uint32_t bytes;
  uint32_t depth;
  bool immediate_data;
};

template <WholePath::Network network, bool lasting_keys>
std::unique_ptr<CommandRunner> MakeWhole(const Load& load) {
  WholePath::Options options;
  options.network = network;
  options.bytes = load.bytes;
  options.queue_depth = load.depth;
  options.immediate_data = load.immediate_data;
  options.lasting_keys = lasting_keys;
  return std::make_unique<WholePath>(options);
}

std::unique_ptr<CommandRunner> MakeMemcpy(const Load& load) {
  SessionPair::Options options;
  options.bytes = load.bytes;
  options.queue_depth = load.depth;
  options.offer.immediate_data = load.immediate_data;
  return std::make_unique<IserCommandPath>(options);
}

struct Way {
  const char* name;
  std::unique_ptr<CommandRunner> (*make)(const Load& load);
  // The initiator gives a key to each command by a registration.
  bool registers = false;
};

constexpr Way kMemcpy = {"Memcpy", &MakeMemcpy};
constexpr Way kSimulated = {"Simulated",
                            &MakeWhole<WholePath::Network::kSimulated, false>};
constexpr Way kLibfabric = {
    "Libfabric", &MakeWhole<WholePath::Network::kLibfabricTcp, false>, true};
constexpr Way kLastingKeys = {
    "LastingKeys", &MakeWhole<WholePath::Network::kLibfabricTcp, true>};

class IserCopiesTest : public ::testing::TestWithParam<std::tuple<Way, Load>> {
 protected:
  static const Way& way() { return std::get<Way>(GetParam()); }
  static const Load& load() { return std::get<Load>(GetParam()); }
  // Small data go with their commands, and are copied to the disk.
  static bool DataGoAlong(bool write) {
    return write && load().immediate_data && load().bytes == kSmall;
  }
  void Run(bool write, int batches) {
    for (int i = 0; i < batches; ++i) {
      ASSERT_TRUE(runner_->RunBatch(write)) << runner_->failure();
    }
  }

  const std::unique_ptr<CommandRunner> runner_ = way().make(load());
};

INSTANTIATE_TEST_SUITE_P(
    Ways, IserCopiesTest,
    ::testing::Combine(
        ::testing::Values(kMemcpy, kSimulated, kLibfabric, kLastingKeys),
        ::testing::Values(Load{"Small", kSmall, 1, true},
                          Load{"SmallAtDepth", kSmall, 32, true},
                          Load{"SmallNoImmediateData", kSmall, 32, false},
                          Load{"Big", kBig, 1, true},
                          Load{"BigAtDepth", kBig, 32, true},
                          Load{"BigNoImmediateData", kBig, 32, false})),
    [](const auto& info) {
      return std::string(std::get<Way>(info.param).name) +
             std::get<Load>(info.param).name;
    });

TEST_P(IserCopiesTest, WhatIsWrittenIsRead) {
  const std::vector<char>& memory = *runner_->batch().memory();
  runner_->batch().Fill(1);
  const std::vector<char> written = memory;
  ASSERT_NO_FATAL_FAILURE(Run(/*write=*/true, 1));
  runner_->batch().Fill(2);
  ASSERT_NE(memory, written);
  ASSERT_NO_FATAL_FAILURE(Run(/*write=*/false, 1));
  EXPECT_EQ(memory, written);
}

TEST_P(IserCopiesTest, NothingButImmediateDataIsCopied) {
  ASSERT_EQ(runner_->failure(), "");
  const uint64_t commands = uint64_t{kBatches} * load().depth;
  for (const bool write : {false, true}) {
    SCOPED_TRACE(write ? "writes" : "reads");
    const ConnectionCounters before = runner_->TargetCounters();
    const ConnectionCounters initiator_before = runner_->InitiatorCounters();
    ASSERT_NO_FATAL_FAILURE(Run(write, kBatches));
    const ConnectionCounters target = runner_->TargetCounters();
    const uint64_t data = commands * load().bytes;
    const bool along = DataGoAlong(write);
    EXPECT_EQ(target.copied_bytes - before.copied_bytes, along ? data : 0);
    EXPECT_EQ(target.rdma_read_bytes - before.rdma_read_bytes,
              write && !along ? data : 0);
    EXPECT_EQ(target.rdma_write_bytes - before.rdma_write_bytes,
              write ? 0 : data);
    EXPECT_EQ(target.registrations, 0u);
    const ConnectionCounters initiator = runner_->InitiatorCounters();
    EXPECT_EQ(initiator.copied_bytes, 0u);
    EXPECT_EQ(initiator.gathered_buffers, 0u);
    EXPECT_EQ(initiator.registrations - initiator_before.registrations,
              way().registers && !along ? commands : 0);
  }
}

}  // namespace
}  // namespace skiff::protocol
