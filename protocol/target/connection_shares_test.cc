#include "protocol/target/connection_shares.h"

#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

class ConnectionSharesTest : public ::testing::Test {
 protected:
  ConnectionSharesTest() : shares_(Limits()) {}

  static ConnectionLimits Limits() {
    ConnectionLimits limits;
    limits.max_connections = 20;
    limits.max_connections_in_login = 8;
    limits.max_discovery_sessions = 6;
    limits.max_logins_per_peer = 4;
    limits.max_discovery_per_peer = 3;
    limits.max_sessions_per_peer = 5;
    return limits;
  }

  // Each a little later than the one before.
  std::string Arrive(ConnectionShares::Id id, const std::string& host) {
    now_ += absl::Milliseconds(1);
    return shares_.Arrive(id, absl::StrCat(host, ":", 1000 + id), now_,
                          [this, id](absl::string_view) { ended_.insert(id); });
  }

  absl::Time now_ = absl::UnixEpoch();
  std::set<ConnectionShares::Id> ended_;
  ConnectionShares shares_;
};

using Ids = std::set<ConnectionShares::Id>;

TEST_F(ConnectionSharesTest, TheOldestMuteOneOfAPeerGivesWay) {
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(Arrive(i, "a"), "");
  shares_.Heard(1, now_);
  EXPECT_EQ(Arrive(5, "a"), "");
  EXPECT_EQ(ended_, Ids({2}));
  EXPECT_TRUE(shares_.leaving(2));
  EXPECT_EQ(Arrive(6, "b"), "");
  EXPECT_EQ(ended_, Ids({2}));
}

TEST_F(ConnectionSharesTest, WhoSpeaksIsLeftAlone) {
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(Arrive(i, "a"), "");
  for (int i = 1; i <= 4; ++i) shares_.Heard(i, now_);
  EXPECT_EQ(Arrive(5, "a"), "max_logins_per_peer is reached");
  EXPECT_EQ(ended_, Ids());
  now_ += ConnectionShares::kPatience;
  shares_.Heard(1, now_);
  EXPECT_EQ(Arrive(6, "a"), "");
  EXPECT_EQ(ended_, Ids({2}));
}

TEST_F(ConnectionSharesTest, TheAddressWithTheMostGivesWay) {
  EXPECT_EQ(Arrive(1, "a"), "");
  for (int i = 2; i <= 5; ++i) EXPECT_EQ(Arrive(i, "b"), "");
  for (int i = 6; i <= 8; ++i) EXPECT_EQ(Arrive(i, "c"), "");
  EXPECT_EQ(Arrive(9, "d"), "");
  EXPECT_EQ(ended_, Ids({2}));
  // b and c have three each: whoever comes again pays.
  EXPECT_EQ(Arrive(10, "c"), "");
  EXPECT_EQ(ended_, Ids({2, 6}));
}

// Two addresses that say a byte now and then, in all places.
TEST_F(ConnectionSharesTest, WhoTricklesMakesRoomForWhoHasLess) {
  for (int i = 1; i <= 8; ++i) EXPECT_EQ(Arrive(i, i <= 4 ? "a" : "b"), "");
  for (int i = 1; i <= 8; ++i) shares_.Heard(i, now_);
  EXPECT_EQ(Arrive(9, "c"), "");
  EXPECT_EQ(ended_.size(), 1u);
}

// Nobody has proved yet that the name is its own.
TEST_F(ConnectionSharesTest, WhoTakesTheNameOfAnotherMakesRoomForIt) {
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(Arrive(i, "a"), "");
    EXPECT_EQ(shares_.Identify(i, "iqn.x", now_), "");
  }
  EXPECT_EQ(Arrive(5, "b"), "");
  EXPECT_EQ(shares_.Identify(5, "iqn.x", now_), "");
  EXPECT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_.count(5), 0u);
}

TEST_F(ConnectionSharesTest, WhatGivesWayStillCountsUntilTooManyDo) {
  ConnectionShares::Id id = 1;
  for (int i = 0; i < 28; ++i) EXPECT_EQ(Arrive(id++, "a"), "") << i;
  EXPECT_EQ(Arrive(id++, "b"),
            "max_connections is reached, and those that end are not gone yet");
  for (const ConnectionShares::Id gone : ended_) shares_.Gone(gone);
  EXPECT_EQ(Arrive(id++, "b"), "");
}

