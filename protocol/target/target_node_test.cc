#include "protocol/target/target_node.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

constexpr char kName[] = "iqn.2026-11.org.example.skiff:disk";

transport::Address Portal(const std::string& uri) {
  return transport::Address::Parse(uri).value();
}

class TargetNodeTest : public ::testing::Test {
 protected:
  TargetNodeTest() {
    EXPECT_TRUE(node_.AddTarget(scsi::Target::Create(kName), "").ok());
    for (const char* uri :
         {"tcp://0.0.0.0:3260", "tcp://192.0.2.1:3261?receive_buffer=4MiB",
          "verbs://192.0.2.1", "verbs://192.0.2.2",
          "libfabric://192.0.2.1:3262?provider=tcp",
          "libfabric://192.0.2.1:3263?provider=shm"}) {
      node_.AddPortal(Portal(uri), {Portal(uri)});
    }
  }
  // The portals of the only target, for a peer that came in like this, by the
  // transport of the portal's scheme, or by another.
  std::string Portals(const std::string& local, const std::string& portal,
                      const std::string& scheme = "") {
    const transport::Address address = Portal(portal);
    const std::vector<DiscoveredTarget> found = node_.Discover(
        "", {address, scheme.empty() ? address.scheme : scheme, local});
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? "" : absl::StrJoin(found[0].portals, " ");
  }

  TargetNode node_;
};

TEST_F(TargetNodeTest, DiscoveryNamesThePortalsOfTheTransportInUse) {
  EXPECT_EQ(Portals("192.0.2.9:3260", "tcp://0.0.0.0:3260"),
            "192.0.2.9:3260,1 192.0.2.1:3261,1");
  EXPECT_EQ(Portals("192.0.2.2:3260", "verbs://192.0.2.2"),
            "192.0.2.2:3260,1 192.0.2.1:3260,1");
}

TEST_F(TargetNodeTest, ProvidersAreTransportsOfTheirOwn) {
  EXPECT_EQ(
      Portals("192.0.2.1:3262", "libfabric://192.0.2.1:3262?provider=tcp"),
      "192.0.2.1:3262,1");
}

// What counts is the transport that the peer has, not how the portal chose it.
TEST_F(TargetNodeTest, APortalOfSeveralTransportsIsOneOfEach) {
  node_.AddPortal(
      Portal("auto://192.0.2.3:0"),
      {Portal("tcp://192.0.2.3:3270"), Portal("verbs://192.0.2.3:3270"),
       Portal("libfabric://192.0.2.3:3270?provider=tcp")});
  const std::string at_auto = "auto://192.0.2.3:0";
  EXPECT_EQ(Portals("192.0.2.3:3270", at_auto, "tcp"),
            "192.0.2.3:3270,1 192.0.2.1:3261,1");
  EXPECT_EQ(Portals("192.0.2.3:3270", at_auto, "verbs"),
            "192.0.2.3:3270,1 192.0.2.1:3260,1 192.0.2.2:3260,1");
  EXPECT_EQ(Portals("192.0.2.3:3270", at_auto, "libfabric"),
            "192.0.2.3:3270,1 192.0.2.1:3262,1");
  EXPECT_EQ(Portals("192.0.2.9:3260", "tcp://0.0.0.0:3260"),
            "192.0.2.9:3260,1 192.0.2.1:3261,1 192.0.2.3:3270,1");
  EXPECT_EQ(
      Portals("192.0.2.1:3263", "libfabric://192.0.2.1:3263?provider=shm"),
      "192.0.2.1:3263,1");
}

TEST_F(TargetNodeTest, AnUnknownPortalIsTheWayThatThePeerCameIn) {
  EXPECT_EQ(Portals("192.0.2.7:3260", "tcp://192.0.2.7:0"), "192.0.2.7:3260,1");
}

TEST_F(TargetNodeTest, DiscoveryOfOneTarget) {
  const TargetNode::Arrival arrival = {Portal("verbs://192.0.2.1"), "verbs",
                                       "192.0.2.1:3260"};
  EXPECT_EQ(node_.Discover(kName, arrival).size(), 1u);
  EXPECT_TRUE(node_.Discover("iqn.2026-11.x", arrival).empty());
}

}  // namespace
}  // namespace skiff::protocol
