#include "tools/skiff/perf/pattern.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

constexpr PatternTag kTag = {8192, 7, 99};

std::vector<uint8_t> Block(const PatternTag& tag, size_t size = 4096) {
  std::vector<uint8_t> block(size);
  FillPattern(tag, block.data(), size);
  return block;
}

TEST(PatternTest, TellsItsTag) {
  for (const size_t size : {512u, 4096u, 131072u}) {
    const std::vector<uint8_t> block = Block(kTag, size);
    PatternTag tag;
    ASSERT_TRUE(ReadPattern(block.data(), size, &tag));
    EXPECT_EQ(tag, kTag);
  }
}

TEST(PatternTest, NoticesEveryDamagedByte) {
  std::vector<uint8_t> block = Block(kTag, 512);
  PatternTag tag;
  for (uint8_t& byte : block) {
    byte ^= 1;
    EXPECT_FALSE(ReadPattern(block.data(), block.size(), &tag))
        << &byte - block.data();
    byte ^= 1;
  }
  EXPECT_TRUE(ReadPattern(block.data(), block.size(), &tag));
}

TEST(PatternTest, NoticesSwappedAndTornPieces) {
  std::vector<uint8_t> block = Block(kTag);
  PatternTag tag;
  std::swap_ranges(block.begin() + 512, block.begin() + 1024,
                   block.begin() + 1024);
  EXPECT_FALSE(ReadPattern(block.data(), block.size(), &tag));

  block = Block(kTag);
  const std::vector<uint8_t> next = Block({kTag.offset, kTag.sequence + 1, 99});
  std::memcpy(block.data() + 2048, next.data() + 2048, 2048);
  EXPECT_FALSE(ReadPattern(block.data(), block.size(), &tag));
}

TEST(PatternTest, ExplainsWhatIsWrong) {
  struct {
    PatternTag expected;
    bool exact;
    std::string explanation;
  } const cases[] = {
      {{8192, 7, 99}, true, "offset 8192: intact"},
      {{8192, 1, 1}, false, "offset 8192: intact"},
      {{4096, 7, 99}, true, "offset 4096: holds the block of offset 8192"},
      {{8192, 9, 99}, true, "offset 8192: holds write 7 instead of write 9"},
      {{8192, 7, 98},
       true,
       "offset 8192: holds the block of an earlier run; the write was lost"},
  };
  const std::vector<uint8_t> block = Block(kTag);
  for (const auto& c : cases) {
    EXPECT_EQ(ExplainPattern(block.data(), block.size(), c.expected, c.exact),
              c.explanation);
  }
  EXPECT_EQ(ExplainPattern(block.data(), 512, kTag, true),
            "offset 8192: written with --bs 4096, read with 512");

  std::vector<uint8_t> damaged = block;
  damaged[3000] ^= 0x80;
  EXPECT_EQ(ExplainPattern(damaged.data(), damaged.size(), kTag, true),
            "offset 8192: the checksum is wrong: the block, tagged offset 8192 "
            "write 7, is damaged");

  std::vector<uint8_t> other(4096, 0);
  EXPECT_EQ(ExplainPattern(other.data(), other.size(), kTag, true),
            "offset 8192: all zeroes");
  other[5] = 1;
  EXPECT_EQ(ExplainPattern(other.data(), other.size(), kTag, false),
            "offset 8192: not a block written by perf; write the range with "
            "--verify first");
}

}  // namespace
}  // namespace skiff::tools
