#include "transport/reactor/turn_shares.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using Member = TurnShares::Member;
using Grant = TurnShares::Grant;

constexpr absl::Duration kMicrosecond = absl::Microseconds(1);

class TurnSharesTest : public testing::Test {
 protected:
  // A pass that takes that long, in the current turn.
  Grant Pass(Member* member, absl::Duration took) {
    const Grant grant = shares_.Begin(member, now_);
    shares_.End(member, now_, grant, /*finished=*/true, took);
    turn_took_ += took;
    return grant;
  }
  void EndTurn(absl::Duration idle = kMicrosecond) {
    now_ += turn_took_ + idle;
    turn_took_ = absl::ZeroDuration();
  }
  // A pass that takes what it may.
  Grant Flood(Member* member) {
    const Grant grant = shares_.Begin(member, now_);
    shares_.End(member, now_, grant, /*finished=*/false, grant.time);
    turn_took_ += grant.time;
    return grant;
  }

  TurnShares shares_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Duration turn_took_;
  Member flood_;
  Member other_;
};

TEST_F(TurnSharesTest, OneAloneIsNotTimed) {
  for (int i = 0; i < 10000; ++i) {
    const Grant grant = Flood(&flood_);
    EXPECT_TRUE(grant.alone);
    EXPECT_FALSE(grant.greedy);
    EXPECT_EQ(grant.bytes, TurnShares::kMostBytes);
    EndTurn();
  }
}

TEST_F(TurnSharesTest, TurnsAreShortWhereTheProcessorIsCrowded) {
  shares_.set_crowded(true);
  for (int i = 0; i < 10000; ++i) {
    const Grant grant = Flood(&flood_);
    EXPECT_FALSE(grant.alone);
    EXPECT_FALSE(grant.greedy);
    EXPECT_EQ(grant.time, TurnShares::kPassesCrowded);
    EndTurn();
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(Pass(&other_, 20 * kMicrosecond).time,
              TurnShares::kPassesCrowded);
    EXPECT_LE(Flood(&flood_).time, TurnShares::kPassesCrowded);
    EndTurn();
  }
  EXPECT_TRUE(shares_.Begin(&flood_, now_).greedy);
  EXPECT_FALSE(shares_.Begin(&other_, now_).greedy);
  EndTurn(2 * TurnShares::kEpoch);
  Flood(&flood_);
  EndTurn();
  EXPECT_FALSE(Flood(&flood_).greedy);
  shares_.set_crowded(false);
  EndTurn(absl::Seconds(1));
  EXPECT_TRUE(Flood(&flood_).alone);
}

TEST_F(TurnSharesTest, LooksInVainAreNoWork) {
  for (int i = 0; i < 10000; ++i) {
    shares_.Begin(&other_, now_);  // Without an End().
    EXPECT_TRUE(Flood(&flood_).alone);
    EndTurn();
  }
}

TEST_F(TurnSharesTest, WhoeverUsesMoreComesLastAndGetsLittle) {
  for (int i = 0; i < 1000; ++i) {
    const Grant other = Pass(&other_, 20 * kMicrosecond);
    EXPECT_FALSE(other.greedy);
    const Grant flood = Flood(&flood_);
    if (i > 1) {
      EXPECT_FALSE(other.alone);
      EXPECT_FALSE(flood.alone);
    }
    EXPECT_LE(flood.time, TurnShares::kPasses / 2);
    // As much as the other, which is then its part.
    if (flood.greedy) {
      EXPECT_EQ(flood.time, 20 * kMicrosecond);
      EXPECT_LE(flood.bytes, TurnShares::kMostBytesOfGreedy);
    }
    EndTurn();
  }
  absl::Duration used_by_flood;
  for (int i = 0; i < 1000; ++i) {
    Pass(&other_, 20 * kMicrosecond);
    used_by_flood += Flood(&flood_).time;
    EndTurn();
  }
  EXPECT_EQ(used_by_flood / 1000, 20 * kMicrosecond);
}

TEST_F(TurnSharesTest, WhatOthersLeaveIsTheGreedyOnes) {
  for (int turn = 0; turn < 1000; ++turn) {
    if (turn % 10 == 0) Pass(&other_, 20 * kMicrosecond);
    const Grant flood = Flood(&flood_);
    if (turn > 100) {
      EXPECT_TRUE(flood.greedy);
      EXPECT_EQ(flood.time,
                turn % 10 == 0 ? 20 * kMicrosecond : TurnShares::kShortPass);
    }
    EndTurn();
  }
}

TEST_F(TurnSharesTest, EqualsKeepTheirBatches) {
  std::vector<Member> members(4);
  for (int turn = 0; turn < 1000; ++turn) {
    for (Member& member : members) {
      const Grant grant = Pass(&member, (30 + turn % 7) * kMicrosecond);
      EXPECT_FALSE(grant.greedy);
      EXPECT_EQ(grant.bytes, TurnShares::kMostBytes);
    }
    EndTurn();
  }
}

TEST_F(TurnSharesTest, ManyWhoWantAllGetShortPasses) {
  std::vector<Member> members(64);
  absl::Duration longest;
  for (int turn = 0; turn < 100; ++turn) {
    for (Member& member : members) Flood(&member);
    if (turn > 1) longest = std::max(longest, turn_took_);
    EndTurn();
  }
  EXPECT_LE(longest, 64 * TurnShares::kShortPass);
}

TEST_F(TurnSharesTest, WorkThatCostsMuchIsTakenInSmallPieces) {
  size_t bytes = 0;
  for (int turn = 0; turn < 100; ++turn) {
    Pass(&other_, 20 * kMicrosecond);
    bytes = Pass(&flood_, absl::Milliseconds(3)).bytes;
    EndTurn();
  }
  EXPECT_EQ(bytes, TurnShares::kLeastBytes);
  for (int turn = 0; turn < 100; ++turn) {
    Pass(&other_, 20 * kMicrosecond);
    bytes = Pass(&flood_, kMicrosecond).bytes;
    EndTurn(absl::Milliseconds(1));
  }
  EXPECT_EQ(bytes, TurnShares::kMostBytes);
}

TEST_F(TurnSharesTest, TheOthersLeave) {
  for (int turn = 0; turn < 100; ++turn) {
    Pass(&other_, 20 * kMicrosecond);
    Flood(&flood_);
    EndTurn();
  }
  EXPECT_TRUE(Flood(&flood_).greedy);
  EndTurn(2 * TurnShares::kEpoch);
  Flood(&flood_);
  EndTurn();
  EXPECT_TRUE(Flood(&flood_).alone);
}

}  // namespace
}  // namespace skiff::transport
