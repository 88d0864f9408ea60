#ifndef SKIFF_PROTOCOL_INITIATOR_INITIATOR_LIFE_H_
#define SKIFF_PROTOCOL_INITIATOR_INITIATOR_LIFE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/initiator/backoff.h"
#include "protocol/initiator/session_change.h"

namespace skiff::protocol {

// When an initiator connects, moves, waits, gives up and ends. Sans-IO: events
// come as calls, time as an argument, and what is to be done is returned.
// Whoever owns it does all of that, in order, before the next event. The
// last action of a list alone may lead to an event at once.
//
// A state has steps. `session` marks those in which a session is in full
// feature phase, from LoggedIn() to SessionEnded().
//
//   Connecting   no session yet: (before Start()), reaching, logging in
//   Up           session
//   Moving       from a byte stream to RDMA: reaching RDMA (session),
//                holding (session), logging out (session), and then
//                reaching or logging in, as in an outage that nobody is told of
//   Outage       the session is lost: pausing, reaching, logging in
//   Closed       for good
//
//      state, step           event                     then: actions
//   1  Connecting            Start                     reaching: connect to
//                                                      the portal
//   2  any, reaching         Connected                 logging in: log in
//   3  any, reaching         ConnectFailed             FAILED
//   4  any, logging in       LoggedIn, the first       Up: tell who waits
//   5  any, logging in       LoggedIn, another         Up: tell "restored"
//   6  any, logging in       SessionEnded, redirected  reaching: connect there;
//                              too often, or nonsense  FAILED
//   7  any, logging in       SessionEnded, login       FAILED
//                              failed
//   8  before the first,     the same, not admitted    Closed: see 21
//      logging in
//   9  any, logging in       SessionEnded, otherwise   LOST
//  10  Up                    timer                     Moving, reaching RDMA:
//                                                      try RDMA
//  11  Moving, reaching RDMA MoveReached               holding (no commands)
//  12  Moving, the same, or  MoveFailed, MoveUnusable  Up: drop the move
//      holding
//  13  Moving, holding       ContinueMove, quiet       logging out: log out
//                                                      for the move
//  14  Moving, holding       timer, or ContinueMove    Up: drop the move
//                              after the patience
//  15  Moving, logging out   timer                     the same: end the
//                                                      session
//  16  Moving, logging out   SessionEnded, logged out  reaching: use the
//                              without a wait          move's endpoint
//  17  any with a session    SessionEnded, otherwise   LOST
//  18  any with a session    AskedToLogOut             Up: drop the move; log
//                                                      out, or answer where the
//                                                      session does already. By
//                                                      the move (logging out):
//                                                      the same, answer at the
//                                                      end
//  19  the same, afterwards  SessionEnded              Closed: see 21
//  20  any without session   AskedToLogOut             Closed: see 21
//  21  any but Closed        Close                     Closed: disconnect, tell
//                                                      "closed", fail commands,
//                                                      tell who still waits
//  22  Outage                timer of the outage       the same: tell "given
//                                                      up", fail commands
//  23  Outage, pausing       timer of the pause        reaching: connect to the
//                                                      portal
//  24  Up and Moving, after  Answered                  the same: the outage is
//      an outage                                       over
//  25  Closed                AskedToLogOut             Closed: answer
//
//   FAILED  before the first session:
//  26         if RDMA connects and cannot be used      reaching: connect again
//                                                      without it
//  27         otherwise                                Closed: see 21
//  28       later                                      Outage, pausing: tell
//                                                      "lost", if not told yet
//   LOST 29                                            Outage, pausing: drop
//                                                      the move; tell "lost"
//
// What is not in the table changes nothing, and leads to no action.
//
// An outage begins with its first loss, and ends with the first answer in a new
// session, or with a login where no command waits: its time goes on while a
// target takes logins and dies of what it is asked to do then. The pauses grow
// longer than that: they are short again after a session that was up for
// `max_delay`, as a target can also answer something and end each session then.
class InitiatorLife {
 public:
  enum class State : uint8_t { kConnecting, kUp, kMoving, kOutage, kClosed };
  enum class Step : uint8_t {
    kNone,
    kPausing,
    kReaching,
    kLoggingIn,
    // Of a move, in this order: the old session is there.
    kReachingRdma,
    kHolding,
    kLoggingOut,
  };

