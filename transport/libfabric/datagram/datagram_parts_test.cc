// What the states of a connection over datagrams keep.

#include "gtest/gtest.h"
#include "transport/libfabric/datagram/farewell.h"
#include "transport/libfabric/datagram/probe_exchange.h"
#include "transport/libfabric/datagram/refusal_watch.h"
#include "transport/libfabric/datagram/sleep_watch.h"

namespace skiff::transport {
namespace {

TEST(ProbeExchangeTest, TheConnectingEndSendsFirst) {
  ProbeExchange probes;
  EXPECT_TRUE(probes.our_turn());
  probes.Tried(/*taken=*/true);
  EXPECT_FALSE(probes.our_turn());
  probes.Sent();
  EXPECT_FALSE(probes.through());
  probes.Received(/*is_the_peers=*/true);
  EXPECT_TRUE(probes.through());
}

TEST(ProbeExchangeTest, TheAcceptingEndAnswers) {
  ProbeExchange probes;
  probes.Accepts();
  EXPECT_FALSE(probes.our_turn());
  probes.Received(/*is_the_peers=*/true);
  EXPECT_TRUE(probes.our_turn());
  probes.Tried(/*taken=*/true);
  EXPECT_FALSE(probes.our_turn());
  EXPECT_FALSE(probes.through());
  probes.Sent();
  EXPECT_TRUE(probes.through());
}

TEST(ProbeExchangeTest, AStrangersProbeIsNone) {
  ProbeExchange probes;
  probes.Accepts();
  probes.Received(/*is_the_peers=*/false);
  EXPECT_FALSE(probes.our_turn());
}

TEST(ProbeExchangeTest, ARefusedProbeIsTriedAgain) {
  ProbeExchange probes;
  probes.Tried(/*taken=*/false);
  EXPECT_TRUE(probes.refused());
  EXPECT_FALSE(probes.our_turn());
  probes.Received(/*is_the_peers=*/true);
  EXPECT_FALSE(probes.our_turn());
  EXPECT_FALSE(probes.through());
  probes.Tried(/*taken=*/true);
  EXPECT_FALSE(probes.refused());
  probes.Sent();
  EXPECT_TRUE(probes.through());
}

using Answer = SleepWatch::Answer;

TEST(SleepWatchTest, ThePeerIsToldOnceOfEachSleep) {
  SleepWatch watch;
  EXPECT_TRUE(watch.Sleep());
  EXPECT_FALSE(watch.Sleep());
  watch.Woken();
  EXPECT_TRUE(watch.Sleep());
}

TEST(SleepWatchTest, APeerWithNothingToDoIsWokenAtTheNextPost) {
  SleepWatch watch;
  EXPECT_FALSE(watch.WakePeer());
  EXPECT_EQ(watch.PeerSleeps({.sent = 0, .received = 0}),
            Answer::kWakeAtNextPost);
  EXPECT_TRUE(watch.WakePeer());
  EXPECT_FALSE(watch.WakePeer());
}

TEST(SleepWatchTest, APeerThatMissedAMessageIsWokenAtOnceAndThenSlowly) {
  SleepWatch watch;
  EXPECT_EQ(watch.PeerSleeps({.sent = 2, .received = 1}), Answer::kWake);
  EXPECT_FALSE(watch.WakePeer());
  // It has looked, and taken nothing.
  EXPECT_EQ(watch.PeerSleeps({.sent = 2, .received = 1}), Answer::kWakeLater);
  EXPECT_EQ(watch.PeerSleeps({.sent = 3, .received = 2}), Answer::kWake);
  EXPECT_EQ(watch.PeerSleeps({.sent = 3, .received = 3}),
            Answer::kWakeAtNextPost);
}

TEST(SleepWatchTest, APeerThatMissedAnOperationIsWoken) {
  SleepWatch watch;
  EXPECT_EQ(watch.PeerSleeps({.one_sided = 1, .waits_for_peer = true}),
            Answer::kWake);
  EXPECT_EQ(watch.PeerSleeps({.one_sided = 1, .waits_for_peer = true}),
            Answer::kWakeLater);
  EXPECT_EQ(watch.PeerSleeps({.one_sided = 2}), Answer::kWake);
  EXPECT_EQ(watch.PeerSleeps({.one_sided = 2}), Answer::kWakeAtNextPost);
}

TEST(RefusalWatchTest, TwoAnswersThatLackTheSameAreARefusal) {
  RefusalWatch watch;
  watch.Asked(3);
  EXPECT_FALSE(watch.Answered(2));
  watch.Asked(3);
  EXPECT_TRUE(watch.Answered(2));
  EXPECT_EQ(watch.served(), 2u);
}

TEST(RefusalWatchTest, AnswersThatMoveAreNone) {
  RefusalWatch watch;
  watch.Asked(3);
  EXPECT_FALSE(watch.Answered(1));
  watch.Asked(4);
  EXPECT_FALSE(watch.Answered(2));
  watch.Asked(4);
  EXPECT_FALSE(watch.Answered(4));
  watch.Asked(4);
  EXPECT_FALSE(watch.Answered(4));
  watch.Asked(5);
  EXPECT_FALSE(watch.Answered(4));
}

using Step = FarewellStep;

TEST(FarewellTest, EachStepWaitsForThePeers) {
  Farewell farewell;
  EXPECT_EQ(farewell.Next(), Step::kNothing);
  farewell.Begin();
  EXPECT_EQ(farewell.Next(), Step::kNothing);
  farewell.Heard(Step::kDisconnect);
  EXPECT_EQ(farewell.Next(), Step::kDisconnected);
  EXPECT_EQ(farewell.Next(), Step::kNothing);
  farewell.Heard(Step::kDisconnected);
  EXPECT_EQ(farewell.Next(), Step::kQuiet);
  EXPECT_EQ(farewell.Next(), Step::kNothing);
  EXPECT_FALSE(farewell.over());
  farewell.Heard(Step::kQuiet);
  EXPECT_TRUE(farewell.over());
}

TEST(FarewellTest, WhatThePeerSaidFirstCounts) {
  Farewell farewell;
  farewell.Heard(Step::kDisconnect);
  EXPECT_EQ(farewell.Next(), Step::kNothing);
  farewell.Begin();
  EXPECT_EQ(farewell.Next(), Step::kDisconnected);
}

// Two ends whose messages pass each other, in any order.
TEST(FarewellTest, TwoEndsComeToTheEnd) {
  for (unsigned order = 0; order < 1u << 8; ++order) {
    Farewell ends[2];
    Step sent[2] = {Step::kDisconnect, Step::kDisconnect};
    ends[0].Begin();
    ends[1].Begin();
    for (unsigned turn = 0; turn < 16; ++turn) {
      const unsigned hears = (order >> (turn % 8)) & 1;
      ends[hears].Heard(sent[1 - hears]);
      const Step next = ends[hears].Next();
      if (next != Step::kNothing) sent[hears] = next;
    }
    for (unsigned turn = 0; turn < 8; ++turn) {
      const unsigned hears = turn % 2;
      ends[hears].Heard(sent[1 - hears]);
      const Step next = ends[hears].Next();
      if (next != Step::kNothing) sent[hears] = next;
    }
    EXPECT_TRUE(ends[0].over() && ends[1].over()) << order;
  }
}

}  // namespace
}  // namespace skiff::transport
