#include "protocol/initiator/initiator_life.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {
namespace {

using Kind = InitiatorLife::Action::Kind;
using How = InitiatorLife::SessionEnd::How;

constexpr char kLoginFailed[] = "connects, but the login over it failed";

absl::Status WasLoggedOut() {
  return absl::CancelledError("the session was logged out");
}

absl::Status LossOf(const InitiatorLife::SessionEnd& end) {
  return end.how == How::kLoggedOut
             ? absl::UnavailableError("the target asked for a logout")
             : end.why;
}

}  // namespace

// --- Making a connection.

InitiatorLife::Actions InitiatorLife::Start() {
  Actions actions;
  if (state_ == State::kConnecting && step_ == Step::kNone) {
    Connect(Kind::kConnectToPortal, &actions);
  }
  return actions;
}

void InitiatorLife::Connect(Kind where, Actions* actions) {
  if (where == Kind::kConnectToPortal) redirects_ = 0;
  why_no_rdma_ = std::exchange(avoid_rdma_, "");
  Enter(state_, Step::kReaching);
  actions->emplace_back(where);
}

InitiatorLife::Actions InitiatorLife::Connected() {
  Actions actions;
  if (step_ != Step::kReaching) return actions;
  Enter(state_, Step::kLoggingIn);
  actions.emplace_back(Kind::kLogIn);
  return actions;
}

InitiatorLife::Actions InitiatorLife::ConnectFailed(absl::Time now,
                                                    const absl::Status& why,
                                                    const RdmaUse& rdma) {
  Actions actions;
  if (step_ != Step::kReaching) return actions;
  JudgeRdma(/*was_up=*/false, why, rdma, &actions);
  AttemptFailed(now, why, &actions);
  return actions;
}

InitiatorLife::Actions InitiatorLife::LoggedIn(absl::Time now, bool can_move,
                                               bool commands_wait) {
  Actions actions;
  if (step_ != Step::kLoggingIn) return actions;
  can_move_ = can_move;
  up_since_ = now;
  EnterUp(now);
  if (outage_.has_value()) outage_->given_up = false;
  if (ready_) {
    Tell(SessionChange::kRestored, &actions);
    actions.emplace_back(Kind::kReportRestored);
  } else {
    ready_ = true;
    told_ = SessionChange::kRestored;
    actions.emplace_back(Kind::kAnswerReady);
  }
  // Otherwise not before the first answer: a target that dies of what it is
  // asked to retry is not restored.
  if (!commands_wait) outage_.reset();
  return actions;
}

void InitiatorLife::EnterUp(absl::Time now) {
  constexpr uint32_t kMostDoublings = 6;
  const bool moves =
      can_move_ && options_.rdma_retry_interval > absl::ZeroDuration();
  const uint32_t factor = 1u << std::min(rdma_failures_, kMostDoublings);
  Enter(State::kUp, Step::kNone,
        moves ? now + options_.rdma_retry_interval * factor
              : absl::InfiniteFuture());
}

// --- Its end.

InitiatorLife::Actions InitiatorLife::SessionEnded(absl::Time now,
                                                   const SessionEnd& end) {
  Actions actions;
  if (up()) {
    SessionLost(now, end, &actions);
  } else if (step_ == Step::kLoggingIn) {
    LoginEnded(now, end, &actions);
  }
  return actions;
}

void InitiatorLife::LoginEnded(absl::Time now, const SessionEnd& end,
                               Actions* actions) {
  if (end.how == How::kRedirected) return Redirected(now, end, actions);
  // That is not asked again over another transport, to which the answer would
  // be the same: it would count as one more attempt to break in.
  if (!ready_ && end.how == How::kLoginFailed && end.not_admitted) {
    return CloseFor(end.why, actions);
  }
  JudgeRdma(/*was_up=*/false, end.why, end.rdma, actions);
  if (end.how == How::kLoginFailed) {
    return AttemptFailed(now, end.why, actions);
  }
  // It was up, but for so short a time that nobody has seen it.
  Lost(now, LossOf(end), WaitAfter(end), actions);
}

