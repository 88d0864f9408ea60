// Connecting, and the logical units of the session.
#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "tools/clients/libiscsi/cdb.h"
#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Between attempts to open a session anew.
constexpr int64_t kReopenDelay = kSecond;
constexpr int kMaxUnitAttentions = 10;
constexpr int kNotReady = 0x02;
constexpr int kUnitAttention = 0x06;
// In flight for each unit; more waits.
constexpr uint32_t kMaxCommands = 256;

constexpr int kMediumNotPresent = 0x3a00;
constexpr int kSanitizeInProgress = 0x041b;

std::string PercentEncoded(const std::string& text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) == std::string_view::npos) {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      encoded += c;
    }
  }
  return encoded;
}

// The device is there, whatever it says of its medium.
bool IsThere(int status, const scsi_sense& sense) {
  if (status == kGood || status == kReservationConflict) return true;
  return status == kCheckCondition && sense.key == kNotReady &&
         ((sense.ascq & 0xff00) == kMediumNotPresent ||
          sense.ascq == kSanitizeInProgress);
}

std::function<void(int)> Telling(iscsi_context* iscsi, iscsi_command_cb cb,
                                 void* private_data) {
  return [iscsi, cb, private_data](int status) {
    if (cb != nullptr) cb(iscsi, status, nullptr, private_data);
  };
}

}  // namespace

const char* Credentials::Set(const char* new_user, const char* new_password) {
  user = new_user == nullptr ? "" : new_user;
  password = new_password == nullptr ? "" : new_password;
  if (user.empty() != password.empty()) {
    return "a user name and a password belong together: one is missing";
  }
  // Skiff's URLs have no way to write them.
  if (user.find_first_of("%@/?#") != std::string::npos) {
    return "a user name cannot have one of the characters %@/?#";
  }
  return nullptr;
}

std::string iscsi_context::Url(const std::string& target, uint32_t lun) const {
  // "host:port,group?options": the group is what discovery tells.
  const size_t question = std::min(portal_.find('?'), portal_.size());
  std::string portal = portal_.substr(0, question);
  portal = portal.substr(0, portal.find(','));
  std::string url =
      settings_.transport == kIserTransport ? "iser://" : "iscsi://";
  if (!settings_.initiator.empty()) {
    url += settings_.initiator.user + "%" +
           PercentEncoded(settings_.initiator.password) + "@";
  }
  url += portal;
  if (!target.empty()) {
    url += "/" + PercentEncoded(target) + "/" + std::to_string(lun);
  }
  url += portal_.substr(question);
  if (settings_.target.empty()) return url;
  url += question < portal_.size() ? "&" : "?";
  return url + "target_user=" + PercentEncoded(settings_.target.user) +
         "&target_password=" + PercentEncoded(settings_.target.password);
}

void iscsi_context::FillOptions(skiff_disk_options* options, Unit* unit) {
  SKIFF_INIT(*options);
  options->flags = SKIFF_DISK_COMMANDS_ONLY;
  if (settings_.header_digest) options->flags |= SKIFF_DISK_HEADER_DIGEST;
  options->initiator_name = settings_.initiator_name.c_str();
  if (!settings_.alias.empty()) {
    options->initiator_alias = settings_.alias.c_str();
  }
  options->max_commands = kMaxCommands;
  // The program sees what the device says, and tries again by itself.
  options->max_retries = SKIFF_NEVER;
  options->command_timeout_ms = SKIFF_NEVER;  // Ours are for each command.
  if (settings_.timeout_seconds > 0) {
    options->connect_timeout_ms = 1000u * settings_.timeout_seconds;
    options->login_timeout_ms = 1000u * settings_.timeout_seconds;
  }
  options->restore_timeout_ms = SKIFF_NEVER;
  if (settings_.reconnect_retries >= 0) {
    options->restore_timeout_ms =
        1000u * (1 + std::min(settings_.reconnect_retries, 1'000'000));
  }
  options->on_event = OnEvent;
  options->event_user = unit;
}

// --- Connecting.

