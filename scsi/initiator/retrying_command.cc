#include "scsi/initiator/retrying_command.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/scsi_error.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kCheckCondition = 0x02;
constexpr uint8_t kBusy = 0x08;
constexpr uint8_t kTaskSetFull = 0x28;
constexpr uint8_t kTaskAborted = 0x40;

std::optional<SenseData> SenseOf(const Command& command) {
  if (command.outcome != Command::Outcome::kCompleted ||
      command.status != kCheckCondition) {
    return std::nullopt;
  }
  return DecodeSense(absl::MakeConstSpan(
      command.sense.data(),
      std::min<size_t>(command.sense_length, command.sense.size())));
}

}  // namespace

RetryingCommand::RetryingCommand(const Environment* environment, Done done,
                                 void* context)
    : environment_(environment),
      done_(done),
      context_(context),
      timer_(environment->reactor, [this] { Attempt(); }) {
  command_.context = this;
  command_.done = [](Command* command) {
    static_cast<RetryingCommand*>(command->context)->OnDone();
  };
}

RetryingCommand::~RetryingCommand() { assert(!running_); }

void RetryingCommand::Prepare() {
  assert(!running_);
  command_.lun = environment_->lun;
  command_.attribute = Command::Attribute::kSimple;
  command_.data_out = nullptr;
  command_.data_out_count = 0;
  command_.data_out_length = 0;
  command_.data_in = nullptr;
  command_.data_in_count = 0;
  command_.data_in_length = 0;
  command_.idempotent = true;
}

void RetryingCommand::Start() {
  assert(!running_);
  running_ = true;
  stopped_ = false;
  retries_ = 0;
  timeouts_ = 0;
  delay_ = environment_->retry.first_delay;
  Attempt();
}

void RetryingCommand::Attempt() {
  command_.outcome = Command::Outcome::kPending;
  command_.status = 0;
  command_.sense_length = 0;
  command_.overflow = false;
  command_.underflow = false;
  command_.residual = 0;
  environment_->port->Submit(&command_);
}

void RetryingCommand::Stop() {
  if (!running_ || stopped_) return;
  stopped_ = true;
  if (timer_.scheduled()) {
    timer_.Cancel();
    return Finish(absl::CancelledError(absl::StrCat(
        CommandName(command_), ": given up while waiting to try again")));
  }
  environment_->port->Abort(&command_);
}

RetryingCommand::Verdict RetryingCommand::Judge() {
  const Verdict unless_executed =
      command_.idempotent ? Verdict::kRetryNow : Verdict::kFinal;
  switch (command_.outcome) {
    case Command::Outcome::kCompleted:
      break;
    case Command::Outcome::kAborted:  // Not by Stop(), which is final.
      return unless_executed;
    case Command::Outcome::kTimedOut:
      return timeouts_++ < environment_->retry.max_timeouts ? unless_executed
                                                            : Verdict::kFinal;
    default:
      return Verdict::kFinal;
  }
  switch (command_.status) {
    case kBusy:
    case kTaskSetFull:
      return Verdict::kRetryLater;
    case kTaskAborted:
      return command_.idempotent ? Verdict::kRetryLater : Verdict::kFinal;
    case kCheckCondition:
      break;
    default:
      return Verdict::kFinal;
  }
  const std::optional<SenseData> sense = SenseOf(command_);
  if (!sense.has_value()) return Verdict::kFinal;
  switch (sense->key) {
    case SenseKey::kUnitAttention:  // Reported instead of executing.
      return Verdict::kRetryNow;
    case SenseKey::kAbortedCommand:
      return unless_executed;
    case SenseKey::kNotReady:
      // Both say that it passes by itself; the latter where the port's way of
      // access is being changed (SPC-4 section 5.15.2.7).
      return sense->code == AdditionalSense::kNotReadyBecomingReady ||
                     sense->code == AdditionalSense::kNotReadyAccessTransition
                 ? Verdict::kRetryLater
                 : Verdict::kFinal;
    default:
      return Verdict::kFinal;
  }
}

absl::Duration RetryingCommand::NextDelay() {
  const absl::Duration delay = delay_;
  delay_ = std::min(2 * delay_, environment_->retry.max_delay);
  return delay;
}

void RetryingCommand::TellSense() {
  const std::optional<SenseData> sense = SenseOf(command_);
  if (!sense.has_value()) return;
  if (sense->key == SenseKey::kUnitAttention &&
      environment_->on_unit_attention) {
    environment_->on_unit_attention(*sense);
  }
  if (IsRecovered(command_) && environment_->on_recovered_error) {
    environment_->on_recovered_error(*sense);
  }
}

void RetryingCommand::OnDone() {
  TellSense();
  const Verdict verdict = stopped_ ? Verdict::kFinal : Judge();
  if (verdict != Verdict::kFinal &&
      retries_ < environment_->retry.max_retries) {
    ++retries_;
    if (verdict == Verdict::kRetryNow) return Attempt();
    return timer_.ScheduleAfter(NextDelay());
  }
  absl::Status status = CommandStatus(command_);
  if (!status.ok() && retries_ > 0) {
    status =
        WithText(status, absl::StrCat(" (tried ", retries_ + 1, " times)"));
  }
  Finish(std::move(status));
}

void RetryingCommand::Finish(absl::Status status) {
  status_ = std::move(status);
  running_ = false;
  done_(this);
}

uint32_t RetryingCommand::received() const {
  const uint32_t missing =
      command_.underflow ? std::min(command_.residual, command_.data_in_length)
                         : 0;
  return command_.data_in_length - missing;
}

}  // namespace skiff::scsi