  // As in InitiatorOptions.
  struct Options {
    ReconnectPolicy reconnect;
    absl::Duration rdma_retry_interval = absl::Seconds(30);
    absl::Duration rdma_move_patience = absl::Seconds(2);
    absl::Duration logout_timeout = absl::Seconds(5);
    uint32_t max_redirects = 4;
  };

  struct Action {
    enum class Kind : uint8_t {
      // Begin the one attempt; without RDMA if why_no_rdma() says why.
      kConnectToPortal,
      kConnectToRedirect,  // Where the session that ended was sent.
      kConnectAgain,       // To the same address.
      kLogIn,              // Begin a session over what was reached.
      // Of a move.
      kTryRdma,        // Begin its attempt.
      kDropMove,       // Its attempt, and what that led to.
      kLogOutForMove,  // The session, in order.
      kEndSession,     // As if it were lost: it does not log out.
      kUseMove,        // Its endpoint is what was reached: Connected() is next.
      // The end.
      kLogOut,      // What AskedToLogOut() was about; the session answers it.
      kDisconnect,  // Ends session, attempt and move, if any, because of `why`.
      // Whom to tell.
      kAnswerReady,    // The first session is up (OK), or why there is none.
      kTell,           // `change`
      kFailCommands,   // Those that wait.
      kAnswerLogouts,  // Those that wait: OK.
      // For the log. `why` of the first two is that of kTell from then on.
      kReportLost,
      kReportReconnectFailed,
      kReportRestored,
      kReportGivenUp,
      kReportNextWithoutRdma,
      kReportMoveUnusable,
      kReportMoveTookTooLong,
    };

    explicit Action(Kind kind_arg, absl::Status why_arg = absl::OkStatus())
        : kind(kind_arg), why(std::move(why_arg)) {}
    explicit Action(SessionChange change_arg)
        : kind(Kind::kTell), change(change_arg) {}

    Kind kind;
    SessionChange change = SessionChange::kLost;
    absl::Status why;
  };
  using Actions = std::vector<Action>;

  // What an attempt, or a session, that ended says of RDMA.
  struct RdmaUse {
    bool used = false;        // It was over RDMA.
    bool moved_data = false;  // RDMA moved data of commands.
    // It was lost by a fault, was to move data, and had not.
    bool lost_before_data = false;
    bool avoidable = false;  // The address can be reached without.
  };

  struct SessionEnd {
    enum class How : uint8_t { kRedirected, kLoginFailed, kLoggedOut, kLost };
    How how = How::kLost;
    absl::Status why;                            // kLoginFailed, kLost.
    absl::Duration wait = absl::ZeroDuration();  // The target asks for.
    // kLoginFailed: because of who we are, or who the target is.
    bool not_admitted = false;
    // kRedirected: where to, and whether that is an address.
    std::string redirected_to;
    bool redirect_makes_sense = false;
    RdmaUse rdma;
  };

  explicit InitiatorLife(const Options& options)
      : options_(options), backoff_(options.reconnect) {}

  // --- Events.
  Actions Start();
  Actions Connected();
  // Also: an endpoint that no session can use (`rdma`).
  Actions ConnectFailed(absl::Time now, const absl::Status& why,
                        const RdmaUse& rdma);
  // `can_move`: it is over a byte stream, and the address has RDMA, too.
  Actions LoggedIn(absl::Time now, bool can_move, bool commands_wait);
  // The target has answered a command of this session.
  void Answered();
  // What is of the session is gone already, but for a move.
  Actions SessionEnded(absl::Time now, const SessionEnd& end);
  // The attempt of the move is over.
  void MoveReached();
  // It led to no RDMA, or that is not connected any more.
  Actions MoveFailed(absl::Time now);
  // It led to RDMA that no session can use.
  Actions MoveUnusable(absl::Time now, const absl::Status& why);
  // While holding; `quiet`: nothing is under way in the session.
  Actions ContinueMove(absl::Time now, bool quiet);
  // `can`: the session is in full feature phase, and takes a logout.
  Actions AskedToLogOut(bool can);
  Actions Close(const absl::Status& why);
  // Too early is no harm.
  Actions OnTimer(absl::Time now);