int iscsi_context::ConnectThen(const char* portal,
                               std::function<void(int status)> done) {
  if (destroyed_) return Fail("the context is being destroyed");
  if (state_ != State::kIdle) {
    return Fail("the context is connected already: disconnect it first");
  }
  if (portal == nullptr || *portal == '\0') return Fail("there is no portal");
  portal_ = portal;
  ++connects_;
  found_ = nullptr;
  broken_ = false;
  has_socket_ = true;
  if (settings_.session_type == kDiscoverySession) {
    // Skiff asks in one step: that shows whether the portal is there.
    const auto told = [this, connect = connects_, done = std::move(done)](
                          int status, const std::shared_ptr<Found>& found) {
      // Not where the program has disconnected, and connected anew.
      if (state_ == State::kDiscovery && connect == connects_) {
        found_ = found;
        if (status != kGood) state_ = State::kIdle;
      }
      done(status);
    };
    if (FindTargets(told) != 0) return -1;
    state_ = State::kDiscovery;
    return 0;
  }
  if (!settings_.target_name.empty()) return Open(std::move(done));
  state_ = State::kNoted;
  Later([done] { done(kGood); });
  return 0;
}

int iscsi_context::Connect(const char* portal, iscsi_command_cb cb,
                           void* private_data) {
  first_lun_ = 0;
  return ConnectThen(portal, Telling(this, cb, private_data));
}

int iscsi_context::FullConnect(const char* portal, int lun, iscsi_command_cb cb,
                               void* private_data) {
  if (settings_.target_name.empty()) {
    return Fail("there is no target name: iscsi_set_targetname() comes first");
  }
  // A negative LUN: the program will ask which there are.
  first_lun_ = lun < 0 ? 0 : static_cast<uint32_t>(lun);
  return ConnectThen(portal, [this, lun, cb, private_data](int status) {
    if (status != kGood || lun < 0 ||
        settings_.session_type == kDiscoverySession) {
      return Telling(this, cb, private_data)(status);
    }
    TestUnitReady(lun, kMaxUnitAttentions, cb, private_data);
  });
}

void iscsi_context::TestUnitReady(int lun, int attempts, iscsi_command_cb cb,
                                  void* private_data) {
  struct Test {
    int lun;
    int attempts;
    iscsi_command_cb cb;
    void* private_data;
  };
  auto* const test = new Test{lun, attempts, cb, private_data};
  const auto done = [](iscsi_context* iscsi, int status, void* command_data,
                       void* user) {
    const std::unique_ptr<Test> tested(static_cast<Test*>(user));
    auto* const ended = static_cast<scsi_task*>(command_data);
    const scsi_sense sense = ended->sense;
    scsi_free_scsi_task(ended);
    // After each login a device has something to tell.
    if (status == kCheckCondition && sense.key == kUnitAttention &&
        tested->attempts > 0 && !iscsi->destroyed_) {
      return iscsi->TestUnitReady(tested->lun, tested->attempts - 1, tested->cb,
                                  tested->private_data);
    }
    const bool there = IsThere(status, sense);
    if (there) iscsi->SetError("");
    Telling(iscsi, tested->cb, tested->private_data)(there ? kGood : kError);
  };
  scsi_task* const task = scsi_cdb_testunitready();
  if (task != nullptr && Submit(lun, task, done, nullptr, test) == 0) return;
  delete test;
  scsi_free_scsi_task(task);
  Telling(this, cb, private_data)(kError);
}

int iscsi_context::Login(iscsi_command_cb cb, void* private_data) {
  if (logged_in_ || state_ == State::kDiscovery) {
    Later([done = Telling(this, cb, private_data)] { done(kGood); });
    return 0;
  }
  if (state_ != State::kNoted)
    return Fail("not connected: nothing to log in to");
  if (settings_.target_name.empty()) {
    return Fail("there is no target name: iscsi_set_targetname() comes first");
  }
  return Open(Telling(this, cb, private_data));
}

int iscsi_context::Open(std::function<void(int status)> done) {
  units_.clear();
  Unit* const unit = FindUnit(first_lun_);
  connected_ = std::move(done);
  state_ = State::kConnecting;
  OpenUnit(unit);
  if (unit->state == Unit::State::kOpening) return 0;
  connected_ = nullptr;
  state_ = State::kIdle;
  AnswerNops(kCancelled);
  return -1;
}

