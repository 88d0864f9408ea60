#include "tools/skiffctl/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skiff::tools::skiffctl {
namespace {

namespace api = management::v1;
using ::testing::HasSubstr;

TEST(TableTest, ColumnsAreAsWideAsTheirCells) {
  EXPECT_EQ(Table({{"A", "LONG", "Z"}, {"value", "b", "c"}}),
            "A      LONG  Z\n"
            "value  b     c\n");
  EXPECT_EQ(Table({{"A", "B"}, {"\xc3\xa9\xc3\xa9", "x"}, {"abc", "y"}}),
            "A    B\n"
            "\xc3\xa9\xc3\xa9   x\n"
            "abc  y\n");
}

TEST(TableTest, WhatPeersSayMovesNoCursor) {
  EXPECT_EQ(Table({{"a\x1b[2Jb\nc"}}), "a\\x1b[2Jb\\x0ac\n");
  EXPECT_EQ(Table({{"\xe2\x80\xae"
                    "a"}}),
            "\\u202ea\n");
}

api::ListLunsReply Luns(uint64_t first, uint64_t second) {
  api::ListLunsReply reply;
  for (const uint64_t reads : {first, second}) {
    api::Lun* const lun = reply.add_lun();
    lun->set_target("iqn.x");
    lun->set_lun(reply.lun_size() - 1);
    lun->mutable_commands()->set_reads(reads);
    lun->mutable_commands()->set_read_bytes(reads << 20);
    lun->mutable_commands()->set_read_nanoseconds(reads * 2000);
  }
  return reply;
}

TEST(TopTableTest, TheBusiestComesFirst) {
  const std::string text =
      TopTable(Luns(100, 100), Luns(110, 300), absl::Seconds(2), 20);
  EXPECT_LT(text.find("iqn.x   1    100     100.0       2 us"),
            text.find("iqn.x   0    5       5.0"))
      << text;
  EXPECT_THAT(TopTable(Luns(1, 1), Luns(2, 3), absl::Seconds(1), 1),
              Not(HasSubstr("iqn.x   0")));
}

TEST(TopTableTest, CountersThatBeginAgainAreNoHugeNumbers) {
  EXPECT_THAT(TopTable(Luns(1000, 0), Luns(10, 0), absl::Seconds(1), 20),
              HasSubstr("iqn.x   0    10 "));
}

}  // namespace
}  // namespace skiff::tools::skiffctl
