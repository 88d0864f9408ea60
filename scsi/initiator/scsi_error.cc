#include "scsi/initiator/scsi_error.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "scsi/initiator/cdb.h"

namespace skiff::scsi {
namespace {

using Outcome = Command::Outcome;

// SAM-5 section 5.3.
constexpr uint8_t kGood = 0x00;
constexpr uint8_t kCheckCondition = 0x02;
constexpr uint8_t kConditionMet = 0x04;
constexpr uint8_t kBusy = 0x08;
constexpr uint8_t kReservationConflict = 0x18;
constexpr uint8_t kTaskSetFull = 0x28;
constexpr uint8_t kAcaActive = 0x30;
constexpr uint8_t kTaskAborted = 0x40;

constexpr char kPayloadUrl[] = "type.skiff/scsi-error";

absl::Span<const uint8_t> SenseOf(const Command& command) {
  return absl::MakeConstSpan(
      command.sense.data(),
      std::min<size_t>(command.sense_length, command.sense.size()));
}

absl::StatusCode CodeOfSense(const SenseData& sense) {
  switch (sense.key) {
    case SenseKey::kNotReady:
    case SenseKey::kUnitAttention:
    case SenseKey::kAbortedCommand:
      return absl::StatusCode::kUnavailable;
    case SenseKey::kMediumError:
    case SenseKey::kHardwareError:
      return absl::StatusCode::kDataLoss;
    case SenseKey::kDataProtect:
      return sense.code == AdditionalSense::kSpaceAllocationFailedWriteProtect
                 ? absl::StatusCode::kResourceExhausted
                 : absl::StatusCode::kPermissionDenied;
    case SenseKey::kMiscompare:
      return absl::StatusCode::kAborted;
    case SenseKey::kIllegalRequest:
      switch (sense.code) {
        case AdditionalSense::kLbaOutOfRange:
          return absl::StatusCode::kOutOfRange;
        case AdditionalSense::kInvalidCommandOperationCode:
          return absl::StatusCode::kUnimplemented;
        case AdditionalSense::kLogicalUnitNotSupported:
          return absl::StatusCode::kNotFound;
        case AdditionalSense::kNoAccessRights:
          return absl::StatusCode::kPermissionDenied;
        default:
          return absl::StatusCode::kInvalidArgument;
      }
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::StatusCode CodeOfStatus(uint8_t status,
                              const std::optional<SenseData>& sense) {
  switch (status) {
    case kCheckCondition:
      return sense.has_value() ? CodeOfSense(*sense)
                               : absl::StatusCode::kInternal;
    case kBusy:
    case kTaskSetFull:
      return absl::StatusCode::kUnavailable;
    case kReservationConflict:
    case kAcaActive:
      return absl::StatusCode::kFailedPrecondition;
    case kTaskAborted:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

struct OutcomeText {
  absl::StatusCode code;
  const char* text;
};

OutcomeText TextOfOutcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kTargetFailure:
      return {absl::StatusCode::kInternal,
              "the target failed before it had a SCSI status (look at its "
              "log)"};
    case Outcome::kAborted:
      return {absl::StatusCode::kCancelled, "aborted"};
    case Outcome::kConnectionLost:
      return {absl::StatusCode::kUnavailable,
              "the session was lost and not restored in time (is the target "
              "reachable?), or the command cannot safely be repeated"};
    case Outcome::kTimedOut:
      return {absl::StatusCode::kDeadlineExceeded,
              "no answer in time (is the target overloaded, or the command "
              "timeout too short?)"};
    case Outcome::kTimedOutWithSession:
      return {absl::StatusCode::kDeadlineExceeded,
              "no answer in time, and none to the attempt to abort it (is the "
              "target overloaded, or the command timeout too short?)"};
    case Outcome::kProtocolError:
      return {absl::StatusCode::kInternal,
              "the target broke the protocol; the session was dropped"};
    case Outcome::kInvalid:
      return {absl::StatusCode::kInvalidArgument,
              "refused by the session (length of the CDB or of the data)"};
    case Outcome::kNotRegistered:
      return {absl::StatusCode::kResourceExhausted,
              "the memory of its data cannot be registered for RDMA (the log "
              "says why; is `ulimit -l` large enough?)"};
    case Outcome::kPending:
    case Outcome::kCompleted:
      break;
  }
  return {absl::StatusCode::kInternal, "not finished"};
}

absl::Status WithPayload(absl::Status status, const Command& command) {
  const absl::Span<const uint8_t> sense = SenseOf(command);
  std::string bytes = {static_cast<char>(command.outcome),
                       static_cast<char>(command.status)};
  bytes.append(reinterpret_cast<const char*>(sense.data()), sense.size());
  status.SetPayload(kPayloadUrl, absl::Cord(bytes));
  return status;
}

}  // namespace

std::string ScsiStatusName(uint8_t status) {
  switch (status) {
    case kGood:
      return "GOOD";
    case kCheckCondition:
      return "CHECK CONDITION";
    case kConditionMet:
      return "CONDITION MET";
    case kBusy:
      return "BUSY";
    case kReservationConflict:
      return "RESERVATION CONFLICT";
    case kTaskSetFull:
      return "TASK SET FULL";
    case kAcaActive:
      return "ACA ACTIVE";
    case kTaskAborted:
      return "TASK ABORTED";
    default:
      return absl::StrCat("status ", absl::Hex(status, absl::kZeroPad2), "h");
  }
}

bool IsRecovered(const Command& command) {
  if (command.outcome != Outcome::kCompleted ||
      command.status != kCheckCondition) {
    return false;
  }
  const std::optional<SenseData> sense = DecodeSense(SenseOf(command));
  // A deferred error is an earlier command's, and this one was not carried out.
  return sense.has_value() && !sense->deferred &&
         sense->key == SenseKey::kRecoveredError;
}

absl::Status CommandStatus(const Command& command) {
  if (command.outcome != Outcome::kCompleted) {
    const OutcomeText text = TextOfOutcome(command.outcome);
    return WithPayload(
        absl::Status(text.code,
                     absl::StrCat(CommandName(command), ": ", text.text)),
        command);
  }
  if (command.status == kGood || command.status == kConditionMet ||
      IsRecovered(command)) {
    return absl::OkStatus();
  }
  std::string text =
      absl::StrCat(CommandName(command), ": ", ScsiStatusName(command.status));
  std::optional<SenseData> sense;
  if (command.status == kCheckCondition) {
    sense = DecodeSense(SenseOf(command));
    absl::StrAppend(&text, ": ",
                    sense.has_value() ? DescribeSense(*sense)
                                      : "without readable sense data");
  }
  return WithPayload(absl::Status(CodeOfStatus(command.status, sense), text),
                     command);
}

absl::Status WithText(const absl::Status& status, absl::string_view text) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), text));
  status.ForEachPayload(
      [&longer](absl::string_view url, const absl::Cord& payload) {
        longer.SetPayload(url, payload);
      });
  return longer;
}

std::optional<ScsiError> GetScsiError(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value() || payload->size() < 2) return std::nullopt;
  const std::string bytes(*payload);
  ScsiError error;
  error.outcome = static_cast<Outcome>(bytes[0]);
  error.status = static_cast<uint8_t>(bytes[1]);
  if (error.status == kCheckCondition) {
    error.sense = DecodeSense(absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(bytes.data()) + 2, bytes.size() - 2));
  }
  return error;
}

}  // namespace skiff::scsi