// --- Units.

Unit* iscsi_context::FindUnit(uint32_t lun) {
  for (const std::unique_ptr<Unit>& unit : units_) {
    if (unit->lun == lun) return unit.get();
  }
  if (units_.size() == kMaxUnits) return nullptr;
  units_.push_back(std::make_unique<Unit>());
  units_.back()->iscsi = this;
  units_.back()->lun = lun;
  return units_.back().get();
}

void iscsi_context::OpenUnit(Unit* unit) {
  skiff_disk_options options;
  FillOptions(&options, unit);
  int error = 0;
  if (unit == units_.front().get()) {
    error = skiff_disk_open(loop_->skiff(),
                            Url(settings_.target_name, unit->lun).c_str(),
                            &options, OnUnitOpened, unit, &unit->disk);
  } else {
    error = skiff_disk_open_lun(units_.front()->disk, unit->lun, &options,
                                OnUnitOpened, unit, &unit->disk);
  }
  if (error != 0) {
    SetError(skiff_last_error());
    return;
  }
  ++open_units_;
  unit->state = Unit::State::kOpening;
}

void iscsi_context::OnUnitOpened(void* user, int result, const char* message) {
  auto* const unit = static_cast<Unit*>(user);
  unit->iscsi->UnitOpened(unit, result, message);
}

void iscsi_context::UnitOpened(Unit* unit, int result, const char* message) {
  if (unit->disk == nullptr) return;  // It is being closed.
  if (result != 0) return UnitFailed(unit, message);
  unit->state = Unit::State::kOpen;
  if (unit == units_.front().get()) {
    state_ = State::kUp;
    logged_in_ = true;
    reopen_ = false;
    reopen_attempts_ = 0;
    AnswerNops(kGood);
    if (connected_ != nullptr) {
      Later([done = std::exchange(connected_, nullptr)] { done(kGood); });
    }
    for (size_t i = 1; i < units_.size(); ++i) StartWaiting(units_[i].get());
  }
  StartWaiting(unit);
}

void iscsi_context::UnitFailed(Unit* unit, const std::string& why) {
  SetError(why);
  if (unit != units_.front().get()) {
    FailWaiting(unit, why);
    return CloseUnit(unit);
  }
  state_ = State::kClosing;
  if (connected_ != nullptr) {
    when_closed_.push_back(
        [done = std::exchange(connected_, nullptr)] { done(kError); });
  } else if (reopen_ && settings_.reconnect_retries >= 0 &&
             reopen_attempts_ >= settings_.reconnect_retries) {
    return EndSession(why);
  }
  CloseUnits();
}

// Starts the commands that wait for it, and has it opened if it is not.
void iscsi_context::StartWaiting(Unit* unit) {
  for (Call* call = calls_.first(); call != nullptr;) {
    Call* const waiting = call;
    call = call->next;
    if (waiting->unit != unit || waiting->state != Call::State::kWaiting) {
      continue;
    }
    if (unit->state == Unit::State::kClosed) {
      OpenUnit(unit);
      if (unit->state == Unit::State::kClosed) FailWaiting(unit, error_);
    }
    if (unit->state != Unit::State::kOpen) return;
    StartOrEnd(waiting);
  }
}

void iscsi_context::FailWaiting(Unit* unit, const std::string& why) {
  for (Call* call = calls_.first(); call != nullptr; call = call->next) {
    if (unit != nullptr && call->unit != unit) continue;
    // The units go with the session, and nothing may point to them then.
    const bool left = unit == nullptr && call->state == Call::State::kAborted;
    if (call->state != Call::State::kWaiting && !left) continue;
    call->message = why;
    End(call, kCancelled);
  }
}

// --- The end, or not.

void iscsi_context::CloseUnit(Unit* unit) {
  skiff_disk* const disk = std::exchange(unit->disk, nullptr);
  unit->state = Unit::State::kClosed;
  if (disk == nullptr) return;
  if (skiff_disk_close(disk, OnUnitClosed, this) != 0) --open_units_;
}

void iscsi_context::OnUnitClosed(void* user, int /*result*/,
                                 const char* /*message*/) {
  auto* const self = static_cast<iscsi_context*>(user);
  if (--self->open_units_ == 0) self->UnitsClosed();
}

