#include "protocol/initiator/initiator_life.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/initiator/initiator_life_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using Life = InitiatorLife;
using How = Life::SessionEnd::How;

// --- Each event in each step.

struct Place {
  const char* where;
  std::function<void(Player*)> go;
  const char* events;  // Those that do something there, in the order of Events.
};

struct Event {
  char letter;
  std::function<void(Player*)> happen;
};

std::vector<Event> Events() {
  return {
      {'s', [](Player* p) { p->Start(); }},
      {'c', [](Player* p) { p->Connected(); }},
      {'f', [](Player* p) { p->ConnectFailed(); }},
      {'F', [](Player* p) { p->ConnectFailed(OverRdma()); }},
      {'l', [](Player* p) { p->LoggedIn(); }},
      {'r', [](Player* p) { p->Ended(RedirectTo("there")); }},
      {'n', [](Player* p) { p->Ended(End(How::kLoginFailed)); }},
      {'o', [](Player* p) { p->Ended(End(How::kLoggedOut)); }},
      {'x', [](Player* p) { p->Lose(); }},
      {'m',
       [](Player* p) {
         p->life.MoveReached();
         p->said.clear();
       }},
      {'M', [](Player* p) { p->Do(p->life.MoveFailed(p->now)); }},
      {'u',
       [](Player* p) {
         p->Do(p->life.MoveUnusable(p->now, absl::UnavailableError("no")));
       }},
      {'q', [](Player* p) { p->ContinueMove(true); }},
      {'b', [](Player* p) { p->ContinueMove(false); }},
      {'a',
       [](Player* p) {
         p->life.Answered();
         p->said.clear();
       }},
      {'L', [](Player* p) { p->LogOut(true); }},
      {'k', [](Player* p) { p->LogOut(false); }},
      {'t',
       [](Player* p) {
         p->now += absl::Hours(1);
         p->Do(p->life.OnTimer(p->now));
       }},
      {'e', [](Player* p) { p->Do(p->life.Close(absl::CancelledError(""))); }},
  };
}

std::vector<Place> Places() {
  return {
      {"connecting", [](Player*) {}, "sLke"},
      {"connecting, reaching", [](Player* p) { p->GoReaching(); }, "cfFLke"},
      {"connecting, logging in", [](Player* p) { p->GoLoggingIn(); },
       "lrnoxLke"},
      {"up", [](Player* p) { p->GoUp(); }, "rnoxLkte"},
      {"up, unproved", [](Player* p) { p->GoUnproved(); }, "rnoxaLkte"},
      {"moving, reaching rdma", [](Player* p) { p->GoReachingRdma(); },
       "rnoxmMuLke"},
      {"moving, holding", [](Player* p) { p->GoHolding(); }, "rnoxMuqLke"},
      {"moving, logging out", [](Player* p) { p->GoLoggingOut(); }, "rnoxLte"},
      {"moving, reaching", [](Player* p) { p->GoReplacing(); }, "cfFLke"},
      {"moving, logging in",
       [](Player* p) {
         p->GoReplacing();
         p->Connected();
       },
       "lrnoxLke"},
      {"outage, pausing", [](Player* p) { p->GoOutage(); }, "Lkte"},
      {"outage, reaching",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
       },
       "cfFLkte"},
      {"outage, logging in",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
         p->Connected();
       },
       "lrnoxLkte"},
      {"closed", [](Player* p) { p->GoClosed(); }, "Lk"},
  };
}

TEST(InitiatorLifeTest, EachEventInEachStep) {
  for (const Place& place : Places()) {
    std::string events;
    for (const Event& event : Events()) {
      Player player;
      place.go(&player);
      ASSERT_EQ(Where(player.life), place.where);
      event.happen(&player);
      if (!player.said.empty() || Where(player.life) != place.where) {
        events.push_back(event.letter);
      }
      // It can be ended from everywhere, and then nothing leads back.
      player.life.Close(absl::CancelledError("end"));
      EXPECT_TRUE(player.life.closed());
      for (const Event& late : Events()) late.happen(&player);
      EXPECT_EQ(Where(player.life), "closed");
      EXPECT_EQ(player.life.next_deadline(), absl::InfiniteFuture());
      EXPECT_TRUE(player.life.refuses_commands());
    }
    EXPECT_EQ(events, place.events) << place.where;
  }
}

// --- What the table does not show.

