#include "protocol/target/shard_counts.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {
namespace {

ConnectionInfo Info(const std::string& data_model,
                    const std::string& transport) {
  ConnectionInfo info;
  info.data_model = data_model;
  info.transport = transport;
  return info;
}

ConnectionCounters Pdus(uint64_t in) {
  ConnectionCounters counters;
  counters.pdus_in = in;
  return counters;
}

TEST(ShardCountsTest, SumsTheConnectionsOfAPortal) {
  ShardCounts shard;
  PortalCounts* const tcp = shard.OfPortal("a", Info("iSCSI", "tcp"));
  EXPECT_EQ(shard.OfPortal("a", Info("iSCSI", "tcp")), tcp);
  EXPECT_NE(shard.OfPortal("a", Info("iSER", "verbs")), tcp);
  ShardCounts::Came(tcp);
  ShardCounts::Came(tcp);
  ShardCounts::Went(tcp, Pdus(5));
  ServerCounts counts = shard.Get();
  ASSERT_EQ(counts.portals.size(), 2u);
  EXPECT_EQ(counts.portals[0].portal, "a");
  EXPECT_EQ(counts.portals[0].data_model, "iSCSI");
  EXPECT_EQ(counts.portals[0].transport, "tcp");
  EXPECT_EQ(counts.portals[0].connections, 2u);
  EXPECT_EQ(counts.portals[0].open, 1u);
  AddToPortal(*tcp, Pdus(7), &counts);
  EXPECT_EQ(counts.portals[0].counters.pdus_in, 12u);
  EXPECT_EQ(counts.portals[1].counters.pdus_in, 0u);
}

TEST(ShardCountsTest, CountsRefusalsByStatus) {
  ShardCounts shard;
  shard.RefusedLogin(2, 1);
  shard.RefusedLogin(2, 1);
  shard.RefusedLogin(3, 2);
  std::map<std::string, uint64_t> refused = shard.Get().refused_logins;
  std::erase_if(refused, [](const auto& entry) { return entry.second == 0; });
  EXPECT_EQ(refused, (std::map<std::string, uint64_t>{
                         {"authentication failure (0x0201)", 2},
                         {"out of resources (0x0302)", 1}}));
}

TEST(ShardCountsTest, RefusalsAreThereBeforeTheyHappen) {
  const std::map<std::string, uint64_t> refused =
      ShardCounts().Get().refused_logins;
  EXPECT_EQ(refused.size(), 15u);
  for (const char* name :
       {"initiator error (0x0200)", "authentication failure (0x0201)",
        "target not found (0x0203)", "target error (0x0300)",
        "out of resources (0x0302)"}) {
    EXPECT_EQ(refused.count(name), 1u) << name;
  }
  for (const auto& [name, count] : refused) EXPECT_EQ(count, 0u) << name;
}

TEST(ShardCountsTest, AddsShards) {
  ShardCounts one;
  ShardCounts other;
  ShardCounts::Came(one.OfPortal("a", Info("iSCSI", "tcp")));
  ShardCounts::Came(other.OfPortal("a", Info("iSCSI", "tcp")));
  ShardCounts::Came(other.OfPortal("b", Info("iSCSI", "tcp")));
  one.LoggedIn();
  other.LoggedIn();
  other.Discovered();
  one.RefusedConnection();
  other.LeftUnfinished();
  other.DelayedRefusal();
  one.RefusedLogin(2, 3);
  other.RefusedLogin(2, 3);
  ServerCounts sum = one.Get();
  AddCounts(other.Get(), &sum);
  EXPECT_EQ(sum.logins, 2u);
  EXPECT_EQ(sum.discovery_logins, 1u);
  EXPECT_EQ(sum.refused_connections, 1u);
  EXPECT_EQ(sum.unfinished_logins, 1u);
  EXPECT_EQ(sum.delayed_refusals, 1u);
  EXPECT_EQ(sum.refused_logins.at("target not found (0x0203)"), 2u);
  ASSERT_EQ(sum.portals.size(), 2u);
  EXPECT_EQ(sum.portals[0].connections, 2u);
  EXPECT_EQ(sum.portals[1].connections, 1u);
}

TEST(ShardCountsTest, PortalsWithoutEndAreCountedAsOne) {
  ShardCounts shard;
  for (size_t i = 0; i < ShardCounts::kMaxPortals + 10; ++i) {
    ShardCounts::Came(
        shard.OfPortal(absl::StrCat("portal", i), Info("iSCSI", "tcp")));
  }
  const ServerCounts counts = shard.Get();
  EXPECT_EQ(counts.portals.size(), ShardCounts::kMaxPortals + 1);
  EXPECT_EQ(counts.portals[0].portal, "others");
  EXPECT_EQ(counts.portals[0].connections, 10u);
}

}  // namespace
}  // namespace skiff::protocol
