// In its steady state the path of a command of iSER allocates nothing, on
// either side.

#include "bench/protocol/iser_command_path.h"

#include <cstdint>

#include "bench/protocol/count_allocations.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

void ExpectNoAllocations(const SessionPair::Options& options) {
  for (const bool write : {false, true}) {
    SCOPED_TRACE(testing::Message() << (write ? "writes" : "reads") << " of "
                                    << options.bytes << " bytes");
    IserCommandPath path(options);
    ASSERT_EQ(path.failure(), "");
    ASSERT_TRUE(path.parameters().iser.rdma_extensions);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(path.RunBatch(write)) << path.failure();
    }
    const uint64_t before = AllocationCount();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(path.RunBatch(write)) << path.failure();
    }
    EXPECT_EQ(AllocationCount() - before, 0u);
    // Each key was taken out of use by the response to its command.
    EXPECT_EQ(path.InitiatorCounters().local_invalidations, 0u);
  }
}

TEST(IserCommandPathTest, SmallCommandsAllocateNothing) {
  ExpectNoAllocations(SessionPair::Options());
}

TEST(IserCommandPathTest, BigCommandsAllocateNothing) {
  SessionPair::Options options;
  options.bytes = 128 * 1024;
  ExpectNoAllocations(options);
}

TEST(IserCommandPathTest, WritesThatAreReadAllocateNothing) {
  SessionPair::Options options;
  options.offer.immediate_data = false;
  ExpectNoAllocations(options);
}

// Each command is several RDMA operations, more than the device takes at once.
TEST(IserCommandPathTest, CommandsInPiecesAllocateNothing) {
  SessionPair::Options options;
  options.bytes = 4u << 20;
  options.queue_depth = 8;
  ExpectNoAllocations(options);
}

}  // namespace
}  // namespace skiff::protocol
