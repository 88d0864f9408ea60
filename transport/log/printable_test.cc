#include "transport/log/printable.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

TEST(PrintableTest, TextStaysAsItIs) {
  for (const char* text :
       {"", "iqn.2026-11.com.example:disk", "C:\\path \"quoted\"",
        "\xc3\xa9t\xc3\xa9", "\xe7\xa3\x81\xe7\x9b\x98", "\xf0\x9f\x92\xbe",
        // Letters that are written from right to left.
        "\xd7\x90\xd7\x91", "\xd8\xa7"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_EQ(PrintableJson(text), text);
  }
}

TEST(PrintableTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Printable(absl::string_view("a\0\x1b[2J\n\x7f", 8)),
            "a\\x00\\x1b[2J\\x0a\\x7f");
  // CSI, as terminals with 8-bit controls take it.
  EXPECT_EQ(Printable("\xc2\x9b"), "\\u009b");
  EXPECT_EQ(Printable("a\nb\tc\r", "\n\t"), "a\nb\tc\\x0d");
}

TEST(PrintableTest, WhatChangesOrHidesTextIsEscaped) {
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b"),
            "a\\u202eb");
  EXPECT_EQ(Printable("\xe2\x81\xa6\xe2\x81\xa9"), "\\u2066\\u2069");
  EXPECT_EQ(Printable("\xe2\x80\x8b\xe2\x80\x8f"), "\\u200b\\u200f");
  EXPECT_EQ(Printable("\xef\xbb\xbf\xc2\xad"), "\\ufeff\\u00ad");
  EXPECT_EQ(Printable("\xe2\x80\xa8\xe2\x80\xa9"), "\\u2028\\u2029");
  EXPECT_EQ(Printable("\xf3\xa0\x80\x81"), "\\U000e0001");
}

TEST(PrintableTest, TheRangesEndWhereTheyShould) {
  for (const char32_t code :
       {0x0,    0x1f,   0x7f,   0x9f,    0xad,    0x600,  0x605,  0x61c,
        0x200b, 0x200f, 0x2028, 0x202e,  0x2060,  0x2064, 0x2066, 0x206f,
        0xfeff, 0xfff9, 0xfffb, 0xe0001, 0xe0020, 0xe007f}) {
    EXPECT_TRUE(IsEscaped(code)) << static_cast<uint32_t>(code);
  }
  for (const char32_t code :
       {0x20, 0x7e, 0xa0, 0xac, 0xae, 0x606, 0x200a, 0x2010, 0x2027, 0x202f,
        0x2065, 0x2070, 0xfffc, 0xfffd, 0xe0000, 0xe0002, 0xe0080, 0x10ffff}) {
    EXPECT_FALSE(IsEscaped(code)) << static_cast<uint32_t>(code);
  }
}

TEST(PrintableTest, BytesThatAreNoUtf8AreEscapedOneByOne) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("\x9b"), "\\x9b");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(Printable("\xe0\x80\xae"), "\\xe0\\x80\\xae");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\xe2\x80"), "\\xe2\\x80");
  // What follows is read again.
  EXPECT_EQ(Printable("\xe2\xc3\xa9"), "\\xe2\xc3\xa9");
}

TEST(PrintableTest, JsonHasItsOwnEscapes) {
  EXPECT_EQ(PrintableJson("{\n\"a\":\"\xe2\x80\xae\x7f\"}\n"),
            "{\n\"a\":\"\\u202e\\u007f\"}\n");
  EXPECT_EQ(PrintableJson("\xf3\xa0\x80\x81"), "\\udb40\\udc01");
}

}  // namespace
}  // namespace skiff::transport