// An answer ends the outage, but a target that gives one and ends the session
// is asked ever more seldom.
TEST(InitiatorLifeTest, PausesGrowUntilASessionLasts) {
  Player player;
  player.GoUp();
  for (const int pause : {1, 2, 4, 4}) {
    player.Lose();
    const absl::Time lost = player.now;
    player.Timer();
    EXPECT_EQ(player.now - lost, pause * kSecond);
    player.Connected();
    player.LoggedIn(/*commands_wait=*/true);
    EXPECT_TRUE(player.life.unproved());
    player.life.Answered();
    EXPECT_FALSE(player.life.unproved());
  }
  player.now += 4 * kSecond - absl::Nanoseconds(1);
  player.Lose();
  EXPECT_EQ(player.life.next_deadline() - player.now, 4 * kSecond);
  player.Timer();
  player.Connected();
  player.LoggedIn();
  player.now += 4 * kSecond;
  player.Lose();
  EXPECT_EQ(player.life.next_deadline() - player.now, kSecond);
}

TEST(InitiatorLifeTest, AMoveThatIsDroppedDoesNotMakeASessionYounger) {
  Player player;
  player.GoOutage();
  player.Timer();
  player.ConnectFailed();
  player.Timer();
  player.Connected();
  player.LoggedIn();
  player.Timer();
  player.life.MoveReached();
  player.Do(player.life.MoveFailed(player.now));
  player.Lose();
  EXPECT_EQ(player.life.next_deadline() - player.now, kSecond);
}

TEST(InitiatorLifeTest, WithoutCommandsALoginEndsTheOutage) {
  Player player;
  player.GoOutage();
  player.Timer();
  player.ConnectFailed();
  player.Timer();
  player.Connected();
  player.LoggedIn(/*commands_wait=*/false);
  EXPECT_FALSE(player.life.unproved());
}

TEST(InitiatorLifeTest, ATargetThatAsksForMoreGetsIt) {
  Player player;
  player.GoUp();
  Life::SessionEnd end = End(How::kLost);
  end.wait = 10 * kSecond;
  player.Ended(end);
  EXPECT_EQ(player.life.next_deadline() - player.now, 10 * kSecond);
}

TEST(InitiatorLifeTest, ATargetThatAsksForTooMuchGetsLess) {
  Life::Options options = SomeOptions();
  options.reconnect.replacement_timeout = absl::Hours(20);
  options.reconnect.max_time2wait = 60 * kSecond;
  Player player(options);
  player.GoUp();
  Life::SessionEnd end = End(How::kLost);
  end.wait = absl::Hours(18);
  player.Ended(end);
  EXPECT_EQ(player.life.next_deadline() - player.now, 60 * kSecond);
}

TEST(InitiatorLifeTest, TheOutageGoesOnBehindALoginThatProvesNothing) {
  Player player;
  player.GoOutage();
  const absl::Time begin = player.now;
  player.Timer();
  player.Connected();
  player.LoggedIn(/*commands_wait=*/true);
  player.now = begin + 21 * kSecond;
  EXPECT_FALSE(player.life.refuses_commands());
  player.Lose();
  EXPECT_LE(player.life.next_deadline(), player.now);
  player.Do(player.life.OnTimer(player.now));
  EXPECT_EQ(player.said, "gave up; tell given up; fail commands");
  EXPECT_TRUE(player.life.refuses_commands());
}

TEST(InitiatorLifeTest, WhatWasGivenUpIsRestored) {
  Player player;
  player.GoOutage();
  player.Timer();
  player.Timer();
  ASSERT_EQ(player.said, "gave up; tell given up; fail commands");
  player.ConnectFailed();
  EXPECT_EQ(player.said, "reconnect failed(refused)") << "told once";
  player.Timer();
  player.Connected();
  player.LoggedIn(/*commands_wait=*/false);
  EXPECT_EQ(player.said, "tell restored; restored");
  EXPECT_FALSE(player.life.refuses_commands());
}

// The timer of an outage before the first session ends with that.
TEST(InitiatorLifeTest, AFirstSessionIsNotGivenUpLater) {
  Player player;
  player.GoLoggingIn();
  player.Lose();
  player.Timer();
  player.Connected();
  player.LoggedIn(/*commands_wait=*/true);
  EXPECT_EQ(player.said, "ready(ok)");
  player.now += 25 * kSecond;
  player.Do(player.life.OnTimer(player.now));
  EXPECT_EQ(player.said, "");
  EXPECT_FALSE(player.life.refuses_commands());
}