void InitiatorLife::SessionLost(absl::Time now, const SessionEnd& end,
                                Actions* actions) {
  // A target that takes each login, perhaps answers something, and ends the
  // session at once, is asked ever more seldom, too.
  if (now - up_since_ >= options_.reconnect.max_delay) backoff_.Reset();
  JudgeRdma(/*was_up=*/true, end.why, end.rdma, actions);
  const bool logged_out = end.how == How::kLoggedOut;
  if (logout_wanted_) {
    return CloseFor(logged_out ? WasLoggedOut() : end.why, actions);
  }
  if (logged_out && step_ == Step::kLoggingOut &&
      WaitAfter(end) == absl::ZeroDuration()) {
    redirects_ = 0;
    why_no_rdma_.clear();
    Enter(State::kMoving, Step::kReaching);
    actions->emplace_back(Kind::kUseMove);
    return;
  }
  if (state_ == State::kMoving) actions->emplace_back(Kind::kDropMove);
  Lost(now, LossOf(end), WaitAfter(end), actions);
}

// (RFC 7143 section 13.8.)
void InitiatorLife::Redirected(absl::Time now, const SessionEnd& end,
                               Actions* actions) {
  if (++redirects_ > options_.max_redirects) {
    return AttemptFailed(
        now,
        absl::FailedPreconditionError(absl::StrCat(
            "redirected more than ", options_.max_redirects,
            " times (max_redirects), at last to ", end.redirected_to)),
        actions);
  }
  if (!end.redirect_makes_sense) {
    return AttemptFailed(
        now,
        absl::InvalidArgumentError(
            "the target redirects to an address that makes no sense"),
        actions);
  }
  Connect(Kind::kConnectToRedirect, actions);
}

void InitiatorLife::JudgeRdma(bool was_up, const absl::Status& why,
                              const RdmaUse& rdma, Actions* actions) {
  if (!rdma.used) return;
  if (!was_up) {
    return RdmaFailed(kLoginFailed, why, rdma.avoidable, actions);
  }
  if (rdma.moved_data) {
    rdma_failures_ = 0;
  } else if (rdma.lost_before_data) {
    RdmaFailed("takes logins, but was lost before it had moved data", why,
               rdma.avoidable, actions);
  }
}

// Although it connected: the next attempt does without, where it may.
void InitiatorLife::RdmaFailed(const char* how, const absl::Status& why,
                               bool avoidable, Actions* actions) {
  ++rdma_failures_;
  if (!avoidable) return;
  avoid_rdma_ = absl::StrCat("RDMA ", how, ": ", why.message());
  actions->emplace_back(Kind::kReportNextWithoutRdma,
                        absl::UnavailableError(avoid_rdma_));
}

// Mistakes are told at once; a session that once was up is tried again.
void InitiatorLife::AttemptFailed(absl::Time now, const absl::Status& why,
                                  Actions* actions) {
  if (!ready_) {
    // Once: an attempt without RDMA cannot fail because of it.
    if (!avoid_rdma_.empty() && why_no_rdma_.empty()) {
      return Connect(Kind::kConnectAgain, actions);
    }
    if (why_no_rdma_.empty()) return CloseFor(why, actions);
    return CloseFor(
        absl::Status(why.code(), absl::StrCat(why.message(),
                                              "; before that: ", why_no_rdma_)),
        actions);
  }
  actions->emplace_back(Kind::kReportReconnectFailed, why);
  // Of a move that did not work out, it is the first that is told.
  if (told_ == SessionChange::kRestored) Tell(SessionChange::kLost, actions);
  Pause(now, absl::ZeroDuration());
}

void InitiatorLife::Lost(absl::Time now, const absl::Status& why,
                         absl::Duration wait, Actions* actions) {
  actions->emplace_back(Kind::kReportLost, why);
  if (told_ == SessionChange::kRestored) Tell(SessionChange::kLost, actions);
  Pause(now, wait);
}

void InitiatorLife::Pause(absl::Time now, absl::Duration wait) {
  if (!outage_.has_value()) {
    outage_ = Outage{.ends = now + options_.reconnect.replacement_timeout,
                     .given_up = false};
  }
  Enter(State::kOutage, Step::kPausing, now + backoff_.Next(wait));
}

void InitiatorLife::Answered() {
  if (up()) outage_.reset();
}

// --- From a byte stream to RDMA.

void InitiatorLife::MoveReached() {
  // How long to wait is known when it is first looked at.
  if (step_ == Step::kReachingRdma) Enter(State::kMoving, Step::kHolding);
}