  // When OnTimer() is due. May change with each event.
  absl::Time next_deadline() const {
    return state_ == State::kOutage && !outage_->given_up
               ? std::min(due_, outage_->ends)
               : due_;
  }

  State state() const { return state_; }
  Step step() const { return step_; }
  // A session is in full feature phase.
  bool up() const {
    return state_ == State::kUp || step_ >= Step::kReachingRdma;
  }
  bool closed() const { return state_ == State::kClosed; }
  // Commands go to the session; otherwise they wait, or are refused.
  bool sends_commands() const {
    return state_ == State::kUp || step_ == Step::kReachingRdma;
  }
  // New commands fail at once, and none wait.
  bool refuses_commands() const {
    return closed() || (outage_.has_value() && outage_->given_up);
  }
  // Pings, task management and texts go to the session.
  bool takes_requests() const { return up() && step_ != Step::kLoggingOut; }
  bool holding() const { return step_ == Step::kHolding; }
  // Answered() is worth a call.
  bool unproved() const { return outage_.has_value() && up(); }
  // Why the attempt that was begun last is without RDMA; empty: it is not.
  const std::string& why_no_rdma() const { return why_no_rdma_; }

 private:
  struct Outage {
    absl::Time ends;        // Commands fail then.
    bool given_up = false;  // They have; until there is a session.
  };

  void Enter(State state, Step step, absl::Time due = absl::InfiniteFuture()) {
    state_ = state;
    step_ = step;
    due_ = due;
  }
  void EnterUp(absl::Time now);
  // As long as the target asks for, within the bound.
  absl::Duration WaitAfter(const SessionEnd& end) const {
    return std::min(end.wait, options_.reconnect.max_time2wait);
  }
  void Tell(SessionChange change, Actions* actions);
  void Connect(Action::Kind where, Actions* actions);
  void AbandonMove(absl::Time now, Actions* actions);
  void JudgeRdma(bool was_up, const absl::Status& why, const RdmaUse& rdma,
                 Actions* actions);
  void RdmaFailed(const char* how, const absl::Status& why, bool avoidable,
                  Actions* actions);
  void LoginEnded(absl::Time now, const SessionEnd& end, Actions* actions);
  void SessionLost(absl::Time now, const SessionEnd& end, Actions* actions);
  void Redirected(absl::Time now, const SessionEnd& end, Actions* actions);
  void AttemptFailed(absl::Time now, const absl::Status& why, Actions* actions);
  void Lost(absl::Time now, const absl::Status& why, absl::Duration wait,
            Actions* actions);
  void Pause(absl::Time now, absl::Duration wait);
  void CloseFor(const absl::Status& why, Actions* actions);

  const Options options_;
  State state_ = State::kConnecting;
  Step step_ = Step::kNone;
  absl::Time due_ = absl::InfiniteFuture();  // What the step waits for.

  bool ready_ = false;   // There was a session.
  absl::Time up_since_;  // The session, if there is one.
  bool can_move_ = false;
  bool logout_wanted_ = false;
  // What was told last; a session that is up counts as restored. None before
  // it is up for the first time.
  std::optional<SessionChange> told_;

  std::optional<Outage> outage_;
  Backoff backoff_;

  uint32_t redirects_ = 0;  // In a row.
  // How often in a row RDMA connected, and then failed to log in or to move
  // data: the next attempt is for a byte stream, and moves are rarer.
  uint32_t rdma_failures_ = 0;
  std::string avoid_rdma_;   // Why the next attempt does; empty: it does not.
  std::string why_no_rdma_;  // The same of the last one.
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_INITIATOR_LIFE_H_
