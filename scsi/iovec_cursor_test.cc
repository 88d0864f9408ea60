#include "scsi/iovec_cursor.h"

#include <cstring>

#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

class IovecCursorTest : public ::testing::Test {
 protected:
  char a_[4] = "abc";
  char b_[4] = "def";
  char c_[4] = "ghi";
  // An empty element in the middle is legal and must not end the walk.
  iovec iov_[4] = {{a_, 3}, {b_, 3}, {nullptr, 0}, {c_, 3}};
  IovecCursor cursor_{iov_, 4};
};

TEST_F(IovecCursorTest, CopiesAcrossElements) {
  uint8_t out[8] = {};
  EXPECT_EQ(cursor_.Skip(2), 2u);
  EXPECT_EQ(cursor_.CopyTo(out, 5), 5u);
  EXPECT_EQ(std::memcmp(out, "cdefg", 5), 0);
  EXPECT_EQ(cursor_.CopyTo(out, 8), 2u) << "only two bytes are left";
  EXPECT_EQ(cursor_.CopyTo(out, 1), 0u);
}

TEST_F(IovecCursorTest, CopiesInto) {
  const auto* from = reinterpret_cast<const uint8_t*>("01234567890");
  EXPECT_EQ(cursor_.Skip(1), 1u);
  EXPECT_EQ(cursor_.CopyFrom(from, 11), 8u);
  EXPECT_STREQ(a_, "a01");
  EXPECT_STREQ(b_, "234");
  EXPECT_STREQ(c_, "567");
}

TEST_F(IovecCursorTest, MatchStopsAtTheFirstDifference) {
  EXPECT_EQ(cursor_.Match(reinterpret_cast<const uint8_t*>("abcdeXg"), 7), 5u);
  EXPECT_EQ(cursor_.Match(reinterpret_cast<const uint8_t*>("fghi"), 4), 4u)
      << "continues at the byte that differed";
}

TEST_F(IovecCursorTest, DescribesWithoutMoving) {
  iovec out[4];
  uint64_t covered = 0;
  cursor_.Skip(2);
  ASSERT_EQ(cursor_.Describe(5, out, 4, &covered), 3);
  EXPECT_EQ(covered, 5u);
  EXPECT_EQ(out[0].iov_base, a_ + 2);
  EXPECT_EQ(out[0].iov_len, 1u);
  EXPECT_EQ(out[2].iov_base, c_);
  EXPECT_EQ(out[2].iov_len, 1u);
  ASSERT_EQ(cursor_.Describe(5, out, 1, &covered), 1);
  EXPECT_EQ(covered, 1u) << "limited by the elements";
}

TEST_F(IovecCursorTest, Total) { EXPECT_EQ(TotalLength(iov_, 4), 9u); }

}  // namespace
}  // namespace skiff::scsi
