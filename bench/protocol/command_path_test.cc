// In its steady state the path of a command allocates nothing, on either side.

#include "bench/protocol/command_path.h"

#include <utility>

#include "bench/protocol/count_allocations.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

void ExpectNoAllocations(CommandPath::Options options) {
  for (const auto& [write, digest] :
       {std::pair(false, Digest::kNone), std::pair(true, Digest::kNone),
        std::pair(false, Digest::kCrc32c), std::pair(true, Digest::kCrc32c)}) {
    SCOPED_TRACE(testing::Message()
                 << (write ? "writes" : "reads") << " of " << options.bytes
                 << " bytes" << (digest == Digest::kNone ? "" : ", digests"));
    options.offer.header_digest = options.offer.data_digest = {digest};
    CommandPath path(options);
    ASSERT_EQ(path.failure(), "");
    ASSERT_EQ(path.parameters().data_digest, digest);
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
