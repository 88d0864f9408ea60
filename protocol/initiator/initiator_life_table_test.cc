// The rows of the table in initiator_life.h.

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "protocol/initiator/initiator_life.h"
#include "protocol/initiator/initiator_life_test_util.h"

namespace skiff::protocol {
namespace {

using Life = InitiatorLife;
using How = Life::SessionEnd::How;

struct Row {
  const char* name;  // Number in the table of initiator_life.h, and the case.
  std::function<void(Player*)> before;
  std::function<void(Player*)> event;
  const char* where;
  const char* said;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class InitiatorLifeTableTest : public ::testing::TestWithParam<Row> {};

TEST_P(InitiatorLifeTableTest, Leads) {
  Player player;
  GetParam().before(&player);
  GetParam().event(&player);
  EXPECT_EQ(Where(player.life), GetParam().where);
  EXPECT_EQ(player.said, GetParam().said);
}

constexpr char kClosedUnready[] =
    "disconnect(broken); fail commands; ready(broken); answer logouts";
constexpr char kLoggedOut[] =
    "disconnect(the session was logged out); tell closed; fail commands; "
    "answer logouts";

std::vector<Row> Connecting() {
  return {
      {"R1Start", [](Player*) {}, [](Player* p) { p->Start(); },
       "connecting, reaching", "connect to portal"},
      {"R2Connected", [](Player* p) { p->GoReaching(); },
       [](Player* p) { p->Connected(); }, "connecting, logging in", "log in"},
      {"R2ConnectedInAnOutage",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
       },
       [](Player* p) { p->Connected(); }, "outage, logging in", "log in"},
      {"R2ConnectedByTheMove", [](Player* p) { p->GoReplacing(); },
       [](Player* p) { p->Connected(); }, "moving, logging in", "log in"},
      {"R3and27ConnectFailed", [](Player* p) { p->GoReaching(); },
       [](Player* p) { p->ConnectFailed(); }, "closed",
       "disconnect(refused); fail commands; ready(refused); answer logouts"},
      {"R3and26RdmaCannotBeUsed", [](Player* p) { p->GoReaching(); },
       [](Player* p) { p->ConnectFailed(OverRdma()); }, "connecting, reaching",
       "next without rdma; connect again"},
      {"R3and28ConnectFailedInAnOutage",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
       },
       [](Player* p) { p->ConnectFailed(); }, "outage, pausing",
       "reconnect failed(refused)"},
      {"R3and28ConnectFailedByTheMove", [](Player* p) { p->GoReplacing(); },
       [](Player* p) { p->ConnectFailed(); }, "outage, pausing",
       "reconnect failed(refused); tell lost"},
      {"R4LoggedIn", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) { p->LoggedIn(); }, "up", "ready(ok)"},
      {"R5LoggedInAgain",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
         p->Connected();
       },
       [](Player* p) { p->LoggedIn(); }, "up", "tell restored; restored"},
      // Nobody knows that it was away.
      {"R5LoggedInByTheMove",
       [](Player* p) {
         p->GoReplacing();
         p->Connected();
       },
       [](Player* p) { p->LoggedIn(); }, "up", "restored"},
  };
}

std::vector<Row> Logins() {
  return {
      {"R6Redirected", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) { p->Ended(RedirectTo("there")); }, "connecting, reaching",
       "connect to redirect"},
      {"R6RedirectedTooOften",
       [](Player* p) {
         p->GoLoggingIn();
         p->Ended(RedirectTo("there"));
         p->Connected();
       },
       [](Player* p) { p->Ended(RedirectTo("back")); }, "closed",
       "disconnect(redirected more than 1 times (max_redirects), at last to "
       "back); fail commands; ready(redirected more than 1 times "
       "(max_redirects), at last to back); answer logouts"},
      {"R6RedirectedToNonsense",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
         p->Connected();
       },
       [](Player* p) { p->Ended(RedirectTo("?", false)); }, "outage, pausing",
       "reconnect failed(the target redirects to an address that makes no "
       "sense)"},
      {"R7and27LoginFailed", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) { p->Ended(End(How::kLoginFailed)); }, "closed",
       kClosedUnready},
      {"R7and26LoginFailedOverRdma", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) {
         Life::SessionEnd end = End(How::kLoginFailed);
         end.rdma = OverRdma();
         p->Ended(end);
       },
       "connecting, reaching", "next without rdma; connect again"},
      {"R7and27LoginFailedWhereRdmaIsAll", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) {
         Life::SessionEnd end = End(How::kLoginFailed);
         end.rdma = OverRdma();
         end.rdma.avoidable = false;
         p->Ended(end);
       },
       "closed", kClosedUnready},
      {"R8NotAdmittedOverRdma", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) {
         Life::SessionEnd end = End(How::kLoginFailed);
         end.not_admitted = true;
         end.rdma = OverRdma();
         p->Ended(end);
       },
       "closed", kClosedUnready},
      {"R7and28NotAdmittedAnyMore",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
         p->Connected();
       },
       [](Player* p) {
         Life::SessionEnd end = End(How::kLoginFailed);
         end.not_admitted = true;
         p->Ended(end);
       },
       "outage, pausing", "reconnect failed(broken)"},
      {"R9and29LostBeforeAnybodySawIt", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) { p->Lose(); }, "outage, pausing", "lost(broken)"},
      {"R9and29LoggedOutInAnOutage",
       [](Player* p) {
         p->GoOutage();
         p->Timer();
         p->Connected();
       },
       [](Player* p) { p->Ended(End(How::kLoggedOut)); }, "outage, pausing",
       "lost(the target asked for a logout)"},
  };
}

