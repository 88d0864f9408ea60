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

TEST(BlockPoolTest, ChargesWhatIsOutAndSpare) {
  MemoryBudget budget(1u << 20);
  {
    BlockPool pool(4096, &budget);
    BlockPool::Block small = pool.Take(4000);
    const BlockPool::Block large = pool.Take(8192);
    EXPECT_EQ(budget.use().charged, 12288u);
    small.reset();
    EXPECT_EQ(budget.use().charged, 12288u) << "spare";
    small = pool.Take(4096);
    EXPECT_EQ(budget.use().charged, 12288u);
  }
  EXPECT_EQ(budget.use().charged, 0u);
}

TEST(BlockPoolTest, RefusesWhatTheBudgetHasNoRoomFor) {
  MemoryBudget budget(64 << 10);
  BlockPool pool(64 << 10, &budget);
  const BlockPool::Block half = pool.TakeOfBudget(32 << 10, 0);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(pool.TakeOfBudget(64 << 10, 0), nullptr);
  EXPECT_EQ(budget.use().refused, 1u);
  EXPECT_NE(pool.Take(64 << 10), nullptr) << "cannot do without";
  // What that has left is given up for another size.
  EXPECT_EQ(budget.use().charged, 96u << 10);
  EXPECT_NE(pool.TakeOfBudget(16 << 10, 0), nullptr);
  EXPECT_EQ(budget.use().charged, 48u << 10);
}

TEST(BlockPoolTest, LeavesOthersAsMuchAsOneHas) {
  MemoryBudget budget(64 << 10);
  BlockPool pool(0, &budget);
  std::vector<BlockPool::Block> greedy;
  size_t held = 0;
  for (;;) {
    BlockPool::Block block = pool.TakeOfBudget(4096, held);
    if (block == nullptr) break;
    greedy.push_back(std::move(block));
    held += 4096;
  }
  EXPECT_EQ(held, 32u << 10);
  EXPECT_NE(pool.TakeOfBudget(4096, 0), nullptr);
  // Many together may take all of it; one that has nothing still gets
  // something.
  budget.ChargeAnyway(32 << 10);
  EXPECT_EQ(pool.TakeOfBudget(512, 512), nullptr);
  EXPECT_NE(pool.TakeOfBudget(4096, 0), nullptr);
  EXPECT_EQ(pool.TakeOfBudget(16 << 10, 0), nullptr);
  budget.GiveBack(32 << 10);
}

TEST(BlockPoolTest, TheSystemMayHaveNoMemory) {
  MemoryBudget budget(1u << 20);
  BlockPool pool(0, &budget);
  budget.RefuseEvery(2);
  EXPECT_NE(pool.Take(4096), nullptr);
  EXPECT_EQ(pool.Take(4096), nullptr);
  EXPECT_EQ(budget.use().charged, 0u);
  EXPECT_EQ(budget.use().lacking, 1u);
}

TEST(MemoryBudgetTest, IsAPartOfTheProcesssMemoryByDefault) {
  EXPECT_EQ(MemoryBudget::DefaultLimit(uint64_t{1} << 30), 64u << 20);
  EXPECT_EQ(MemoryBudget::DefaultLimit(uint64_t{64} << 30), 512u << 20);
  EXPECT_EQ(MemoryBudget::DefaultLimit(1), 16u << 20);
  EXPECT_EQ(MemoryBudget::DefaultLimit(0), 512u << 20) << "unknown";
}

}  // namespace
}  // namespace skiff::protocol
