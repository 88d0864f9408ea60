#include "absl/strings/str_format.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {

std::string OpcodeName(uint8_t opcode) {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::kNopOut:
      return "NOP-Out";
    case Opcode::kScsiCommand:
      return "SCSI Command";
    case Opcode::kTaskManagementRequest:
      return "Task Management Function Request";
    case Opcode::kLoginRequest:
      return "Login Request";
    case Opcode::kTextRequest:
      return "Text Request";
    case Opcode::kScsiDataOut:
      return "SCSI Data-Out";
    case Opcode::kLogoutRequest:
      return "Logout Request";
    case Opcode::kSnackRequest:
      return "SNACK Request";
    case Opcode::kNopIn:
      return "NOP-In";
    case Opcode::kScsiResponse:
      return "SCSI Response";
    case Opcode::kTaskManagementResponse:
      return "Task Management Function Response";
    case Opcode::kLoginResponse:
      return "Login Response";
    case Opcode::kTextResponse:
      return "Text Response";
    case Opcode::kScsiDataIn:
      return "SCSI Data-In";
    case Opcode::kLogoutResponse:
      return "Logout Response";
    case Opcode::kR2t:
      return "R2T";
    case Opcode::kAsyncMessage:
      return "Asynchronous Message";
    case Opcode::kReject:
      return "Reject";
  }
  const bool vendor_specific =
      (opcode >= 0x1c && opcode <= 0x1e) || (opcode >= 0x3c && opcode <= 0x3e);
  return absl::StrFormat("0x%02x (%s)", opcode,
                         vendor_specific ? "vendor-specific" : "unassigned");
}

namespace {

const char* KnownLoginStatus(LoginStatus status) {
  switch (status) {
    case LoginStatus::kSuccess:
      return "success";
    case LoginStatus::kTargetMovedTemporarily:
      return "target moved temporarily";
    case LoginStatus::kTargetMovedPermanently:
      return "target moved permanently";
    case LoginStatus::kInitiatorError:
      return "initiator error";
    case LoginStatus::kAuthenticationFailure:
      return "authentication failure";
    case LoginStatus::kAuthorizationFailure:
      return "authorization failure";
    case LoginStatus::kNotFound:
      return "target not found";
    case LoginStatus::kTargetRemoved:
      return "target removed";
    case LoginStatus::kUnsupportedVersion:
      return "unsupported version";
    case LoginStatus::kTooManyConnections:
      return "too many connections";
    case LoginStatus::kMissingParameter:
      return "missing parameter";
    case LoginStatus::kCantIncludeInSession:
      return "can't include in session";
    case LoginStatus::kSessionTypeNotSupported:
      return "session type not supported";
    case LoginStatus::kSessionDoesNotExist:
      return "session does not exist";
    case LoginStatus::kInvalidDuringLogin:
      return "invalid request type during login";
    case LoginStatus::kTargetError:
      return "target error";
    case LoginStatus::kServiceUnavailable:
      return "service unavailable";
    case LoginStatus::kOutOfResources:
      return "out of resources";
  }
  return nullptr;
}

// Enough for a simple initiator, says section 11.13.5.
const char* LoginStatusClass(uint8_t status_class) {
  switch (status_class) {
    case 0:
      return "success";
    case 1:
      return "redirection";
    case 2:
      return "initiator error";
    case 3:
      return "target error";
    default:
      return "unknown status class";
  }
}

const char* KnownRejectReason(uint8_t reason) {
  switch (reason) {
    case RejectPdu::kDataDigestError:
      return "data digest error";
    case RejectPdu::kSnackReject:
      return "SNACK reject";
    case RejectPdu::kProtocolError:
      return "protocol error";
    case RejectPdu::kCommandNotSupported:
      return "command not supported";
    case RejectPdu::kImmediateCommandReject:
      return "too many immediate commands";
    case RejectPdu::kTaskInProgress:
      return "task in progress";
    case RejectPdu::kInvalidDataAck:
      return "invalid data ack";
    case RejectPdu::kInvalidPduField:
      return "invalid PDU field";
    case RejectPdu::kLongOperationReject:
      return "out of resources for a long operation";
    case RejectPdu::kNegotiationReset:
      return "negotiation reset";
    case RejectPdu::kWaitingForLogout:
      return "waiting for logout";
    default:
      return "unassigned reason";
  }
}

}  // namespace

std::string LoginStatusName(uint8_t status_class, uint8_t status_detail) {
  const unsigned code = static_cast<unsigned>(status_class) << 8 |
                        static_cast<unsigned>(status_detail);
  const char* known = KnownLoginStatus(static_cast<LoginStatus>(code));
  return absl::StrFormat(
      "%s (0x%04x)", known != nullptr ? known : LoginStatusClass(status_class),
      code);
}

std::string RejectReasonName(uint8_t reason) {
  return absl::StrFormat("%s (0x%02x)", KnownRejectReason(reason), reason);
}

}  // namespace skiff::protocol
