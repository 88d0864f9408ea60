// What a server counts of connections and logins.

#include "protocol/target/server_counts.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/raw_stream_peer.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class ServerCountsTest : public ::testing::Test {
 protected:
  void Start(const TargetServerLimits& limits = {}) {
    stack_.StopServer();
    stack_.server_options.limits = limits;
    stack_.StartServer();
  }
  PortalCounts Portal() {
    const ServerCounts counts = stack_.Counts();
    EXPECT_EQ(counts.portals.size(), 1u);
    return counts.portals.empty() ? PortalCounts() : counts.portals[0];
  }

  SimStack stack_{testing::SimWorld::SeedFromEnvironment(1),
                  /*server_reactors=*/3};
};

TEST_F(ServerCountsTest, LoginsByWhatBecameOfThem) {
  TargetServerLimits limits;
  limits.connections.max_connections = 6;
  Start(limits);
  RawPeer first(&stack_);
  first.LogIn(1);
  RawPeer second(&stack_);
  second.LogIn(2);
  RawPeer discovery(&stack_);
  discovery.LogIn(3, "");
  RawPeer lost(&stack_);
  lost.LogIn(4, "iqn.2001-04.com.example:nothing");
  EXPECT_EQ(lost.LoginStatus(), 0x0203);
  RawPeer silent(&stack_);
  stack_.RunFor(limits.login_timeout + absl::Seconds(10));
  const ServerCounts counts = stack_.Counts();
  EXPECT_EQ(counts.logins, 2u);
  EXPECT_EQ(counts.discovery_logins, 1u);
  // The others are there, with 0.
  std::map<std::string, uint64_t> refused = counts.refused_logins;
  std::erase_if(refused, [](const auto& one) { return one.second == 0; });
  EXPECT_THAT(refused, ElementsAre(Pair("target not found (0x0203)", 1u)));
  EXPECT_EQ(counts.unfinished_logins, 1u);
  EXPECT_EQ(counts.refused_connections, 0u);
}

TEST_F(ServerCountsTest, ConnectionsThatAreRefused) {
  TargetServerLimits limits;
  limits.connections.max_connections = 1;
  limits.connections.max_connections_in_login = 1;
  Start(limits);
  RawPeer first(&stack_);
  first.LogIn(1);
  RawPeer second(&stack_);
  stack_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(second.closed());
  EXPECT_EQ(stack_.Counts().refused_connections, 1u);
}

TEST_F(ServerCountsTest, WhatConnectionsDidStaysWhenTheyAreGone) {
  Start();
  {
    RawPeer peer(&stack_);
    peer.LogIn(1);
    const PortalCounts open = Portal();
    EXPECT_EQ(open.portal, "sim://server:3260");
    EXPECT_EQ(open.data_model, "iSCSI");
    EXPECT_EQ(open.transport, "sim");
    EXPECT_EQ(open.connections, 1u);
    EXPECT_EQ(open.open, 1u);
    EXPECT_EQ(open.counters.pdus_in, 1u);
  }
  stack_.RunFor(absl::Seconds(1));
  EXPECT_EQ(Portal().open, 0u);
  EXPECT_EQ(Portal().connections, 1u);
  EXPECT_EQ(Portal().counters.pdus_in, 1u);
  RawPeer again(&stack_);
  again.LogIn(1);
  EXPECT_EQ(Portal().connections, 2u);
  EXPECT_EQ(Portal().counters.pdus_in, 2u);
}

}  // namespace
}  // namespace skiff::protocol
