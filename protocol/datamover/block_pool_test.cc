#include "protocol/datamover/block_pool.h"

#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

TEST(BlockPoolTest, BlocksServeAgain) {
  BlockPool pool(1u << 20);
  BlockPool::Block block = pool.Take(4096);
  const uint8_t* const memory = block.get();
  std::memset(block.get(), 'x', 4096);
  EXPECT_EQ(pool.spare_bytes(), 0u);
  block.reset();
  EXPECT_EQ(pool.spare_bytes(), 4096u);
  BlockPool::Block other = pool.Take(512);
  EXPECT_NE(other.get(), memory) << "of another size";
  block = pool.Take(2049);
  EXPECT_EQ(block.get(), memory);
  EXPECT_EQ(pool.spare_bytes(), 0u);
}

TEST(BlockPoolTest, HasEverySizeOfADataSegment) {
  BlockPool pool(0);
  for (const size_t bytes : {0u, 1u, 512u, 513u, (1u << 24) - 1 + 1024u}) {
    BlockPool::Block block = pool.Take(bytes);
    ASSERT_NE(block, nullptr);
    std::memset(block.get(), 'x', bytes);
  }
}

TEST(BlockPoolTest, KeepsNoMoreThanItMay) {
  BlockPool pool(10000);
  std::vector<BlockPool::Block> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(pool.Take(4096));
  blocks.clear();
  EXPECT_EQ(pool.spare_bytes(), 8192u);
  pool.Take(1000);
  EXPECT_EQ(pool.spare_bytes(), 8192u + 1024u);
}

TEST(BlockPoolTest, MovedBlocksGoBackOnce) {
  BlockPool pool(1u << 20);
  BlockPool::Block first = pool.Take(512);
  BlockPool::Block second = std::move(first);
  first.reset();
  EXPECT_EQ(pool.spare_bytes(), 0u);
  second.reset();
  EXPECT_EQ(pool.spare_bytes(), 512u);
}

}  // namespace
}  // namespace skiff::protocol
