#ifndef SKIFF_PROTOCOL_INITIATOR_INITIATOR_LIFE_TEST_UTIL_H_
#define SKIFF_PROTOCOL_INITIATOR_INITIATOR_LIFE_TEST_UTIL_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "protocol/initiator/initiator_life.h"
#include "protocol/initiator/session_change.h"

namespace skiff::protocol {

inline constexpr absl::Duration kSecond = absl::Seconds(1);
inline constexpr absl::Time kBegin = absl::UnixEpoch();

inline InitiatorLife::Options SomeOptions() {
  InitiatorLife::Options options;
  options.reconnect.delay = kSecond;
  options.reconnect.max_delay = 4 * kSecond;
  options.reconnect.max_time2wait = 60 * kSecond;
  options.reconnect.jitter = 0;
  options.reconnect.seed = 1;
  options.reconnect.replacement_timeout = 20 * kSecond;
  options.rdma_retry_interval = 30 * kSecond;
  options.rdma_move_patience = 2 * kSecond;
  options.logout_timeout = 5 * kSecond;
  options.max_redirects = 1;
  return options;
}

inline std::string ToString(SessionChange change) {
  constexpr const char* kNames[] = {"lost", "restored", "given up", "closed"};
  return kNames[static_cast<size_t>(change)];
}

inline std::string ToString(const InitiatorLife::Action& action) {
  using Kind = InitiatorLife::Action::Kind;
  switch (action.kind) {
    case Kind::kConnectToPortal:
      return "connect to portal";
    case Kind::kConnectToRedirect:
      return "connect to redirect";
    case Kind::kConnectAgain:
      return "connect again";
    case Kind::kLogIn:
      return "log in";
    case Kind::kTryRdma:
      return "try rdma";
    case Kind::kDropMove:
      return "drop move";
    case Kind::kLogOutForMove:
      return "log out for move";
    case Kind::kEndSession:
      return "end session";
    case Kind::kUseMove:
      return "use move";
    case Kind::kLogOut:
      return "log out";
    case Kind::kDisconnect:
      return absl::StrCat("disconnect(", action.why.message(), ")");
    case Kind::kAnswerReady:
      return absl::StrCat("ready(",
                          action.why.ok() ? "ok" : action.why.message(), ")");
    case Kind::kTell:
      return absl::StrCat("tell ", ToString(action.change));
    case Kind::kFailCommands:
      return "fail commands";
    case Kind::kAnswerLogouts:
      return "answer logouts";
    case Kind::kReportLost:
      return absl::StrCat("lost(", action.why.message(), ")");
    case Kind::kReportReconnectFailed:
      return absl::StrCat("reconnect failed(", action.why.message(), ")");
    case Kind::kReportRestored:
      return "restored";
    case Kind::kReportGivenUp:
      return "gave up";
    case Kind::kReportNextWithoutRdma:
      return "next without rdma";
    case Kind::kReportMoveUnusable:
      return absl::StrCat("unusable(", action.why.message(), ")");
    case Kind::kReportMoveTookTooLong:
      return "move took too long";
  }
  return "?";
}

inline std::string Words(const InitiatorLife::Actions& actions) {
  return absl::StrJoin(
      actions, "; ", [](std::string* out, const InitiatorLife::Action& action) {
        out->append(ToString(action));
      });
}

inline std::string Where(const InitiatorLife& life) {
  constexpr const char* kStates[] = {"connecting", "up", "moving", "outage",
                                     "closed"};
  constexpr const char* kSteps[] = {
      "",        "pausing",     "reaching", "logging in", "reaching rdma",
      "holding", "logging out",
  };
  const std::string step = kSteps[static_cast<size_t>(life.step())];
  return absl::StrCat(kStates[static_cast<size_t>(life.state())],
                      step.empty() ? "" : ", ", step,
                      life.unproved() ? ", unproved" : "");
}

inline InitiatorLife::RdmaUse OverRdma() {
  InitiatorLife::RdmaUse rdma;
  rdma.used = true;
  rdma.avoidable = true;
  return rdma;
}

inline InitiatorLife::SessionEnd End(InitiatorLife::SessionEnd::How how,
                                     const char* why = "broken") {
  InitiatorLife::SessionEnd end;
  end.how = how;
  end.why = absl::UnavailableError(why);
  return end;
}

inline InitiatorLife::SessionEnd RedirectTo(const char* where,
                                            bool makes_sense = true) {
  InitiatorLife::SessionEnd end =
      End(InitiatorLife::SessionEnd::How::kRedirected);
  end.redirected_to = where;
  end.redirect_makes_sense = makes_sense;
  return end;
}

// A life, its time, and what it said last.
struct Player {
  explicit Player(const InitiatorLife::Options& options = SomeOptions())
      : life(options) {}

  void Do(const InitiatorLife::Actions& actions) { said = Words(actions); }
  void Start() { Do(life.Start()); }
  void Connected() { Do(life.Connected()); }
  void ConnectFailed(
      const InitiatorLife::RdmaUse& rdma = InitiatorLife::RdmaUse()) {
    Do(life.ConnectFailed(now, absl::UnavailableError("refused"), rdma));
  }
  void LoggedIn(bool commands_wait = false) {
    Do(life.LoggedIn(now, /*can_move=*/true, commands_wait));
  }
  void Ended(const InitiatorLife::SessionEnd& end) {
    Do(life.SessionEnded(now, end));
  }
  void Lose() { Ended(End(InitiatorLife::SessionEnd::How::kLost)); }
  void Timer() {
    now = life.next_deadline();
    Do(life.OnTimer(now));
  }
  void ContinueMove(bool quiet) { Do(life.ContinueMove(now, quiet)); }
  void LogOut(bool can) { Do(life.AskedToLogOut(can)); }

  // --- To each state and step.
  void GoReaching() { Start(); }
  void GoLoggingIn() {
    Start();
    Connected();
  }
  void GoUp() {
    GoLoggingIn();
    LoggedIn();
  }
  void GoReachingRdma() {
    GoUp();
    Timer();
  }
  void GoHolding() {
    GoReachingRdma();
    life.MoveReached();
  }
  void GoLoggingOut() {
    GoHolding();
    ContinueMove(/*quiet=*/true);
  }
  void GoReplacing() {
    GoLoggingOut();
    Ended(End(InitiatorLife::SessionEnd::How::kLoggedOut));
  }
  void GoOutage() {
    GoUp();
    Lose();
  }
  // Behind an outage: no command was answered yet.
  void GoUnproved() {
    GoOutage();
    Timer();
    Connected();
    LoggedIn(/*commands_wait=*/true);
  }
  void GoClosed() {
    GoUp();
    Do(life.Close(absl::CancelledError("end")));
  }

  InitiatorLife life;
  absl::Time now = kBegin;
  std::string said;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_INITIATOR_LIFE_TEST_UTIL_H_
