#include "tools/metrics/initiator_totals.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace skiff::tools::metrics {
namespace {

const absl::Time kStart = absl::UnixEpoch();

protocol::SessionInfo Session(uint64_t id, const std::string& initiator,
                              uint64_t reads) {
  protocol::SessionInfo session;
  session.id = id;
  session.initiator_name = initiator;
  session.target_name = "iqn.a";
  session.logged_in = true;
  session.connection.data_model = "iSER";
  session.connection.transport = "verbs";
  session.counts.reads = reads;
  session.counts.in_flight = 1;
  return session;
}

// Of that initiator, or one without anything.
InitiatorTotal Of(const InitiatorTotals& totals, const std::string& initiator) {
  for (const InitiatorTotal& total : totals.Get()) {
    if (total.initiator == initiator) return total;
  }
  return {};
}

TEST(InitiatorTotalsTest, SessionsOfOneInitiatorAreAdded) {
  InitiatorTotals totals;
  totals.Update(
      {Session(1, "iqn.i", 2), Session(2, "iqn.i", 3), Session(3, "iqn.j", 4)},
      kStart);
  const InitiatorTotal total = Of(totals, "iqn.i");
  EXPECT_EQ(total.sessions, 2u);
  EXPECT_EQ(total.counts.reads, 5u);
  EXPECT_EQ(total.counts.in_flight, 2u);
  EXPECT_EQ(total.target, "iqn.a");
  EXPECT_EQ(total.data_model, "iSER");
  EXPECT_EQ(total.transport, "verbs");
  EXPECT_EQ(Of(totals, "iqn.j").counts.reads, 4u);
}

TEST(InitiatorTotalsTest, WhatWasDoneStaysWhenASessionEnds) {
  InitiatorTotals totals;
  totals.Update({Session(1, "iqn.i", 20), Session(2, "iqn.i", 30)}, kStart);
  totals.Update({Session(2, "iqn.i", 31)}, kStart);
  EXPECT_EQ(Of(totals, "iqn.i").counts.reads, 51u);
  EXPECT_EQ(Of(totals, "iqn.i").sessions, 1u);
  // Another one begins at 0.
  totals.Update({Session(2, "iqn.i", 31), Session(3, "iqn.i", 1)}, kStart);
  EXPECT_EQ(Of(totals, "iqn.i").counts.reads, 52u);
  totals.Update({}, kStart);
  EXPECT_EQ(Of(totals, "iqn.i").counts.reads, 52u);
  EXPECT_EQ(Of(totals, "iqn.i").counts.in_flight, 0u);
  EXPECT_EQ(Of(totals, "iqn.i").sessions, 0u);
}

TEST(InitiatorTotalsTest, WhoIsNotLoggedInIsNobody) {
  InitiatorTotals totals;
  protocol::SessionInfo session = Session(1, "iqn.i", 0);
  session.logged_in = false;
  totals.Update({session}, kStart);
  EXPECT_TRUE(totals.Get().empty());
}

TEST(InitiatorTotalsTest, DiscoveryHasNoTarget) {
  InitiatorTotals totals;
  protocol::SessionInfo session = Session(1, "iqn.i", 0);
  session.discovery = true;
  session.target_name = "whatever it says";
  totals.Update({session}, kStart);
  ASSERT_EQ(totals.Get().size(), 1u);
  EXPECT_EQ(totals.Get()[0].target, "");
}

TEST(InitiatorTotalsTest, TenThousandAtOnceAreAFewSeries) {
  InitiatorTotals totals;
  std::vector<protocol::SessionInfo> sessions;
  for (uint64_t i = 0; i < 10000; ++i) {
    sessions.push_back(Session(i, absl::StrCat("iqn.", i), 1));
  }
  totals.Update(sessions, kStart);
  EXPECT_EQ(totals.Get().size(), 1001u);
  EXPECT_EQ(Of(totals, "others").sessions, 9000u);
  EXPECT_EQ(Of(totals, "others").counts.reads, 9000u);
}

TEST(InitiatorTotalsTest, TenThousandInTurnsAreAFewSeries) {
  InitiatorTotals totals({.max_initiators = 10});
  for (uint64_t i = 0; i < 10000; ++i) {
    totals.Update({Session(i, absl::StrCat("iqn.", i), 1)},
                  kStart + absl::Milliseconds(i));
  }
  EXPECT_EQ(totals.Get().size(), 11u);
  EXPECT_EQ(Of(totals, "others").counts.reads, 9990u);
}

TEST(InitiatorTotalsTest, WhoIsGoneForLongMakesRoom) {
  InitiatorTotals totals({.max_initiators = 2, .keep = absl::Minutes(60)});
  totals.Update({Session(1, "iqn.stays", 1), Session(2, "iqn.goes", 1)},
                kStart);
  const auto minute = [](int minutes) {
    return kStart + absl::Minutes(minutes);
  };
  totals.Update({Session(1, "iqn.stays", 2), Session(3, "iqn.early", 1)},
                minute(59));
  EXPECT_EQ(Of(totals, "iqn.goes").counts.reads, 1u);
  EXPECT_EQ(Of(totals, "iqn.early").sessions, 0u);
  EXPECT_EQ(Of(totals, "others").counts.reads, 1u);
  totals.Update({Session(1, "iqn.stays", 3), Session(3, "iqn.early", 2),
                 Session(4, "iqn.late", 7)},
                minute(61));
  EXPECT_EQ(Of(totals, "iqn.goes").counts.reads, 0u);
  EXPECT_EQ(Of(totals, "iqn.late").counts.reads, 7u);
  EXPECT_EQ(Of(totals, "iqn.stays").counts.reads, 3u);
  // Whose counts began there stays there, so that none becomes less.
  EXPECT_EQ(Of(totals, "others").counts.reads, 2u);
}

}  // namespace
}  // namespace skiff::tools::metrics
