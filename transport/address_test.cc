#include "transport/address.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

TEST(AddressTest, ParsesEveryPart) {
  auto address =
      Address::Parse("libfabric://10.0.0.1:3261?provider=tcp&domain=eth0");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->scheme, "libfabric");
  EXPECT_EQ(address->host, "10.0.0.1");
  EXPECT_EQ(address->port, 3261);
  EXPECT_EQ(address->options.at("provider"), "tcp");
  EXPECT_EQ(address->options.at("domain"), "eth0");
  EXPECT_EQ(address->HostPort(), "10.0.0.1:3261");
}

TEST(AddressTest, UsesTheDefaultPort) {
  EXPECT_EQ(Address::Parse("tcp://storage.example")->port, 3260);
  EXPECT_EQ(Address::Parse("tcp://storage.example", 860)->port, 860);
  EXPECT_EQ(Address::Parse("tcp://[fe80::1]", 860)->port, 860);
}

TEST(AddressTest, TakesBracketsOffIpv6AndPutsThemBack) {
  auto address = Address::Parse("tcp://[fe80::1%eth0]:3260");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "fe80::1%eth0");
  EXPECT_EQ(address->ToString(), "tcp://[fe80::1%eth0]:3260");
  EXPECT_EQ(address->HostPort(), "[fe80::1%eth0]:3260");
}

TEST(AddressTest, RoundTrips) {
  Address address;
  address.scheme = "sim";
  address.host = "host-1";
  address.port = 7;
  address.options = {{"a", "x&y=z%"}, {"b", ""}, {"c d", "\n"}};
  auto parsed = Address::Parse(address.ToString());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, address);
}

struct BadCase {
  const char* uri;
  const char* says;
};

class BadAddressTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadAddressTest, ErrorNamesTheWrongPart) {
  auto address = Address::Parse(GetParam().uri);
  ASSERT_FALSE(address.ok()) << address->ToString();
  EXPECT_TRUE(absl::StrContains(address.status().message(), GetParam().says))
      << address.status();
  EXPECT_TRUE(absl::StrContains(address.status().message(), GetParam().uri))
      << address.status();
}

INSTANTIATE_TEST_SUITE_P(
    Bad, BadAddressTest,
    ::testing::Values(
        BadCase{"", "no scheme"}, BadCase{"host:1", "no scheme"},
        BadCase{"TCP://host", "scheme \"TCP\""},
        BadCase{"://host", "scheme \"\""}, BadCase{"tcp://", "host is missing"},
        BadCase{"tcp://:3260", "host is missing"},
        BadCase{"tcp://[]:3260", "host is missing"},
        BadCase{"tcp://::1", "in brackets"}, BadCase{"tcp://[::1", "closing ]"},
        BadCase{"tcp://[::1]x", "follows the host"},
        BadCase{"tcp://h:", "port \"\""},
        BadCase{"tcp://h:65536", "port \"65536\""},
        BadCase{"tcp://h:-1", "port \"-1\""},
        BadCase{"tcp://h:+1", "port \"+1\""},
        BadCase{"tcp://h:1/x", "unexpected \"/x\""},
        BadCase{"tcp://u@h:1", "unexpected \"@h:1\""},
        BadCase{"tcp://h?", "key=value"}, BadCase{"tcp://h?=v", "key=value"},
        BadCase{"tcp://h?a=1&a=2", "given twice"},
        BadCase{"tcp://h?a=%4", "hexadecimal"},
        BadCase{"tcp://h?a=%zz", "hexadecimal"}));

}  // namespace
}  // namespace skiff::transport