TEST(InitiatorLifeTest, ATimerThatComesEarlyIsNoHarm) {
  Player player;
  player.GoOutage();
  player.Do(player.life.OnTimer(player.now));
  EXPECT_EQ(player.said, "");
  player.Timer();
  EXPECT_EQ(player.said, "connect to portal");
}

TEST(InitiatorLifeTest, BothFailuresOfAFirstLoginAreTold) {
  Player player;
  player.GoLoggingIn();
  Life::SessionEnd end = End(How::kLoginFailed, "by rdma");
  end.rdma = OverRdma();
  player.Ended(end);
  EXPECT_EQ(player.life.why_no_rdma(),
            "RDMA connects, but the login over it failed: by rdma");
  player.ConnectFailed();
  EXPECT_THAT(player.said,
              HasSubstr("ready(refused; before that: RDMA connects, but the "
                        "login over it failed: by rdma)"));
}

TEST(InitiatorLifeTest, RdmaThatLosesDataIsLeftOnce) {
  Player player;
  player.GoUp();
  Life::SessionEnd end = End(How::kLost);
  end.rdma = OverRdma();
  end.rdma.lost_before_data = true;
  player.Ended(end);
  EXPECT_EQ(player.said, "next without rdma; lost(broken); tell lost");
  player.Timer();
  EXPECT_EQ(player.life.why_no_rdma(),
            "RDMA takes logins, but was lost before it had moved data: broken");
  player.ConnectFailed();
  player.Timer();
  EXPECT_EQ(player.life.why_no_rdma(), "");
}

TEST(InitiatorLifeTest, MovesAreRarerTheMoreFail) {
  Player player;
  player.GoUp();
  for (int i = 0; i < 10; ++i) {
    const int factor = 1 << std::min(i, 6);
    EXPECT_EQ(player.life.next_deadline() - player.now, factor * 30 * kSecond);
    player.Timer();
    player.life.MoveReached();
    player.Do(
        player.life.MoveUnusable(player.now, absl::UnavailableError("no")));
  }
  // Data that RDMA moved speak for it.
  Life::SessionEnd end = End(How::kLost);
  end.rdma = OverRdma();
  end.rdma.moved_data = true;
  player.Ended(end);
  player.Timer();
  player.Connected();
  player.LoggedIn();
  EXPECT_EQ(player.life.next_deadline() - player.now, 30 * kSecond);
}

TEST(InitiatorLifeTest, DoesNotMoveWhereItCannotOrMayNot) {
  Player player;
  player.GoLoggingIn();
  player.Do(player.life.LoggedIn(player.now, /*can_move=*/false, false));
  EXPECT_EQ(player.life.next_deadline(), absl::InfiniteFuture());
  Life::Options options = SomeOptions();
  options.rdma_retry_interval = absl::ZeroDuration();
  Player never(options);
  never.GoUp();
  EXPECT_EQ(never.life.next_deadline(), absl::InfiniteFuture());
}

// Redirects count in a row, not over all moves of a session.
TEST(InitiatorLifeTest, EachMoveMayBeRedirected) {
  Player player;
  player.GoUp();
  for (int i = 0; i < 3; ++i) {
    player.Timer();
    player.life.MoveReached();
    player.ContinueMove(true);
    player.Ended(End(How::kLoggedOut));
    player.Connected();
    player.Ended(RedirectTo("there"));
    EXPECT_EQ(player.said, "connect to redirect");
    player.Connected();
    player.LoggedIn();
    ASSERT_EQ(Where(player.life), "up");
  }
}

TEST(InitiatorLifeTest, SaysWhatCommandsAndRequestsDo) {
  Player player;
  const auto is = [&](bool up, bool sends, bool requests) {
    EXPECT_EQ(player.life.up(), up) << Where(player.life);
    EXPECT_EQ(player.life.sends_commands(), sends) << Where(player.life);
    EXPECT_EQ(player.life.takes_requests(), requests) << Where(player.life);
    EXPECT_FALSE(player.life.refuses_commands()) << Where(player.life);
  };
  is(false, false, false);
  player.GoUp();
  is(true, true, true);
  player.Timer();
  is(true, true, true);
  player.life.MoveReached();
  EXPECT_TRUE(player.life.holding());
  is(true, false, true);
  player.ContinueMove(true);
  is(true, false, false);
  player.Ended(End(How::kLoggedOut));
  is(false, false, false);
  player.ConnectFailed();
  is(false, false, false);
}

}  // namespace
}  // namespace skiff::protocol