void iscsi_context::CloseUnits() {
  logged_in_ = false;
  reopen_at_ = Loop::kNever;  // An attempt that was to come is not wanted.
  bare_.clear();              // They wait, or fail, as all that was not sent.
  if (state_ != State::kIdle) state_ = State::kClosing;
  if (connected_ != nullptr) {
    when_closed_.push_back(
        [done = std::exchange(connected_, nullptr)] { done(kCancelled); });
  }
  // The first one lets the session end, so it is the last to go.
  for (size_t i = units_.size(); i > 0; --i) CloseUnit(units_[i - 1].get());
  if (open_units_ == 0) UnitsClosed();
}

void iscsi_context::UnitsClosed() {
  if (state_ != State::kClosing) return;
  if (reopen_) {
    reopen_at_ = reopen_attempts_ == 0 ? 0 : Loop::Now() + kReopenDelay;
    ++reopen_attempts_;
  } else {
    state_ = State::kIdle;
    FailWaiting(nullptr, "the session has ended");
    AnswerNops(kCancelled);
  }
  for (std::function<void()>& told : std::exchange(when_closed_, {})) {
    Later(std::move(told));
  }
}

void iscsi_context::Reopen() {
  state_ = State::kConnecting;
  OpenUnit(units_.front().get());
  if (units_.front()->state != Unit::State::kOpening) EndSession(error_);
}

void iscsi_context::OnEvent(void* user, skiff_disk* /*disk*/, int event,
                            int /*result*/, const char* message) {
  const auto* const unit = static_cast<Unit*>(user);
  iscsi_context* const self = unit->iscsi;
  if (unit != self->units_.front().get() || self->state_ != State::kUp) return;
  switch (event) {
    case SKIFF_DISK_LOST:
      self->logged_in_ = false;
      if (self->settings_.no_reconnect) self->EndSession(message);
      return;
    case SKIFF_DISK_RESTORED:
      self->logged_in_ = true;
      return self->AnswerNops(kGood);
    case SKIFF_DISK_GIVEN_UP:
    case SKIFF_DISK_ENDED:
      return self->EndSession(message);
    default:
      return;
  }
}

void iscsi_context::AnswerNops(int status) {
  for (std::function<void(int)>& nop : std::exchange(waiting_nops_, {})) {
    Later([told = std::move(nop), status] { told(status); });
  }
}

void iscsi_context::EndSession(const std::string& why) {
  SetError("the session has ended: " + why);
  broken_ = true;
  reopen_ = false;
  CloseUnits();
}

int iscsi_context::Logout(iscsi_command_cb cb, void* private_data) {
  if (!logged_in_ && state_ != State::kDiscovery) {
    return Fail("not logged in: nothing to log out from");
  }
  if (state_ == State::kDiscovery) {
    state_ = State::kIdle;
    Later([done = Telling(this, cb, private_data)] { done(kGood); });
    return 0;
  }
  when_closed_.push_back(
      [done = Telling(this, cb, private_data)] { done(kGood); });
  CloseUnits();
  return 0;
}

int iscsi_context::Disconnect() {
  // With libiscsi, a socket is left after a logout.
  if (std::exchange(has_socket_, false) && state_ == State::kIdle) return 0;
  if (state_ == State::kIdle) return Fail("not connected");
  reopen_ = false;
  if (state_ == State::kNoted || state_ == State::kDiscovery) {
    state_ = State::kIdle;
    AnswerNops(kCancelled);
    return 0;
  }
  CloseUnits();
  while (open_units_ > 0 && loop_->Wait(1000) >= 0) {
  }
  return 0;
}

int iscsi_context::Reconnect() {
  if (state_ == State::kClosing && reopen_) return 0;  // It is being done.
  if (state_ != State::kUp) return Fail("not connected: nothing to reconnect");
  if (!logged_in_) return 0;  // Skiff is at it.
  for (Call* call = calls_.first(); call != nullptr; call = call->next) {
    if (call->state == Call::State::kStarted) call->again = true;
  }
  reopen_ = true;
  reopen_attempts_ = 0;
  CloseUnits();
  return 0;
}

}  // namespace skiff::libiscsi
