#include "protocol/target/target_node.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

constexpr char kName[] = "iqn.2026-11.org.example.skiff:disk";
constexpr char kOther[] = "iqn.2026-11.org.example.skiff:other";

transport::Address Portal(const std::string& uri) {
  return transport::Address::Parse(uri).value();
}

class TargetNodeTest : public ::testing::Test {
 protected:
  TargetNodeTest() {
    EXPECT_TRUE(
        node_.AddTarget(scsi::Target::Create(kName), "", {PortalGroup()}).ok());
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

  // As TargetConnection asks: the tag, 0 for none.
  uint16_t TagAt(const std::string& portal, const std::string& target,
                 SessionType type = SessionType::kNormal) {
    LoginIdentity identity;
    identity.target_name = target;
    identity.session_type = type;
    return node_.Admit(Portal(portal), &identity) == LoginStatus::kSuccess
               ? identity.target_portal_group_tag.value_or(0)
               : 0;
  }
  absl::Status AddOther(std::vector<PortalGroup> groups) {
    return node_.AddTarget(scsi::Target::Create(kOther), "", std::move(groups));
  }

  TargetNode node_;
};

TEST_F(TargetNodeTest, DiscoveryNamesThePortalsOfTheTransportInUse) {
  EXPECT_EQ(Portals("192.0.2.9:3260", "tcp://0.0.0.0:3260"),
            "192.0.2.9:3260,1 192.0.2.1:3261,1");
  EXPECT_EQ(Portals("192.0.2.2:3260", "verbs://192.0.2.2"),
            "192.0.2.2:3260,1 192.0.2.1:3260,1");
}

TEST_F(TargetNodeTest, AnAliasHoldsForTheLoginsThatFollow) {
  const auto alias = [this] {
    LoginIdentity identity;
    identity.target_name = kName;
    EXPECT_EQ(node_.Admit(Portal("tcp://0.0.0.0:3260"), &identity),
              LoginStatus::kSuccess);
    return identity.target_alias;
  };
  EXPECT_EQ(alias(), "");
  EXPECT_TRUE(node_.SetAlias(kName, "disks of the office").ok());
  EXPECT_EQ(alias(), "disks of the office");
  EXPECT_EQ(node_.SetAlias(kOther, "x").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(node_.BeginRemoval(kName).ok());
  EXPECT_EQ(node_.SetAlias(kName, "x").code(), absl::StatusCode::kNotFound);
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
            "192.0.2.3:3270,1 192.0.2.3:3260,1 192.0.2.1:3261,1");
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

// All addresses are such a portal's: so is the one in use.
TEST_F(TargetNodeTest, APortalOfAllAddressesIsOfferedAtTheOneInUse) {
  const std::string one = "tcp://192.0.2.1:3261?receive_buffer=4MiB";
  EXPECT_EQ(Portals("192.0.2.1:3261", one),
            "192.0.2.1:3261,1 192.0.2.1:3260,1");
  for (const char* uri : {"tcp://[::]:3271", "tcp://[2001:db8::1]:3272"}) {
    node_.AddPortal(Portal(uri), {Portal(uri)});
  }
  EXPECT_EQ(Portals("[2001:db8::1]:3272", "tcp://[2001:db8::1]:3272"),
            "[2001:db8::1]:3272,1 192.0.2.1:3261,1 [2001:db8::1]:3271,1");
  EXPECT_EQ(Portals("192.0.2.9:3260", "tcp://0.0.0.0:3260"),
            "192.0.2.9:3260,1 192.0.2.1:3261,1 [2001:db8::1]:3272,1");

  // A target that is behind one, for who asks at another portal.
  ASSERT_TRUE(
      AddOther({{.tag = 3, .portals = {Portal("tcp://0.0.0.0:3260")}}}).ok());
  const auto found = node_.Discover(
      kOther, {Portal("tcp://[::]:3271"), "tcp", "[2001:db8::1]:3271"});
  EXPECT_TRUE(found.empty()) << "of the other family";
  const auto reached =
      node_.Discover(kOther, {Portal(one), "tcp", "192.0.2.1:3261"});
  ASSERT_EQ(reached.size(), 1u);
  EXPECT_EQ(absl::StrJoin(reached[0].portals, " "), "192.0.2.1:3260,3");
}

TEST_F(TargetNodeTest, DiscoveryOfOneTarget) {
  const TargetNode::Arrival arrival = {Portal("verbs://192.0.2.1"), "verbs",
                                       "192.0.2.1:3260"};
  EXPECT_EQ(node_.Discover(kName, arrival).size(), 1u);
  EXPECT_TRUE(node_.Discover("iqn.2026-11.x", arrival).empty());
}

TEST_F(TargetNodeTest, PortalGroupsAreTheTargets) {
  ASSERT_TRUE(AddOther({{.tag = 3, .portals = {Portal("verbs://192.0.2.1")}},
                        {.tag = 7, .portals = {Portal("verbs://192.0.2.2")}}})
                  .ok());
  EXPECT_EQ(TagAt("verbs://192.0.2.1", kName), 1);
  EXPECT_EQ(TagAt("verbs://192.0.2.1", kOther), 3);
  EXPECT_EQ(TagAt("verbs://192.0.2.2", kOther), 7);
  EXPECT_EQ(TagAt("tcp://0.0.0.0:3260", kOther), 0) << "not there";
  EXPECT_EQ(TagAt("tcp://0.0.0.0:3260", kName), 1);
  EXPECT_EQ(TagAt("verbs://192.0.2.2", kOther, SessionType::kDiscovery), 7);
  EXPECT_EQ(TagAt("tcp://0.0.0.0:3260", kOther, SessionType::kDiscovery), 0);
  EXPECT_EQ(TagAt("verbs://192.0.2.2", "", SessionType::kDiscovery), 0);
}

TEST_F(TargetNodeTest, DiscoveryTellsOfThePortalsOfATargetsGroups) {
  ASSERT_TRUE(AddOther({{.tag = 3, .portals = {Portal("verbs://192.0.2.1")}},
                        {.tag = 7, .portals = {Portal("verbs://192.0.2.2")}}})
                  .ok());
  const TargetNode::Arrival arrival = {Portal("verbs://192.0.2.2"), "verbs",
                                       "192.0.2.2:3260"};
  const auto found = node_.Discover(kOther, arrival);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(absl::StrJoin(found[0].portals, " "),
            "192.0.2.2:3260,7 192.0.2.1:3260,3");
  // Not there for who comes by another transport.
  EXPECT_TRUE(node_
                  .Discover(kOther, {Portal("tcp://0.0.0.0:3260"), "tcp",
                                     "192.0.2.9:3260"})
                  .empty());
}

TEST_F(TargetNodeTest, PortalGroupsThatCannotBeAreRefused) {
  const transport::Address portal = Portal("verbs://192.0.2.1");
  EXPECT_FALSE(AddOther({}).ok());
  EXPECT_FALSE(AddOther({{.tag = 0}}).ok());
  EXPECT_FALSE(AddOther({{.tag = 1}, {.tag = 2, .portals = {portal}}}).ok());
  EXPECT_FALSE(AddOther({{.tag = 2, .portals = {portal}},
                         {.tag = 2, .portals = {Portal("verbs://192.0.2.2")}}})
                   .ok());
  EXPECT_FALSE(AddOther({{.tag = 1, .portals = {portal}},
                         {.tag = 2, .portals = {portal}}})
                   .ok());
  EXPECT_TRUE(AddOther({{.tag = 2, .portals = {portal}}}).ok());
}

// One initiator port may have a session with each port of a target.
TEST_F(TargetNodeTest, AnotherPortalGroupIsAnotherSession) {
  LoginIdentity identity;
  identity.initiator_name = "iqn.2026-11.org.example:host";
  identity.target_name = kName;
  std::vector<std::string> ended;
  const auto log_in = [&](TargetNode::ConnectionId connection, uint16_t tag) {
    identity.target_portal_group_tag = tag;
    uint16_t tsih = 0;
    bool must_wait = false;
    EXPECT_EQ(node_.Register(
                  identity, LoginRequestPdu(), connection,
                  [](std::optional<TargetNode::ConnectionId>) {
                    return LoginStatus::kSuccess;
                  },
                  [&ended, connection](absl::string_view) {
                    ended.push_back(absl::StrCat(connection));
                  },
                  [] {}, &tsih, &must_wait),
              LoginStatus::kSuccess);
    return must_wait;
  };
  EXPECT_FALSE(log_in(1, 3));
  EXPECT_FALSE(log_in(2, 7));
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(log_in(3, 7));
  EXPECT_EQ(absl::StrJoin(ended, " "), "2");
}

TEST_F(TargetNodeTest, AClosedPortalIsNotDiscovered) {
  const TargetNode::PortalId portal = node_.AddPortal(
      Portal("tcp://0.0.0.0:0"), {Portal("tcp://192.0.2.9:4000")});
  node_.AddPortal(Portal("tcp://0.0.0.0:0"), {Portal("tcp://192.0.2.9:4001")});
  node_.RemovePortal(portal);
  node_.RemovePortal(portal);
  EXPECT_EQ(
      Portals("192.0.2.1:3261", "tcp://192.0.2.1:3261?receive_buffer=4MiB"),
      "192.0.2.1:3261,1 192.0.2.1:3260,1 192.0.2.9:4001,1");
}

TEST_F(TargetNodeTest, ATargetThatLeavesIsNotThereButItsNameIsTaken) {
  ASSERT_TRUE(node_.BeginRemoval(kName).ok());
  EXPECT_EQ(node_.FindTarget(kName), nullptr);
  EXPECT_EQ(TagAt("tcp://0.0.0.0:3260", kName), 0);
  EXPECT_TRUE(
      node_
          .Discover("", {Portal("tcp://0.0.0.0:3260"), "tcp", "192.0.2.1:3260"})
          .empty());
  EXPECT_EQ(node_.BeginRemoval(kName).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      node_.AddTarget(scsi::Target::Create(kName), "", {PortalGroup()}).code(),
      absl::StatusCode::kAlreadyExists);
  const std::shared_ptr<scsi::Target> target = node_.FinishRemoval(kName);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(node_.BeginRemoval(kName).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(node_.AddTarget(target, "", {PortalGroup()}).ok());
}

}  // namespace
}  // namespace skiff::protocol
