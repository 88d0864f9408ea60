// What an initiator's life wants: whom to tell, and what to write.

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/initiator/initiator_impl.h"
#include "protocol/negotiation/negotiated_keys.h"

namespace skiff::protocol {
namespace {

using Kind = InitiatorLife::Action::Kind;

const char* Advice(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return "; check the portal's address, that it is reachable, and that the "
             "target runs";
    case absl::StatusCode::kDeadlineExceeded:
      return "; check the network and the target's load";
    // These say themselves what to do: refusals of a login, and what the two
    // ends can do.
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kCancelled:
      return "";
    default:
      return "; see the target's log";
  }
}

}  // namespace

void InitiatorImpl::Log(absl::string_view message,
                        const transport::LogSite& site) {
  if (!options_.log) return;
  log_.Log(transport::LogLevel::kInfo, "", About(message), site);
}

void InitiatorImpl::Warn(absl::string_view message,
                         const transport::LogSite& site) {
  if (!options_.warn) return Log(message, site);
  log_.Log(transport::LogLevel::kWarning, "", About(message), site);
}

std::string InitiatorImpl::About(absl::string_view message) const {
  return absl::StrCat(
      options_.target_name.empty() ? "discovery" : options_.target_name, " at ",
      address_.ToString(), ": ", message);
}

absl::Status InitiatorImpl::Explain(const absl::Status& why) const {
  // A question is advice already.
  const char* const advice =
      absl::EndsWith(why.message(), "?") ? "" : Advice(why.code());
  return absl::Status(
      why.code(),
      absl::StrCat(options_.target_name.empty()
                       ? std::string("discovery session")
                       : absl::StrCat("target ", options_.target_name),
                   " at ", address_.ToString(), ": ", why.message(), advice));
}

void InitiatorImpl::ScheduleLife() {
  const absl::Time when = life_.next_deadline();
  if (when == absl::InfiniteFuture()) return life_timer_.Cancel();
  if (life_timer_.scheduled() && life_timer_.deadline() == when) return;
  life_timer_.ScheduleAt(when);
}

void InitiatorImpl::Do(const InitiatorLife::Actions& actions) {
  // First: the last action may be the next event.
  ScheduleLife();
  for (const Action& action : actions) Do(action);
}

void InitiatorImpl::Do(const Action& action) {
  switch (action.kind) {
    case Kind::kConnectToPortal:
      return Connect(options_.portal);
    case Kind::kConnectToRedirect:
      Log(absl::StrCat("redirected to ", redirect_.where));
      return Connect(redirect_.address);
    case Kind::kConnectAgain:
      return Connect(transport::Address(address_));
    case Kind::kLogIn:
      return BeginSession();
    case Kind::kTryRdma:
      return TryRdma();
    case Kind::kDropMove:
      return DropMove();
    case Kind::kLogOutForMove:
      return LogOutForMove();
    case Kind::kEndSession:
      connection_->session->Terminate(action.why);
      return Wake();
    case Kind::kUseMove:
      return UseMove();
    case Kind::kLogOut:
      return SendLogout();
    case Kind::kDisconnect:
      return Disconnect(action.why);
    case Kind::kAnswerReady:
      return AnswerReady(action.why.ok());
    case Kind::kTell:
      return TellChange(action.change);
    case Kind::kFailCommands:
      return FailQueued();
    case Kind::kAnswerLogouts:
      return AnswerLogouts();
    default:
      return Report(action);
  }
}

void InitiatorImpl::Report(const Action& action) {
  const std::string why(action.why.message());
  const std::string timeout =
      absl::StrCat(absl::FormatDuration(options_.reconnect.replacement_timeout),
                   " (replacement_timeout)");
  switch (action.kind) {
    case Kind::kReportLost:
      Log(absl::StrCat("session lost: ", why, "; restoring it, ", queue_.size(),
                       " commands wait"));
      last_failure_ = Explain(action.why);
      return;
    case Kind::kReportReconnectFailed:
      Log(absl::StrCat("reconnect failed: ", why));
      last_failure_ = Explain(action.why);
      return;
    case Kind::kReportRestored:
      ++stats_.reconnects;
      return Log(absl::StrCat("session restored", OverDialect(), "; ",
                              queue_.size(), " commands wait or are retried"));
    case Kind::kReportGivenUp:
      return Log(absl::StrCat("not restored within ", timeout, ": ",
                              queue_.size(),
                              " commands fail, and new ones until it is"));
    case Kind::kReportNextWithoutRdma:
      return Warn(absl::StrCat(why, "; the next attempt is without RDMA"));
    case Kind::kReportMoveUnusable:
      return Warn(absl::StrCat("RDMA connects, but cannot be used: ", why,
                               "; the session stays"));
    case Kind::kReportMoveTookTooLong:
      return Log(absl::StrCat(
          "RDMA can be had, but commands are under way for more than ",
          absl::FormatDuration(options_.rdma_move_patience),
          " (rdma_move_patience): the session stays for another ",
          absl::FormatDuration(options_.rdma_retry_interval),
          " (rdma_retry_interval)"));
    default:
      return;
  }
}

void InitiatorImpl::SendLogout() {
  auto done = std::move(logouts_.back());
  logouts_.pop_back();
  connection_->session->Logout(LogoutRequestPdu::kCloseSession, /*cid=*/0,
                               reactor_->Now(), std::move(done));
  Wake();
}

void InitiatorImpl::AnswerLogouts() {
  for (auto& done : std::exchange(logouts_, {})) {
    Tell(std::move(done), absl::OkStatus());
  }
}

void InitiatorImpl::AnswerReady(bool up) {
  if (up) Log(absl::StrCat("connected", OverDialect()));
  Tell(std::move(on_ready_), up ? absl::OkStatus() : close_reason_);
  on_ready_ = nullptr;
}

void InitiatorImpl::WarnIfNotAuthenticated() {
  if (!options_.chap.has_value() || chap_wanted_) return;
  Warn(
      "the target lets everybody in: it did not ask for the secret that is "
      "configured here");
}

std::string InitiatorImpl::OverDialect() const {
  const std::string dialect = IserDialect(parameters_.iser);
  return dialect.empty() ? "" : absl::StrCat(", iSER ", dialect);
}

void InitiatorImpl::TellChange(SessionChange change) {
  if (options_.on_change == nullptr) return;
  completions_.Add([this, change, why = WhyOf(change)] {
    // It may destroy this, and so itself.
    const auto on_change = options_.on_change;
    if (on_change != nullptr) on_change(change, why);
  });
  Wake();
}

absl::Status InitiatorImpl::WhyOf(SessionChange change) const {
  switch (change) {
    case SessionChange::kLost:
      return last_failure_;
    case SessionChange::kRestored:
      return absl::OkStatus();
    case SessionChange::kGivenUp:
      return absl::Status(
          last_failure_.code(),
          absl::StrCat(
              "not restored within ",
              absl::FormatDuration(options_.reconnect.replacement_timeout),
              " (replacement_timeout): ", last_failure_.message()));
    case SessionChange::kClosed:
      break;
  }
  return close_reason_;
}

void InitiatorImpl::Disconnect(const absl::Status& why) {
  if (connection_.has_value()) connection_->session->Terminate(why);
  TearDown();
  attempt_.reset();
  move_.reset();
  iser_memories_->DropRemoved();
  close_reason_ = Explain(why);
}

}  // namespace skiff::protocol