std::vector<Row> Moving() {
  const auto unusable = [](Player* p) {
    p->Do(p->life.MoveUnusable(p->now, absl::UnavailableError("strange")));
  };
  return {
      {"R10TimerWhenUp", [](Player* p) { p->GoUp(); },
       [](Player* p) { p->Timer(); }, "moving, reaching rdma", "try rdma"},
      {"R11MoveReached", [](Player* p) { p->GoReachingRdma(); },
       [](Player* p) {
         p->life.MoveReached();
         p->said.clear();
       },
       "moving, holding", ""},
      {"R12MoveFailed", [](Player* p) { p->GoReachingRdma(); },
       [](Player* p) { p->Do(p->life.MoveFailed(p->now)); }, "up", "drop move"},
      {"R12MoveFailedWhenHolding", [](Player* p) { p->GoHolding(); },
       [](Player* p) { p->Do(p->life.MoveFailed(p->now)); }, "up", "drop move"},
      {"R12MoveUnusable", [](Player* p) { p->GoReachingRdma(); }, unusable,
       "up", "unusable(strange); drop move"},
      {"R12MoveUnusableWhenHolding", [](Player* p) { p->GoHolding(); },
       unusable, "up", "unusable(strange); drop move"},
      {"R13Quiet", [](Player* p) { p->GoHolding(); },
       [](Player* p) { p->ContinueMove(true); }, "moving, logging out",
       "log out for move"},
      {"NotQuietYet", [](Player* p) { p->GoHolding(); },
       [](Player* p) { p->ContinueMove(false); }, "moving, holding", ""},
      {"R14Timer",
       [](Player* p) {
         p->GoHolding();
         p->ContinueMove(false);
       },
       [](Player* p) { p->Timer(); }, "up", "move took too long; drop move"},
      {"R14AfterThePatience",
       [](Player* p) {
         p->GoHolding();
         p->ContinueMove(false);
         p->now += 2 * kSecond;
       },
       [](Player* p) { p->ContinueMove(false); }, "up",
       "move took too long; drop move"},
      {"R13QuietAtTheLastMoment",
       [](Player* p) {
         p->GoHolding();
         p->ContinueMove(false);
         p->now += 2 * kSecond;
       },
       [](Player* p) { p->ContinueMove(true); }, "moving, logging out",
       "log out for move"},
      {"R15TimerWhenLoggingOut", [](Player* p) { p->GoLoggingOut(); },
       [](Player* p) { p->Timer(); }, "moving, logging out", "end session"},
      {"R16LoggedOut", [](Player* p) { p->GoLoggingOut(); },
       [](Player* p) { p->Ended(End(How::kLoggedOut)); }, "moving, reaching",
       "use move"},
      {"R17LoggedOutButHasToWait", [](Player* p) { p->GoLoggingOut(); },
       [](Player* p) {
         Life::SessionEnd end = End(How::kLoggedOut);
         end.wait = kSecond;
         p->Ended(end);
       },
       "outage, pausing",
       "drop move; lost(the target asked for a logout); tell lost"},
      {"R17LostWhenLoggingOut", [](Player* p) { p->GoLoggingOut(); },
       [](Player* p) { p->Lose(); }, "outage, pausing",
       "drop move; lost(broken); tell lost"},
      {"R17LostWhenReachingRdma", [](Player* p) { p->GoReachingRdma(); },
       [](Player* p) { p->Lose(); }, "outage, pausing",
       "drop move; lost(broken); tell lost"},
      {"R17LoggedOutWhenHolding", [](Player* p) { p->GoHolding(); },
       [](Player* p) { p->Ended(End(How::kLoggedOut)); }, "outage, pausing",
       "drop move; lost(the target asked for a logout); tell lost"},
  };
}

