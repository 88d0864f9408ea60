#ifndef SKIFF_SCSI_INITIATOR_SCSI_ERROR_H_
#define SKIFF_SCSI_INITIATOR_SCSI_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "scsi/initiator/command.h"
#include "scsi/sense.h"

namespace skiff::scsi {

// How a command failed, for programs. Travels in an absl::Status as a payload.
struct ScsiError {
  Command::Outcome outcome = Command::Outcome::kCompleted;
  uint8_t status = 0;              // With kCompleted: the SCSI status code.
  std::optional<SenseData> sense;  // With CHECK CONDITION, if it was readable.
};

// CHECK CONDITION with RECOVERED ERROR for this command: it was carried out,
// with some trouble of the device that its sense data tell (SPC-4 section
// 4.5.6). The residual says, as with GOOD, whether all data went over.
bool IsRecovered(const Command& command);

// How `command` ended: OK for GOOD, CONDITION MET and what IsRecovered(),
// otherwise for example
//   INVALID_ARGUMENT: READ (10): CHECK CONDITION: ILLEGAL REQUEST, LOGICAL
//   BLOCK ADDRESS OUT OF RANGE (21h/00h)
// with the ScsiError attached. The code is chosen for programs:
//   kUnavailable        the session is lost, busy, not ready: may work later
//   kDeadlineExceeded   no answer in time
//   kCancelled          aborted
//   kInvalidArgument    ILLEGAL REQUEST; kOutOfRange for the address,
//   kUnimplemented      for the command, kNotFound for the logical unit
//   kPermissionDenied   DATA PROTECT
//   kResourceExhausted  space ran out, or the command's memory cannot be
//                       registered for RDMA (Outcome::kNotRegistered)
//   kFailedPrecondition RESERVATION CONFLICT, ACA ACTIVE
//   kAborted            MISCOMPARE: somebody else was faster
//   kDataLoss           MEDIUM ERROR, HARDWARE ERROR
//   kInternal           the target broke the protocol, and all else
absl::Status CommandStatus(const Command& command);

// The detail, or nothing when the status carries none.
std::optional<ScsiError> GetScsiError(const absl::Status& status);

// The same status, payloads included, with more text at its end.
absl::Status WithText(const absl::Status& status, absl::string_view text);

// "CHECK CONDITION"; "status 5Ah" when it has no name.
std::string ScsiStatusName(uint8_t status);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_SCSI_ERROR_H_
