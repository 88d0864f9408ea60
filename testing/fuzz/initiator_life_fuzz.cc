// Events of any kind in any order, as sessions, targets, networks and users
// make them, and some that do not fit. What InitiatorLife wants is done by a
// model of the initiator, which knows what there is: an attempt, a session, a
// move, commands, logouts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "protocol/initiator/initiator_life.h"
#include "protocol/initiator/session_change.h"
#include "testing/fuzz/check.h"

namespace skiff::protocol {
namespace {

using Life = InitiatorLife;
using Kind = Life::Action::Kind;
using How = Life::SessionEnd::How;

constexpr uint32_t kMaxRedirects = 3;
constexpr double kJitter = 0.25;
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
constexpr absl::Duration kLongestWait = absl::Seconds(100);

Life::Options OptionsFor(uint8_t settings) {
  Life::Options options;
  options.reconnect.delay = kFirstPause;
  options.reconnect.max_delay = kLongestPause;
  options.reconnect.max_time2wait = kLongestWait;
  options.reconnect.jitter = kJitter;
  options.reconnect.seed = 1;
  options.reconnect.replacement_timeout = absl::Seconds(settings % 4 * 10);
  options.rdma_retry_interval = absl::Seconds((settings >> 2) % 4);
  options.rdma_move_patience = absl::Seconds((settings >> 4) % 4);
  options.max_redirects = kMaxRedirects;
  return options;
}

class Model {
 public:
  explicit Model(uint8_t settings) : life_(OptionsFor(settings)) {
    Do(life_.Start());
  }

  void Happen(uint8_t event, uint8_t detail);

  // The destructor of an initiator. Everybody has an answer then, once.
  void End() {
    Do(life_.Close(absl::CancelledError("the end")));
    SKIFF_FUZZ_CHECK(life_.closed());
    SKIFF_FUZZ_CHECK(ready_answers_ == 1);
    SKIFF_FUZZ_CHECK(answered_ == submitted_);
    SKIFF_FUZZ_CHECK(logouts_answered_ == logouts_asked_);
  }

  size_t live() const { return submitted_ - answered_; }

 private:
  enum class Session : uint8_t { kNone, kLogin, kUp };

  void Do(const Life::Actions& actions) {
    // Closed is final: what is asked later is answered, and that is all.
    const bool was_closed = closed_;
    for (const Life::Action& action : actions) {
      SKIFF_FUZZ_CHECK(!was_closed || action.kind == Kind::kAnswerLogouts);
      Do(action);
    }
    Check();
  }
  void Do(const Life::Action& action);

  // The events that say what the model has.
  void Submit();
  void Answer();
  void LogOut(bool can);
  void EndSession(How how, uint8_t detail);
  void Timer(uint8_t detail);
  void MoveIsReached();

  // What actions do.
  void Connect(Kind kind);
  void Tell(SessionChange change);
  void TakeSession();
  void SendQueued();
  void Check() const;

  Life life_;
  absl::Time now_ = absl::UnixEpoch();

  bool attempt_ = false;
  absl::Time up_since_;
  Session session_ = Session::kNone;
  bool move_attempt_ = false;
  bool move_endpoint_ = false;
  bool closed_ = false;

  size_t submitted_ = 0;
  size_t answered_ = 0;
  size_t queued_ = 0;
  size_t outstanding_ = 0;
  size_t logouts_asked_ = 0;
  size_t logouts_answered_ = 0;
  size_t logouts_waiting_ = 0;
  size_t logouts_in_session_ = 0;

  int ready_answers_ = 0;
  std::optional<SessionChange> told_;  // Also a first session.