std::vector<Row> Ends() {
  return {
      {"R17Lost", [](Player* p) { p->GoUp(); }, [](Player* p) { p->Lose(); },
       "outage, pausing", "lost(broken); tell lost"},
      {"R17LoggedOut", [](Player* p) { p->GoUp(); },
       [](Player* p) { p->Ended(End(How::kLoggedOut)); }, "outage, pausing",
       "lost(the target asked for a logout); tell lost"},
      {"R18LogOut", [](Player* p) { p->GoUp(); },
       [](Player* p) { p->LogOut(true); }, "up", "log out"},
      {"R18LogOutDropsTheMove", [](Player* p) { p->GoHolding(); },
       [](Player* p) { p->LogOut(true); }, "up", "drop move; log out"},
      {"R18LogOutOfASessionThatEnds", [](Player* p) { p->GoUp(); },
       [](Player* p) { p->LogOut(false); }, "up", "answer logouts"},
      {"R18LogOutOfASessionThatEndsDropsTheMove",
       [](Player* p) { p->GoHolding(); }, [](Player* p) { p->LogOut(false); },
       "up", "drop move; answer logouts"},
      {"R18LogOutDuringTheMovesOwn", [](Player* p) { p->GoLoggingOut(); },
       [](Player* p) { p->LogOut(false); }, "moving, logging out", ""},
      {"R19LoggedOut",
       [](Player* p) {
         p->GoUp();
         p->LogOut(true);
       },
       [](Player* p) { p->Ended(End(How::kLoggedOut)); }, "closed", kLoggedOut},
      {"R19LoggedOutDuringTheMovesOwn",
       [](Player* p) {
         p->GoLoggingOut();
         p->LogOut(false);
       },
       [](Player* p) { p->Ended(End(How::kLoggedOut)); }, "closed", kLoggedOut},
      {"R19LostInstead",
       [](Player* p) {
         p->GoUp();
         p->LogOut(true);
       },
       [](Player* p) { p->Lose(); }, "closed",
       "disconnect(broken); tell closed; fail commands; answer logouts"},
      {"R20LogOutInAnOutage", [](Player* p) { p->GoOutage(); },
       [](Player* p) { p->LogOut(false); }, "closed", kLoggedOut},
      {"R20LogOutBetweenSessions", [](Player* p) { p->GoReplacing(); },
       [](Player* p) { p->LogOut(false); }, "closed", kLoggedOut},
      {"R20LogOutBeforeTheFirst", [](Player* p) { p->GoLoggingIn(); },
       [](Player* p) { p->LogOut(false); }, "closed",
       "disconnect(the session was logged out); fail commands; "
       "ready(the session was logged out); answer logouts"},
      {"R21Close", [](Player* p) { p->GoHolding(); },
       [](Player* p) { p->Do(p->life.Close(absl::CancelledError("end"))); },
       "closed", "disconnect(end); tell closed; fail commands; answer logouts"},
      {"R22TimerOfTheOutage",
       [](Player* p) {
         p->GoOutage();
         p->Timer();  // Reaching; that goes on.
       },
       [](Player* p) { p->Timer(); }, "outage, reaching",
       "gave up; tell given up; fail commands"},
      {"R23TimerOfThePause", [](Player* p) { p->GoOutage(); },
       [](Player* p) { p->Timer(); }, "outage, reaching", "connect to portal"},
      {"R24Answered", [](Player* p) { p->GoUnproved(); },
       [](Player* p) {
         p->life.Answered();
         p->said.clear();
       },
       "up", ""},
      {"R24AnsweredWhenMoving",
       [](Player* p) {
         p->GoUnproved();
         p->Timer();
       },
       [](Player* p) {
         p->life.Answered();
         p->said.clear();
       },
       "moving, reaching rdma", ""},
      {"R25LogOutAfterTheEnd", [](Player* p) { p->GoClosed(); },
       [](Player* p) { p->LogOut(false); }, "closed", "answer logouts"},
  };
}

std::string NameOf(const ::testing::TestParamInfo<Row>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Connecting, InitiatorLifeTableTest,
                         ::testing::ValuesIn(Connecting()), NameOf);
INSTANTIATE_TEST_SUITE_P(Logins, InitiatorLifeTableTest,
                         ::testing::ValuesIn(Logins()), NameOf);
INSTANTIATE_TEST_SUITE_P(Moving, InitiatorLifeTableTest,
                         ::testing::ValuesIn(Moving()), NameOf);
INSTANTIATE_TEST_SUITE_P(Ends, InitiatorLifeTableTest,
                         ::testing::ValuesIn(Ends()), NameOf);

}  // namespace
}  // namespace skiff::protocol
