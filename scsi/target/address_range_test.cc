#include "scsi/target/address_range.h"

#include <gtest/gtest.h>

#include <string>

namespace skiff::scsi {
namespace {

std::string Parsed(absl::string_view text) {
  const auto range = AddressRange::Parse(text);
  return range.ok() ? range->ToString() : std::string(range.status().message());
}

TEST(AddressRangeTest, IsWrittenAsOneAddressOrWithAPrefixLength) {
  EXPECT_EQ(Parsed("10.1.2.3"), "10.1.2.3/32");
  EXPECT_EQ(Parsed("10.0.0.0/8"), "10.0.0.0/8");
  EXPECT_EQ(Parsed("0.0.0.0/0"), "0.0.0.0/0");
  EXPECT_EQ(Parsed("fd00::/16"), "fd00::/16");
  EXPECT_EQ(Parsed("::1"), "::1/128");
  EXPECT_EQ(Parsed("::ffff:10.0.0.0/104"), "10.0.0.0/8");
}

TEST(AddressRangeTest, SaysWhatIsWrong) {
  for (const absl::string_view bad :
       {"", "/", "10.0.0", "10.0.0.0/8/8", "host", "[::1]", "fe80::1%eth0",
        "10.0.0.1:3260"}) {
    EXPECT_EQ(Parsed(bad),
              "'" + std::string(bad) +
                  "' is no IP address and no range of them; write one such as "
                  "10.0.0.1, 10.0.0.0/8 or fd00::/16");
  }
  EXPECT_EQ(Parsed("10.0.0.0/33"),
            "'10.0.0.0/33' has a bad prefix length; it can be 0 to 32");
  EXPECT_EQ(Parsed("::/129"),
            "'::/129' has a bad prefix length; it can be 0 to 128");
  EXPECT_EQ(Parsed("::/-1"),
            "'::/-1' has a bad prefix length; it can be 0 to 128");
  EXPECT_EQ(Parsed("10.0.0.1/8"),
            "'10.0.0.1/8' has bits beyond its prefix length; write 10.0.0.0/8 "
            "for that range, or 10.0.0.1 for the one address");
  EXPECT_FALSE(AddressRange::Parse(absl::string_view("10.0.0.1\0/8", 11)).ok());
}

TEST(AddressRangeTest, ContainsAddressesOfItsFamily) {
  const struct {
    absl::string_view range;
    absl::string_view address;
    bool contains;
  } cases[] = {
      {"10.0.0.0/8", "10.255.1.2", true},
      {"10.0.0.0/8", "11.0.0.1", false},
      {"10.128.0.0/9", "10.127.255.255", false},
      {"10.128.0.0/9", "10.128.0.0", true},
      {"10.0.0.0/8", "::ffff:10.0.0.1", true},
      {"0.0.0.0/0", "10.0.0.1", true},
      {"0.0.0.0/0", "::1", false},
      {"::/0", "::1", true},
      {"::/0", "10.0.0.1", false},
      {"fe80::1", "fe80::1%eth0", true},
      {"fe80::/10", "fec0::1", false},
      {"0.0.0.0/0", "", false},
      {"0.0.0.0/0", "somebody", false},
  };
  for (const auto& [range, address, contains] : cases) {
    EXPECT_EQ(AddressRange::Parse(range)->Contains(address), contains)
        << range << " " << address;
  }
}

TEST(AddressRangeTest, CoversNarrowerOnes) {
  const auto wide = AddressRange::Parse("10.0.0.0/8");
  const auto narrow = AddressRange::Parse("10.1.0.0/16");
  EXPECT_TRUE(wide->Covers(*narrow));
  EXPECT_TRUE(wide->Covers(*wide));
  EXPECT_FALSE(narrow->Covers(*wide));
  EXPECT_FALSE(wide->Covers(*AddressRange::Parse("fd00::/16")));
}

}  // namespace
}  // namespace skiff::scsi
