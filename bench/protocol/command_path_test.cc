// In its steady state the path of a command allocates nothing, on either side.

#include "bench/protocol/command_path.h"

#include "bench/protocol/count_allocations.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

void ExpectNoAllocations(const CommandPath::Options& options) {
  for (const bool write : {false, true}) {
    SCOPED_TRACE(testing::Message() << (write ? "writes" : "reads") << " of "
                                    << options.bytes << " bytes");
    CommandPath path(options);
    ASSERT_EQ(path.failure(), "");
    for (int i = 0; i < 50; ++i)
      ASSERT_TRUE(path.RunBatch(write)) << path.failure();
    const uint64_t before = AllocationCount();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(path.RunBatch(write)) << path.failure();
    }
    EXPECT_EQ(AllocationCount() - before, 0u);
  }
}

TEST(CommandPathTest, SmallCommandsAllocateNothing) {
  ExpectNoAllocations(CommandPath::Options());
}

TEST(CommandPathTest, BigCommandsAllocateNothing) {
  CommandPath::Options options;
  options.bytes = 1u << 20;
  options.queue_depth = 3;  // Within max_send_queue_bytes.
  ExpectNoAllocations(options);
}

TEST(CommandPathTest, SolicitedWritesAllocateNothing) {
  CommandPath::Options options;
  options.bytes = 65536;
  options.offer.initial_r2t = true;
  options.offer.immediate_data = false;
  options.offer.max_burst_length = 16384;
  options.offer.first_burst_length = 16384;
  ExpectNoAllocations(options);
}

}  // namespace
}  // namespace skiff::protocol
