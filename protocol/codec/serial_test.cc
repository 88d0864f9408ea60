#include "protocol/codec/serial.h"

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

TEST(SerialTest, OrdersNeighboursAcrossTheWrap) {
  EXPECT_TRUE(SerialLess(0, 1));
  EXPECT_FALSE(SerialLess(1, 0));
  EXPECT_TRUE(SerialLess(0xffffffffu, 0));
  EXPECT_FALSE(SerialLess(0, 0xffffffffu));
  EXPECT_TRUE(SerialGreater(0, 0xffffffffu));
  EXPECT_TRUE(SerialGreater(5, 0xfffffff0u));
}

TEST(SerialTest, EqualNumbersAreNotLess) {
  for (uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    EXPECT_FALSE(SerialLess(value, value));
    EXPECT_FALSE(SerialGreater(value, value));
    EXPECT_TRUE(SerialLessEqual(value, value));
    EXPECT_TRUE(SerialGreaterEqual(value, value));
  }
}

TEST(SerialTest, TheFarthestOrderedNumbersAreHalfTheCircleLessOneApart) {
  EXPECT_TRUE(SerialLess(0, 0x7fffffffu));
  EXPECT_TRUE(SerialLess(10, 10 + 0x7fffffffu));
  EXPECT_TRUE(SerialLess(0x80000001u, 0));
}

TEST(SerialTest, NumbersHalfTheCircleApartHaveNoOrder) {
  EXPECT_FALSE(SerialLess(0, 0x80000000u));
  EXPECT_FALSE(SerialLess(0x80000000u, 0));
  EXPECT_FALSE(SerialLessEqual(0, 0x80000000u));
  EXPECT_FALSE(SerialGreaterEqual(0, 0x80000000u));
}

TEST(SerialTest, MeasuresDistanceBothWays) {
  EXPECT_EQ(SerialDistance(0xfffffffeu, 3), 5);
  EXPECT_EQ(SerialDistance(3, 0xfffffffeu), -5);
  EXPECT_EQ(SerialDistance(7, 7), 0);
}

TEST(SerialTest, WindowsMayWrap) {
  EXPECT_TRUE(SerialInWindow(0xffffffffu, 0xfffffff0u, 15));
  EXPECT_TRUE(SerialInWindow(0, 0xfffffff0u, 15));
  EXPECT_TRUE(SerialInWindow(15, 0xfffffff0u, 15));
  EXPECT_FALSE(SerialInWindow(16, 0xfffffff0u, 15));
  EXPECT_FALSE(SerialInWindow(0xffffffefu, 0xfffffff0u, 15));
  // Closed: MaxCmdSN is ExpCmdSN - 1.
  EXPECT_FALSE(SerialInWindow(4, 4, 3));
}

}  // namespace
}  // namespace skiff::protocol