InitiatorLife::Actions InitiatorLife::MoveFailed(absl::Time now) {
  Actions actions;
  if (step_ == Step::kReachingRdma || step_ == Step::kHolding) {
    AbandonMove(now, &actions);
  }
  return actions;
}

// Before the logout, behind which it would fail as well.
InitiatorLife::Actions InitiatorLife::MoveUnusable(absl::Time now,
                                                   const absl::Status& why) {
  Actions actions;
  if (step_ == Step::kReachingRdma || step_ == Step::kHolding) {
    ++rdma_failures_;
    actions.emplace_back(Kind::kReportMoveUnusable, why);
    AbandonMove(now, &actions);
  }
  return actions;
}

InitiatorLife::Actions InitiatorLife::ContinueMove(absl::Time now, bool quiet) {
  Actions actions;
  if (step_ != Step::kHolding) return actions;
  if (due_ == absl::InfiniteFuture()) due_ = now + options_.rdma_move_patience;
  if (!quiet) return OnTimer(now);
  Enter(State::kMoving, Step::kLoggingOut,
        now + std::max(options_.logout_timeout, options_.rdma_move_patience));
  actions.emplace_back(Kind::kLogOutForMove);
  return actions;
}

// The session stays where it is.
void InitiatorLife::AbandonMove(absl::Time now, Actions* actions) {
  EnterUp(now);
  actions->emplace_back(Kind::kDropMove);
}

// --- Time.

InitiatorLife::Actions InitiatorLife::OnTimer(absl::Time now) {
  Actions actions;
  if (state_ == State::kOutage && !outage_->given_up && now >= outage_->ends) {
    outage_->given_up = true;
    actions.emplace_back(Kind::kReportGivenUp);
    Tell(SessionChange::kGivenUp, &actions);
    actions.emplace_back(Kind::kFailCommands);
  }
  if (now < due_) return actions;
  due_ = absl::InfiniteFuture();
  if (state_ == State::kUp) {
    Enter(State::kMoving, Step::kReachingRdma);
    actions.emplace_back(Kind::kTryRdma);
  } else if (step_ == Step::kHolding) {
    actions.emplace_back(Kind::kReportMoveTookTooLong);
    AbandonMove(now, &actions);
  } else if (step_ == Step::kLoggingOut) {
    // Also where logouts may take for ever: commands wait.
    actions.emplace_back(
        Kind::kEndSession,
        absl::DeadlineExceededError(
            "the target did not answer the logout by which the session moves"));
  } else if (step_ == Step::kPausing) {
    Connect(Kind::kConnectToPortal, &actions);
  }
  return actions;
}

// --- The end.

InitiatorLife::Actions InitiatorLife::AskedToLogOut(bool can) {
  Actions actions;
  if (closed()) {
    actions.emplace_back(Kind::kAnswerLogouts);
  } else if (!up()) {
    CloseFor(WasLoggedOut(), &actions);
  } else {
    logout_wanted_ = true;
    // The move's own logout does it, and its timer goes on.
    if (!can && step_ == Step::kLoggingOut) return actions;
    if (state_ == State::kMoving) actions.emplace_back(Kind::kDropMove);
    Enter(State::kUp, Step::kNone);
    actions.emplace_back(can ? Kind::kLogOut : Kind::kAnswerLogouts);
  }
  return actions;
}

InitiatorLife::Actions InitiatorLife::Close(const absl::Status& why) {
  Actions actions;
  if (!closed()) CloseFor(why, &actions);
  return actions;
}

void InitiatorLife::CloseFor(const absl::Status& why, Actions* actions) {
  Enter(State::kClosed, Step::kNone);
  outage_.reset();
  actions->emplace_back(Kind::kDisconnect, why);
  Tell(SessionChange::kClosed, actions);
  actions->emplace_back(Kind::kFailCommands);
  if (!ready_) actions->emplace_back(Kind::kAnswerReady, why);
  actions->emplace_back(Kind::kAnswerLogouts);
}

void InitiatorLife::Tell(SessionChange change, Actions* actions) {
  if (!told_.has_value() || *told_ == change) return;
  told_ = change;
  actions->emplace_back(change);
}

}  // namespace skiff::protocol