TEST_F(ConnectionSharesTest, NamesHaveSharesToo) {
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(Arrive(i, absl::StrCat("host", i)), "");
    EXPECT_EQ(shares_.Identify(i, "iqn.x", now_), "");
    EXPECT_EQ(shares_.Enter(i, /*discovery=*/false, now_), "");
  }
  EXPECT_EQ(Arrive(6, "host6"), "");
  EXPECT_EQ(shares_.Identify(6, "iqn.x", now_), "");
  EXPECT_EQ(shares_.Enter(6, false, now_), "max_sessions_per_peer is reached");
  shares_.Leave(3);
  EXPECT_EQ(shares_.Enter(6, false, now_), "");
  // In login, too.
  for (int i = 11; i <= 15; ++i) {
    EXPECT_EQ(Arrive(i, absl::StrCat("host", i)), "");
    EXPECT_EQ(shares_.Identify(i, "iqn.y", now_),
              i < 15 ? "" : "max_logins_per_peer is reached");
  }
}

TEST_F(ConnectionSharesTest, ASessionMayTakeThePlaceOfItsOwn) {
  const auto enter = [this](int id, const std::string& host,
                            const std::string& name,
                            std::optional<ConnectionShares::Id> replaced = {}) {
    EXPECT_EQ(Arrive(id, host), "");
    EXPECT_EQ(shares_.Identify(id, name, now_), "");
    return shares_.Enter(id, /*discovery=*/false, now_, replaced);
  };
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(enter(i, "a", "iqn.x"), "");
  EXPECT_EQ(enter(6, "b", "iqn.y"), "");
  // "a" has no place, whether "b" gives one up or not.
  EXPECT_EQ(enter(7, "a", "iqn.y", 6), "max_sessions_per_peer is reached");
  EXPECT_FALSE(shares_.leaving(6));
  EXPECT_EQ(enter(8, "a", "iqn.x", 5), "");
  EXPECT_TRUE(shares_.leaving(5));
  EXPECT_EQ(enter(9, "b", "iqn.x", 4), "") << "the name keeps its number";
  EXPECT_EQ(enter(10, "a", "iqn.z"), "");
}

TEST_F(ConnectionSharesTest, TheQuietestDiscoverySessionGivesWay) {
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(Arrive(i, "a"), "");
    EXPECT_EQ(shares_.Identify(i, "iqn.x", now_), "");
    EXPECT_EQ(shares_.Enter(i, /*discovery=*/true, now_),
              i < 4 ? "" : "max_discovery_per_peer is reached");
  }
  now_ += ConnectionShares::kPatience;
  shares_.Heard(1, now_);
  EXPECT_EQ(shares_.Enter(4, true, now_), "");
  EXPECT_EQ(ended_, Ids({2}));
  // And makes room for a login where there is none.
  int id = 100;
  for (int i = 0; i < 17; ++i, ++id) {
    EXPECT_EQ(Arrive(id, absl::StrCat("host", i)), "");
    EXPECT_EQ(shares_.Enter(id, false, now_), "");
  }
  EXPECT_EQ(Arrive(id, "b"), "");
  EXPECT_EQ(ended_, Ids({2, 3}));
  shares_.Heard(id, now_);
  EXPECT_EQ(Arrive(id + 1, "b"), "max_connections is reached");
}

TEST_F(ConnectionSharesTest, NothingIsLeftOfWhatIsGone) {
  for (int round = 0; round < 100; ++round) {
    for (int i = 1; i <= 4; ++i) {
      EXPECT_EQ(Arrive(i, "a"), "");
      EXPECT_EQ(shares_.Identify(i, "iqn.x", now_), "");
      EXPECT_EQ(shares_.Enter(i, false, now_), "");
    }
    for (int i = 1; i <= 4; ++i) shares_.Gone(i);
  }
  EXPECT_EQ(ended_, Ids());
}

TEST(PeerOfAddressTest, IsTheHostOrItsNetwork) {
  EXPECT_EQ(PeerOfAddress("192.0.2.7:3260"), "192.0.2.7");
  EXPECT_EQ(PeerOfAddress("client:1"), "client");
  EXPECT_EQ(PeerOfAddress("[2001:db8:1:2:3:4:5:6]:7"), "2001:db8:1:2::/64");
  EXPECT_EQ(PeerOfAddress("[2001:db8:1:2::9]:8"), "2001:db8:1:2::/64");
  EXPECT_EQ(PeerOfAddress("[fe80::1%eth0]:7"), "fe80::1%eth0");
  EXPECT_EQ(PeerOfAddress("[fe80::2]:7"), "fe80::2");
  EXPECT_EQ(PeerOfAddress("[::1]:7"), "::/64");
  EXPECT_EQ(PeerOfAddress(""), "");
}

}  // namespace
}  // namespace skiff::protocol