  // Of the pause that goes on, or was the last.
  absl::Time pause_begin_;
  absl::Duration least_pause_;
  absl::Duration next_pause_ = kFirstPause;
  uint32_t attempts_ = 0;  // Since the last pause, or the last move.
};

void Model::Check() const {
  // One connection at most is being made, beside the session only for a move.
  SKIFF_FUZZ_CHECK((attempt_ ? 1 : 0) + (move_attempt_ ? 1 : 0) <= 1);
  SKIFF_FUZZ_CHECK(!attempt_ || session_ == Session::kNone);
  const bool moves = move_attempt_ || move_endpoint_;
  SKIFF_FUZZ_CHECK(!moves || session_ == Session::kUp);
  // It knows what there is, and so does what there is have an end.
  SKIFF_FUZZ_CHECK(life_.up() == (session_ == Session::kUp));
  SKIFF_FUZZ_CHECK(life_.closed() == closed_);
  SKIFF_FUZZ_CHECK(attempt_ == (life_.step() == Life::Step::kReaching));
  SKIFF_FUZZ_CHECK(move_attempt_ ==
                   (life_.step() == Life::Step::kReachingRdma));
  SKIFF_FUZZ_CHECK(!life_.refuses_commands() || queued_ == 0);
  SKIFF_FUZZ_CHECK(submitted_ == answered_ + queued_ + outstanding_);
  SKIFF_FUZZ_CHECK(session_ == Session::kUp || outstanding_ == 0);
  // Where nothing else goes on, time does.
  const bool idle = !attempt_ && session_ == Session::kNone && !closed_;
  SKIFF_FUZZ_CHECK(!idle || life_.next_deadline() < absl::InfiniteFuture());
  SKIFF_FUZZ_CHECK(!closed_ || life_.next_deadline() == absl::InfiniteFuture());
}

void Model::Do(const Life::Action& action) {
  switch (action.kind) {
    case Kind::kConnectToPortal:
    case Kind::kConnectToRedirect:
    case Kind::kConnectAgain:
      return Connect(action.kind);
    case Kind::kLogIn:
      SKIFF_FUZZ_CHECK(attempt_);
      attempt_ = false;
      session_ = Session::kLogin;
      return;
    case Kind::kTryRdma:
      SKIFF_FUZZ_CHECK(!move_endpoint_);
      move_attempt_ = true;
      return;
    case Kind::kDropMove:
      SKIFF_FUZZ_CHECK(move_attempt_ || move_endpoint_);
      move_attempt_ = false;
      move_endpoint_ = false;
      return;
    case Kind::kLogOutForMove:
      SKIFF_FUZZ_CHECK(move_endpoint_ && outstanding_ == 0);
      return;
    case Kind::kEndSession:
      SKIFF_FUZZ_CHECK(session_ == Session::kUp);
      return;
    case Kind::kUseMove:
      SKIFF_FUZZ_CHECK(move_endpoint_ && session_ == Session::kNone);
      move_endpoint_ = false;
      attempt_ = true;
      attempts_ = 1;
      return;
    case Kind::kLogOut:
      SKIFF_FUZZ_CHECK(session_ == Session::kUp && logouts_waiting_ > 0);
      --logouts_waiting_;
      ++logouts_in_session_;
      return;
    case Kind::kDisconnect:
      TakeSession();
      attempt_ = false;
      move_attempt_ = false;
      move_endpoint_ = false;
      closed_ = true;
      return;
    case Kind::kAnswerReady:
      SKIFF_FUZZ_CHECK(++ready_answers_ == 1);
      SKIFF_FUZZ_CHECK(action.why.ok() == !closed_);
      if (action.why.ok()) told_ = SessionChange::kRestored;
      return;
    case Kind::kTell:
      return Tell(action.change);
    case Kind::kFailCommands:
      answered_ += queued_;
      queued_ = 0;
      return;
    case Kind::kAnswerLogouts:
      logouts_answered_ += logouts_waiting_;
      logouts_waiting_ = 0;
      return;
    case Kind::kReportLost:
    case Kind::kReportReconnectFailed:
      SKIFF_FUZZ_CHECK(!action.why.ok());
      return;
    case Kind::kReportRestored:
    case Kind::kReportGivenUp:
    case Kind::kReportNextWithoutRdma:
    case Kind::kReportMoveUnusable:
    case Kind::kReportMoveTookTooLong:
      return;
  }
}

void Model::Connect(Kind kind) {
  SKIFF_FUZZ_CHECK(!attempt_ && session_ == Session::kNone);
  attempt_ = true;
  if (kind == Kind::kConnectToPortal) {
    SKIFF_FUZZ_CHECK(now_ >= pause_begin_ + least_pause_);
    attempts_ = 0;
  }
  // Each address once, and once more without RDMA.
  SKIFF_FUZZ_CHECK(++attempts_ <= 2 * (kMaxRedirects + 1));
}

void Model::Tell(SessionChange change) {
  SKIFF_FUZZ_CHECK(told_.has_value());
  switch (change) {
    case SessionChange::kLost:
      SKIFF_FUZZ_CHECK(told_ == SessionChange::kRestored);
      break;
    case SessionChange::kRestored:
      SKIFF_FUZZ_CHECK(told_ == SessionChange::kLost ||
                       told_ == SessionChange::kGivenUp);
      break;
    case SessionChange::kGivenUp:
      SKIFF_FUZZ_CHECK(told_ == SessionChange::kLost);
      break;
    case SessionChange::kClosed:
      SKIFF_FUZZ_CHECK(told_ != SessionChange::kClosed);
      break;
  }
  told_ = change;
}

// Its commands are first in the queue again, and its logouts are answered.
void Model::TakeSession() {
  session_ = Session::kNone;
  queued_ += outstanding_;
  outstanding_ = 0;
  logouts_answered_ += logouts_in_session_;
  logouts_in_session_ = 0;
}

void Model::SendQueued() {
  if (!life_.sends_commands()) return;
  outstanding_ += queued_;
  queued_ = 0;
}

void Model::Submit() {
  ++submitted_;
  if (life_.refuses_commands()) {
    ++answered_;
  } else {
    ++queued_;
    SendQueued();
  }
}

void Model::Answer() {
  if (session_ != Session::kUp || outstanding_ == 0) return;
  --outstanding_;
  ++answered_;
  life_.Answered();
}

void Model::LogOut(bool can) {
  ++logouts_asked_;
  ++logouts_waiting_;
  // A session that logs out already, for a move or for another, takes no more.
  can = can && session_ == Session::kUp && logouts_in_session_ == 0 &&
        life_.step() != Life::Step::kLoggingOut;
  Do(life_.AskedToLogOut(can));
}

void Model::EndSession(How how, uint8_t detail) {
  Life::SessionEnd end;
  end.how = how;
  end.why = absl::UnavailableError("ended");
  end.wait = absl::Seconds((detail & 1) != 0 ? 0 : detail);
  end.not_admitted = (detail & 2) != 0;
  end.redirected_to = "there";
  end.redirect_makes_sense = (detail & 4) != 0;
  end.rdma.used = (detail & 8) != 0;
  end.rdma.moved_data = (detail & 16) != 0;
  end.rdma.lost_before_data = (detail & 32) != 0;
  end.rdma.avoidable = (detail & 64) != 0;
  const bool was_there = session_ != Session::kNone;
  // Only a session that lasted makes the pauses short again.
  if (session_ == Session::kUp && now_ - up_since_ >= kLongestPause) {
    next_pause_ = kFirstPause;
  }
  TakeSession();
  const Life::Actions actions = life_.SessionEnded(now_, end);
  SKIFF_FUZZ_CHECK(was_there != actions.empty());
  Do(actions);
}

void Model::MoveIsReached() {
  if (move_attempt_) {
    move_attempt_ = false;
    move_endpoint_ = true;
  }
  life_.MoveReached();
  Check();
}

void Model::Timer(uint8_t detail) {
  const absl::Time deadline = life_.next_deadline();
  if ((detail & 1) != 0 && deadline < absl::InfiniteFuture()) {
    now_ = std::max(now_, deadline);
  } else {
    now_ += absl::Milliseconds(detail * 10);
  }
  const Life::Actions actions = life_.OnTimer(now_);
  SKIFF_FUZZ_CHECK(actions.empty() == (now_ < deadline));
  Do(actions);
}

void Model::Happen(uint8_t event, uint8_t detail) {
  const bool was_pausing = life_.step() == Life::Step::kPausing;
  const bool was_login = session_ == Session::kLogin;
  absl::Duration wait = absl::ZeroDuration();  // That a target asks for.
  Life::RdmaUse rdma;
  rdma.used = (detail & 1) != 0;
  rdma.avoidable = (detail & 2) != 0;
  switch (event % 16) {
    case 0:
      Do(life_.Start());
      break;
    case 1:
    case 2:
      Do(life_.Connected());
      break;
    case 3:
      attempt_ = false;
      Do(life_.ConnectFailed(now_, absl::UnavailableError("failed"), rdma));
      break;
    case 4:
    case 5: {
      const bool waits = queued_ > 0;
      if (was_login) {
        session_ = Session::kUp;
        up_since_ = now_;
      }
      Do(life_.LoggedIn(now_, (detail & 1) != 0, waits));
      break;
    }
    case 6:
    case 7: {
      const How how = static_cast<How>(detail >> 6);
      // The pause of a failed login is not the target's to choose.
      if (how == How::kLost || how == How::kLoggedOut || !was_login) {
        wait = std::min(absl::Seconds((detail & 1) != 0 ? 0 : detail),
                        kLongestWait);
      }
      EndSession(how, detail);
      break;
    }
    case 8:
      MoveIsReached();
      break;
    case 9:
      Do(life_.MoveFailed(now_));
      break;
    case 10:
      Do(life_.MoveUnusable(now_, absl::UnavailableError("unusable")));
      break;
    case 11:
      Do(life_.ContinueMove(now_, outstanding_ == 0));
      break;
    case 12:
      Submit();
      break;
    case 13:
      Answer();
      break;
    case 14:
      if (detail < 32) LogOut((detail & 1) != 0);
      break;
    default:
      Timer(detail);
      break;
  }
  SendQueued();
  // A pause has begun: it is as long as it has to be, and bounded.
  if (life_.step() == Life::Step::kPausing && !was_pausing) {
    pause_begin_ = now_;
    least_pause_ = std::max(wait, next_pause_);
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
  }
  // Also where commands fail earlier: then that is the next deadline.
  if (life_.step() == Life::Step::kPausing) {
    SKIFF_FUZZ_CHECK(life_.next_deadline() <=
                     pause_begin_ + least_pause_ * (1 + kJitter));
  }
  Check();
}

void Run(absl::Span<const uint8_t> input) {
  constexpr size_t kMostCommands = 1000;
  Model model(input[0]);
  for (size_t i = 1; i + 1 < input.size() && model.live() < kMostCommands;
       i += 2) {
    model.Happen(input[i], input[i + 1]);
  }
  model.End();
}

}  // namespace
}  // namespace skiff::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  skiff::protocol::Run(absl::MakeConstSpan(data, size));
  return 0;
}
