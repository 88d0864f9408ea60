// The path of a command of iSER moves the right data, copies and registers
// nothing but what docs/iser.md says, and allocates nothing in its steady
// state.

#include "bench/protocol/iser_command_path.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/protocol/count_allocations.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kSmall = 4096;
constexpr uint32_t kBig = 128 * 1024;
constexpr int kBatches = 20;

struct Case {
  std::string name;
  uint32_t bytes;
  uint32_t depth;
  bool immediate_data;
};

class IserCommandPathTest : public ::testing::TestWithParam<Case> {
 protected:
  static SessionPair::Options Options() {
    SessionPair::Options options;
    options.bytes = GetParam().bytes;
    options.queue_depth = GetParam().depth;
    options.offer.immediate_data = GetParam().immediate_data;
    return options;
  }
  // Data that go with their commands are copied from messages to the disk.
  static uint64_t BytesToCopy(bool write) {
    return write && GetParam().immediate_data && GetParam().bytes == kSmall
               ? kSmall
               : 0;
  }
  void Run(bool write, int batches) {
    for (int i = 0; i < batches; ++i) {
      ASSERT_TRUE(path_.RunBatch(write)) << path_.failure();
    }
  }
  void Fill(char seed) {
    for (uint32_t i = 0; i < GetParam().depth; ++i) {
      for (size_t at = 0; char& byte : path_.Data(i)) {
        byte = static_cast<char>(seed + i + 7 * at++ / 512);
      }
    }
  }
  std::vector<char> Everything() {
    std::vector<char> all;
    for (uint32_t i = 0; i < GetParam().depth; ++i) {
      const absl::Span<char> data = path_.Data(i);
      all.insert(all.end(), data.begin(), data.end());
    }
    return all;
  }

  IserCommandPath path_{Options()};
};

INSTANTIATE_TEST_SUITE_P(
    Commands, IserCommandPathTest,
    ::testing::Values(Case{"Small", kSmall, 1, true},
                      Case{"SmallAtDepth", kSmall, 32, true},
                      Case{"SmallNoImmediateData", kSmall, 32, false},
                      Case{"Big", kBig, 1, true},
                      Case{"BigAtDepth", kBig, 32, true},
                      Case{"BigNoImmediateData", kBig, 32, false}),
    [](const auto& info) { return info.param.name; });

TEST_P(IserCommandPathTest, WhatIsWrittenIsRead) {
  ASSERT_EQ(path_.failure(), "");
  EXPECT_TRUE(path_.parameters().iser.rdma_extensions);
  Fill('a');
  const std::vector<char> written = Everything();
  ASSERT_NO_FATAL_FAILURE(Run(true, 1));
  Fill('b');
  ASSERT_NE(Everything(), written);
  ASSERT_NO_FATAL_FAILURE(Run(false, 1));
  EXPECT_EQ(Everything(), written);
}

TEST_P(IserCommandPathTest, NothingButImmediateDataIsCopied) {
  const uint64_t commands = uint64_t{kBatches} * GetParam().depth;
  for (const bool write : {false, true}) {
    SCOPED_TRACE(write ? "writes" : "reads");
    const ConnectionCounters before = path_.target_counters();
    ASSERT_NO_FATAL_FAILURE(Run(write, kBatches));
    const ConnectionCounters target = path_.target_counters();
    const uint64_t copied = BytesToCopy(write) * commands;
    EXPECT_EQ(target.copied_bytes - before.copied_bytes, copied);
    const uint64_t by_rdma = GetParam().bytes * commands - copied;
    EXPECT_EQ(target.rdma_read_bytes - before.rdma_read_bytes,
              write ? by_rdma : 0);
    EXPECT_EQ(target.rdma_write_bytes - before.rdma_write_bytes,
              write ? 0 : by_rdma);
    EXPECT_EQ(target.registrations, 0u);
    EXPECT_EQ(target.gathered_buffers, 0u);
  }
  const ConnectionCounters initiator = path_.initiator_counters();
  EXPECT_EQ(initiator.copied_bytes, 0u);
  EXPECT_EQ(initiator.registrations, 0u);
  EXPECT_EQ(initiator.gathered_buffers, 0u);
  // Every key was taken out of use by the target's response.
  EXPECT_EQ(initiator.local_invalidations, 0u);
}

TEST_P(IserCommandPathTest, NothingIsAllocated) {
  for (const bool write : {false, true}) {
    SCOPED_TRACE(write ? "writes" : "reads");
    ASSERT_NO_FATAL_FAILURE(Run(write, kBatches));
    const uint64_t before = AllocationCount();
    ASSERT_NO_FATAL_FAILURE(Run(write, kBatches));
    EXPECT_EQ(AllocationCount() - before, 0u);
  }
}

}  // namespace
}  // namespace skiff::protocol
