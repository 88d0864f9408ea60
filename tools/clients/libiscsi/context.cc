#include "tools/clients/libiscsi/context.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace skiff::libiscsi {
namespace {

constexpr int kTurnMs = 1000;
constexpr size_t kFew = 2;
constexpr char kInLog[] = "the log function cannot call this";

}  // namespace

iscsi_context* iscsi_context::Create(const char* initiator_name) {
  auto* const iscsi = new (std::nothrow) iscsi_context;
  if (iscsi == nullptr) return nullptr;
  iscsi->settings_.initiator_name = initiator_name;
  std::string error;
  iscsi->loop_ = Loop::Create(OnLog, iscsi, &error);
  if (iscsi->loop_ != nullptr) return iscsi;
  delete iscsi;
  return nullptr;
}

iscsi_context::~iscsi_context() {
  while (!free_.empty()) {
    Call* const call = free_.first();
    free_.Remove(call);
    delete call;
  }
}

void iscsi_context::SetError(std::string text) { error_ = std::move(text); }

int iscsi_context::Fail(std::string text) {
  SetError(std::move(text));
  return -1;
}

void iscsi_context::OnLog(void* user, int level, const char* message) {
  const auto* const self = static_cast<iscsi_context*>(user);
  // libiscsi's levels: 1 is an error, and the higher, the more is said.
  const iscsi_log_fn log = self->log_;
  if (log != nullptr && level <= self->log_level_) log(level, message);
}

bool iscsi_context::Enter() {
  if (loop_->forked()) {
    return Fail("the session is that of the parent of this process") == 0;
  }
  if (loop_->turning()) return Fail(kInLog) == 0;
  loop_->Adopt();
  return true;
}

void iscsi_context::Prepare() {
  if (!bare_.empty()) StartBare();
  bool due = loop_->due();
  // A few are sent at once. With many in flight, the program is about to
  // submit more: then the next turn sends all.
  if (due && calls_.size() <= kFew) {
    loop_->Poll();
    unsent_ = 0;
    due = loop_->due();
  }
  if (due || !ended_.empty()) return loop_->Kick();
  loop_->Arm(std::min(next_expiry_, reopen_at_));
}

int iscsi_context::Turn(int wait_ms, bool* gone) {
  ++depth_;
  if (!bare_.empty()) StartBare();
  const int turned =
      wait_ms == 0 || !ended_.empty() ? loop_->Poll() : loop_->Wait(wait_ms);
  if (turned == -ECHILD) broken_ = true;
  unsent_ = 0;
  RunTimers();
  RunEnded();
  const int result = broken_ ? -1 : 0;
  --depth_;
  const bool destroyed = destroyed_;
  if (gone != nullptr) *gone = destroyed;
  if (destroyed && depth_ == 0) {
    delete this;
    return 0;
  }
  if (!destroyed && depth_ == 0) Prepare();
  return result;
}

bool iscsi_context::TurnUntil(const bool* finished) {
  bool gone = false;
  while (!*finished && !gone) {
    int64_t own = std::min(next_expiry_, reopen_at_);
    int wait_ms = kTurnMs;
    if (own != Loop::kNever) {
      own =
          std::clamp<int64_t>((own - Loop::Now()) / 1'000'000 + 1, 1, kTurnMs);
      wait_ms = static_cast<int>(own);
    }
    Turn(wait_ms, &gone);
    // A callback came back in a child: nothing ever happens there.
    if (!gone && !*finished && loop_->forked()) {
      EndAll();
      break;
    }
  }
  return !gone;
}

void iscsi_context::RunTimers() {
  if (next_expiry_ == Loop::kNever && reopen_at_ == Loop::kNever) return;
  const int64_t now = Loop::Now();
  if (next_expiry_ <= now) ExpireCalls();
  if (reopen_at_ <= now) {
    reopen_at_ = Loop::kNever;
    Reopen();
  }
}

void iscsi_context::RunEnded() {
  // What callbacks start is for the next turn: the program wants to look at
  // other descriptors, too.
  for (size_t left = ended_.size(); left > 0 && !ended_.empty(); --left) {
    Job* const job = ended_.Pop();
    if (job->function == nullptr) {
      Deliver(static_cast<Call*>(job));
      continue;
    }
    const std::unique_ptr<Job> owned(job);
    owned->function();
  }
}

void iscsi_context::Later(std::function<void()> function) {
  auto* const job = new Job;
  job->function = std::move(function);
  ended_.Push(job);
}

int iscsi_context::Destroy() {
  if (destroyed_) return 0;
  if (loop_->turning()) return Fail(kInLog);
  destroyed_ = true;
  const Turning turning(this);
  EndAll();
  return 0;
}

// Tells the program of the end of all that is under way.
void iscsi_context::EndAll() {
  reopen_ = false;
  CloseUnits();
  // Blocks at most as long as Skiff waits for a target that says nothing.
  while (open_units_ > 0 || discoveries_ > 0) {
    if (loop_->Wait(kTurnMs) < 0) break;
  }
  if (open_units_ > 0) {
    // In a child, where Skiff tells nobody.
    open_units_ = 0;
    UnitsClosed();
  }
  CancelAll();
  while (!ended_.empty()) RunEnded();
}

iscsi_context::Turning::~Turning() {
  if (--context_->depth_ == 0 && context_->destroyed_) delete context_;
}

void Outcome::Note(iscsi_context* /*iscsi*/, int status, void* command_data,
                   void* private_data) {
  auto* const self = static_cast<Outcome*>(private_data);
  self->status = status;
  self->data = command_data;
  self->finished = true;
}

int RunAndWait(iscsi_context* iscsi,
               const std::function<int(iscsi_command_cb, void*)>& start) {
  Outcome outcome;
  if (start(Outcome::Note, &outcome) != 0) return kError;
  iscsi->TurnUntil(&outcome.finished);
  return outcome.finished ? outcome.status : kCancelled;
}

}  // namespace skiff::libiscsi
