#include "protocol/codec/text_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<uint8_t>;

TEST(TextValueTest, Booleans) {
  EXPECT_EQ(ParseBoolean("Yes"), true);
  EXPECT_EQ(ParseBoolean("No"), false);
  for (const char* bad : {"", "yes", "YES", "Y", "No ", "1", "None"}) {
    EXPECT_EQ(ParseBoolean(bad), absl::nullopt) << bad;
  }
  EXPECT_EQ(EncodeBoolean(true), "Yes");
  EXPECT_EQ(EncodeBoolean(false), "No");
}

TEST(TextValueTest, Numbers) {
  EXPECT_EQ(ParseNumber("0"), 0u);
  EXPECT_EQ(ParseNumber("262144"), 262144u);
  EXPECT_EQ(ParseNumber("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseNumber("0x0"), 0u);
  EXPECT_EQ(ParseNumber("0X1fF"), 511u);
  EXPECT_EQ(ParseNumber("0x000000000000000000ff"), 255u);
  EXPECT_EQ(ParseNumber("0xffffffffffffffff"), UINT64_MAX);
  for (const char* bad :
       {"", "0x", "00", "01", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0xg", "x1",
        "18446744073709551616", "99999999999999999999", "0x10000000000000000",
        "12a"}) {
    EXPECT_EQ(ParseNumber(bad), absl::nullopt) << bad;
  }
}

TEST(TextValueTest, Ranges) {
  const absl::optional<NumberRange> range = ParseRange("2048~0x1000");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->low, 2048u);
  EXPECT_EQ(range->high, 4096u);
  EXPECT_EQ(EncodeRange(*range), "2048~4096");
  EXPECT_TRUE(ParseRange("5~5").has_value());
  for (const char* bad : {"", "~", "1~", "~1", "2~1", "1", "1~2~3", "1 ~2"}) {
    EXPECT_FALSE(ParseRange(bad).has_value()) << bad;
  }
}

TEST(TextValueTest, Lists) {
  std::vector<absl::string_view> items;
  ASSERT_TRUE(ParseList("CRC32C,None", &items));
  EXPECT_THAT(items, ElementsAre("CRC32C", "None"));
  ASSERT_TRUE(ParseList("Y-com.example:/[1]+@_", &items));
  EXPECT_THAT(items, ElementsAre("Y-com.example:/[1]+@_"));
  ASSERT_TRUE(ParseList(std::string(255, 'a'), &items));
  for (const std::string& bad :
       {std::string(), std::string(","), std::string("a,"), std::string(",a"),
        std::string("a,,b"), std::string("a b"), std::string("a,\x80"),
        std::string(256, 'a'), std::string("a=b"), std::string("(a,b)")}) {
    EXPECT_FALSE(ParseList(bad, &items)) << bad;
  }
}

TEST(TextValueTest, HexBinary) {
  Bytes bytes;
  ASSERT_TRUE(ParseBinary("0x00fF10", 3, &bytes));
  EXPECT_THAT(bytes, ElementsAre(0x00, 0xff, 0x10));
  // (n + 1) / 2 bytes for n digits.
  ASSERT_TRUE(ParseBinary("0Xabc", 2, &bytes));
  EXPECT_THAT(bytes, ElementsAre(0x0a, 0xbc));
  for (const char* bad : {"0x", "0xgg", "0x0 ", "00ff", "ff", ""}) {
    EXPECT_FALSE(ParseBinary(bad, 100, &bytes)) << bad;
  }
  EXPECT_TRUE(ParseBinary("0x0011", 2, &bytes));
  EXPECT_FALSE(ParseBinary("0x001122", 2, &bytes));
  EXPECT_FALSE(ParseBinary("0x00112", 2, &bytes));
}

TEST(TextValueTest, Base64Binary) {
  Bytes bytes;
  // RFC 4648 section 10.
  ASSERT_TRUE(ParseBinary("0bZg==", 1, &bytes));
  EXPECT_THAT(bytes, ElementsAre('f'));
  ASSERT_TRUE(ParseBinary("0BZm8=", 2, &bytes));
  EXPECT_THAT(bytes, ElementsAre('f', 'o'));
  ASSERT_TRUE(ParseBinary("0bZm9v", 3, &bytes));
  EXPECT_THAT(bytes, ElementsAre('f', 'o', 'o'));
  for (const char* bad :
       {"0b", "0bZ", "0bZg", "0bZg=", "0bZ===", "0b====", "0bZm9v\n", "0bZm 9v",
        "0bZm9v=", "0bZg==Zg==", "0bZh==", "0bZm-_", "0b=Zm9"}) {
    EXPECT_FALSE(ParseBinary(bad, 100, &bytes)) << bad;
  }
  EXPECT_FALSE(ParseBinary("0bZm9v", 2, &bytes));
}

TEST(TextValueTest, BinariesRoundTrip) {
  std::mt19937 random(13);
  for (size_t size = 1; size < 200; ++size) {
    Bytes bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    Bytes decoded;
    ASSERT_TRUE(ParseBinary(EncodeHex(bytes), size, &decoded));
    EXPECT_EQ(decoded, bytes);
    ASSERT_TRUE(ParseBinary(EncodeBase64(bytes), size, &decoded));
    EXPECT_EQ(decoded, bytes);
    EXPECT_FALSE(ParseBinary(EncodeHex(bytes), size - 1, &decoded));
    EXPECT_FALSE(ParseBinary(EncodeBase64(bytes), size - 1, &decoded));
  }
}

TEST(TextValueTest, Utf8) {
  EXPECT_TRUE(IsPrintableUtf8(""));
  EXPECT_TRUE(
      IsPrintableUtf8("Bob's disk, \xc3\xa9t\xc3\xa9 \xf0\x9f\x92\xbe"));
  EXPECT_TRUE(IsPrintableUtf8("\xc2\xa0"));
  EXPECT_TRUE(IsPrintableUtf8("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
  for (const char* bad :
       {"\x1f", "a\nb", "\x7f", "\xc2\x80", "\xc2\x9f", "\x80", "\xc0\x80",
        "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(IsPrintableUtf8(bad)) << bad;
  }
}

}  // namespace
}  // namespace skiff::protocol
