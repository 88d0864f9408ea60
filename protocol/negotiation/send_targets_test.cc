#include "protocol/negotiation/send_targets.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::vector<DiscoveredTarget>> Parse(const std::string& text) {
  std::vector<TextPair> pairs;
  const absl::Status status = ParseText(text, &pairs);
  if (!status.ok()) return status;
  return ParseTargets(pairs, 3, 2);
}

TEST(SendTargetsTest, ReadsWhatItWrites) {
  TextWriter writer;
  AppendTarget(
      {"iqn.2026-11.org.example:a", {"10.0.0.1:3260,1", "[::1]:3260,1"}},
      &writer);
  AppendTarget({"iqn.2026-11.org.example:b", {}}, &writer);
  bool more = false;
  const auto targets = Parse(writer.Next(1000, &more));
  ASSERT_TRUE(targets.ok()) << targets.status();
  ASSERT_EQ(targets->size(), 2u);
  EXPECT_EQ((*targets)[0].name, "iqn.2026-11.org.example:a");
  EXPECT_THAT((*targets)[0].portals,
              ElementsAre("10.0.0.1:3260,1", "[::1]:3260,1"));
  EXPECT_THAT((*targets)[1].portals, IsEmpty());
}

TEST(SendTargetsTest, BoundsWhatAPeerMayName) {
  std::string targets;
  for (int i = 0; i < 4; ++i) {
    targets += absl::StrCat("TargetName=iqn.2026-11.org.example:", i) + '\0';
  }
  EXPECT_THAT(Parse(targets).status().message(),
              HasSubstr("more than 3 targets"));
  std::string portals =
      std::string("TargetName=iqn.2026-11.org.example:a") + '\0';
  for (int i = 0; i < 3; ++i)
    portals += std::string("TargetAddress=10.0.0.1:3260,1") + '\0';
  EXPECT_THAT(Parse(portals).status().message(),
              HasSubstr("more than 2 portals"));
}

TEST(SendTargetsTest, RefusesBadNamesAndLooseAddresses) {
  EXPECT_FALSE(Parse(std::string("TargetName=no name") + '\0').ok());
  EXPECT_THAT(Parse(std::string("TargetAddress=10.0.0.1:3260,1") + '\0')
                  .status()
                  .message(),
              HasSubstr("before any TargetName"));
}

// They are shown to users, and connected to.
TEST(SendTargetsTest, RefusesBadAddresses) {
  const std::string null(1, '\0');
  const std::string name =
      std::string("TargetName=iqn.2026-11.org.example:a") + '\0';
  for (const std::string& address :
       {std::string(), std::string(",1"), std::string("fe80::1,1"),
        std::string("10.0.0.1:0,1"), std::string("10.0.0.1,"),
        std::string("10.0.0.1,65536"), std::string("10.0.0.1,1,2"),
        std::string("\x1b[2J,1"), std::string(300, 'a')}) {
    EXPECT_FALSE(
        Parse(absl::StrCat(name, "TargetAddress=", address, null)).ok())
        << address;
  }
  for (const char* address :
       {"10.0.0.1:3260,1", "[1080::8:800:200C:417A],65", "host.example.com",
        "computingcenter.example.com,23"}) {
    EXPECT_TRUE(Parse(absl::StrCat(name, "TargetAddress=", address, null)).ok())
        << address;
  }
}

}  // namespace
}  // namespace skiff::protocol
