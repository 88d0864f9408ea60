#include "protocol/negotiation/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

void ExpectName(absl::string_view name, absl::string_view normalized) {
  const absl::StatusOr<std::string> result = NormalizeName(name);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, normalized);
}

void ExpectBad(const std::string& name, const char* why) {
  const absl::StatusOr<std::string> result = NormalizeName(name);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << name;
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(why));
}

// The examples of RFC 7143 section 4.2.7.
TEST(NamesTest, Examples) {
  for (const char* name :
       {"iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
        "iqn.2001-04.com.example",
        "iqn.2001-04.com.example:storage.tape1.sys1.xyz"}) {
    ExpectName(name, name);
  }
  ExpectName("eui.02004567A425678D", "eui.02004567a425678d");
  ExpectName("naa.52004567BA64678D", "naa.52004567ba64678d");
  ExpectName("naa.62004567BA64678D0123456789ABCDEF",
             "naa.62004567ba64678d0123456789abcdef");
}

TEST(NamesTest, UpperCaseBecomesLowerCase) {
  ExpectName("IQN.2001-04.com.Example:Disk", "iqn.2001-04.com.example:disk");
}

TEST(NamesTest, DeployedNames) {
  ExpectName("iqn.2003-01.org.linux-iscsi.host.x8664:sn.0123456789ab",
             "iqn.2003-01.org.linux-iscsi.host.x8664:sn.0123456789ab");
  ExpectName("iqn.2016-06.io.example:disk_1", "iqn.2016-06.io.example:disk_1");
  ExpectName("iqn.2001-04.com.example:\xc3\xa9",
             "iqn.2001-04.com.example:\xc3\xa9");
}

TEST(NamesTest, Length) {
  const std::string prefix = "iqn.2001-04.com.example:";
  const std::string longest =
      prefix + std::string(kMaxNameLength - prefix.size(), 'a');
  ExpectName(longest, longest);
  ExpectBad(longest + "a", "224 bytes");
}

// RFC 3722 sections 4 and 6.
TEST(NamesTest, CharactersThatLookLikeOthersOrLikeNothing) {
  const std::string prefix = "iqn.2001-04.com.example:";
  const struct {
    const char* character;
    const char* name;
  } kProhibited[] = {
      {"\xc2\xa0", "U+00A0"},           {"\xc2\xad", "U+00AD"},
      {"\xcd\x8f", "U+034F"},           {"\xe2\x80\x8b", "U+200B"},
      {"\xe2\x80\x8f", "U+200F"},       {"\xe2\x80\xae", "U+202E"},
      {"\xe2\x81\xa6", "U+2066"},       {"\xe2\x81\xa9", "U+2069"},
      {"\xe3\x80\x82", "U+3002"},       {"\xee\x80\x80", "U+E000"},
      {"\xef\xbb\xbf", "U+FEFF"},       {"\xef\xbf\xbd", "U+FFFD"},
      {"\xf0\x9f\xbf\xbe", "U+1FFFE"},  {"\xf3\xa0\x80\x81", "U+E0001"},
      {"\xf4\x8f\xbf\xbf", "U+10FFFF"},
  };
  for (const auto& [character, name] : kProhibited) {
    ExpectBad(prefix + "a" + character + "b",
              (std::string(name) + " must not be used").c_str());
  }
  // Their neighbours are letters and signs.
  for (const char* character :
       {"\xc2\xa1", "\xe2\x80\x90", "\xe3\x80\x83", "\xef\xbb\xbc",
        "\xf0\x9f\xbf\xbd", "\xf3\xa0\x80\x80"}) {
    ExpectName(prefix + character, prefix + character);
  }
}

TEST(NamesTest, Errors) {
  ExpectBad("", "empty");
  ExpectBad("disk1", "starts with neither");
  ExpectBad("iqn", "starts with neither");
  ExpectBad("iqn.", "yyyy-mm");
  ExpectBad("iqn.com.example", "yyyy-mm");
  ExpectBad("iqn.2001-13.com.example", "yyyy-mm");
  ExpectBad("iqn.2001-00.com.example", "yyyy-mm");
  ExpectBad("iqn.2001-4.com.example", "yyyy-mm");
  ExpectBad("iqn.2001-04.", "yyyy-mm");
  ExpectBad("iqn.2001-04.:disk", "yyyy-mm");
  ExpectBad("iqn.2001-04com.example", "yyyy-mm");
  ExpectBad("iqn.2001-04.com.example:a b", "may be used");
  ExpectBad("iqn.2001-04.com.example:a/b", "may be used");
  ExpectBad("iqn.2001-04.com.example:a\n", "may be used");
  ExpectBad("iqn.2001-04.com.example:\xff", "may be used");
  ExpectBad("eui.0123", "16 hexadecimal");
  ExpectBad("eui.0123456789abcdeg", "16 hexadecimal");
  ExpectBad("eui.0123456789abcdef0", "16 hexadecimal");
  ExpectBad("naa.0123456789abcdef01", "16 or 32");
  ExpectBad("naa.", "16 or 32");
}

}  // namespace
}  // namespace skiff::protocol
