#ifndef SKIFF_PROTOCOL_CODEC_PDU_H_
#define SKIFF_PROTOCOL_CODEC_PDU_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/endian.h"
#include "protocol/codec/pdu_flags.h"

// The PDUs of RFC 7143 section 11 as structs, and pure functions between them
// and the 48 bytes of a Basic Header Segment. The field names are the RFC's.
// Nothing here allocates, keeps state, or trusts a byte.
//
// Decode() checks what the header alone can tell: opcode, fixed bits, reserved
// codes, lengths against each other. It never checks what needs session state.
// Encode() writes all 48 bytes; reserved fields are zero. DataSegmentLength and
// TotalAHSLength are arguments of the framing (BhsFrame), not of each struct.

namespace skiff::protocol {

inline constexpr size_t kBhsSize = 48;
inline constexpr uint32_t kReservedTag = 0xffffffffu;
// DataSegmentLength is a 24-bit field, TotalAHSLength 8 bits of 4-byte words.
inline constexpr uint32_t kMaxDataSegmentLength = (1u << 24) - 1;
inline constexpr size_t kMaxAhsBytes = 255 * 4;

using Bhs = std::array<uint8_t, kBhsSize>;

enum class Opcode : uint8_t {
  kNopOut = 0x00,
  kScsiCommand = 0x01,
  kTaskManagementRequest = 0x02,
  kLoginRequest = 0x03,
  kTextRequest = 0x04,
  kScsiDataOut = 0x05,
  kLogoutRequest = 0x06,
  kSnackRequest = 0x10,
  kNopIn = 0x20,
  kScsiResponse = 0x21,
  kTaskManagementResponse = 0x22,
  kLoginResponse = 0x23,
  kTextResponse = 0x24,
  kScsiDataIn = 0x25,
  kLogoutResponse = 0x26,
  kR2t = 0x31,
  kAsyncMessage = 0x32,
  kReject = 0x3f,
};

// "SCSI Command", "0x1c (vendor-specific)", ...: for logs.
std::string OpcodeName(uint8_t opcode);

// Framing: what precedes any knowledge of the opcode (RFC 7143 section 11.2.1).
struct BhsFrame {
  uint8_t opcode;      // 6 bits.
  bool immediate;      // I bit; meaningful in requests only.
  bool final;          // Bit 0 of byte 1; its name depends on the opcode.
  uint32_t ahs_bytes;  // TotalAHSLength in bytes.
  uint32_t data_segment_length;
  uint32_t initiator_task_tag;
};
inline BhsFrame DecodeFrame(const uint8_t* bhs) {
  const uint32_t lengths = Load32(bhs + 4);
  return BhsFrame{
      .opcode = static_cast<uint8_t>(bhs[0] & kOpcodeMask),
      .immediate = (bhs[0] & kImmediateBit) != 0,
      .final = (bhs[1] & kFinalBit) != 0,
      .ahs_bytes = (lengths >> 24) * 4,
      .data_segment_length = lengths & kMaxDataSegmentLength,
      .initiator_task_tag = Load32(bhs + 16),
  };
}
// A received PDU, of which only the frame was decoded. The digests and the
// padding were dealt with.
struct ControlPdu {
  BhsFrame frame = {};
  const uint8_t* bhs = nullptr;   // 48 bytes.
  absl::Span<const uint8_t> ahs;  // Undecoded, without padding of its own.
  absl::Span<const uint8_t> data;
};
inline constexpr uint32_t PaddingFor(uint32_t length) {
  return (4 - (length & 3)) & 3;
}
// Overwrites TotalAHSLength and DataSegmentLength in an encoded BHS.
void EncodeLengths(uint8_t* bhs, size_t ahs_bytes,
                   uint32_t data_segment_length);

// A logical unit number as it travels: 8 bytes, big-endian, SAM-5 section 4.7.
using Lun = uint64_t;

enum class TaskAttribute : uint8_t {
  kUntagged = 0,
  kSimple = 1,
  kOrdered = 2,
  kHeadOfQueue = 3,
  kAca = 4,
};

// Section 11.3.
struct ScsiCommandPdu {
  bool immediate = false;
  bool final = true;  // F: no unsolicited Data-Out follows.
  bool read = false;
  bool write = false;
  TaskAttribute attribute = TaskAttribute::kSimple;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t expected_data_transfer_length = 0;
  uint32_t cmd_sn = 0;
  uint32_t exp_stat_sn = 0;
  std::array<uint8_t, 16> cdb = {};
};

// What a SCSI Command wants to move. Decode() checks whether it makes sense.
struct ScsiCommandTransfer {
  bool final;
  bool read;
  bool write;
  uint32_t length;  // ExpectedDataTransferLength.
};
inline ScsiCommandTransfer DecodeTransfer(const uint8_t* bhs) {
  return ScsiCommandTransfer{
      .final = (bhs[1] & kFinalBit) != 0,
      .read = (bhs[1] & kReadBit) != 0,
      .write = (bhs[1] & kWriteBit) != 0,
      .length = Load32(bhs + 20),
  };
}

// Section 11.4.
struct ScsiResponsePdu {
  enum Response : uint8_t { kCompleted = 0x00, kTargetFailure = 0x01 };
  bool bidi_read_overflow = false;
  bool bidi_read_underflow = false;
  bool overflow = false;
  bool underflow = false;
  uint8_t response = kCompleted;
  uint8_t status = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t snack_tag = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint32_t exp_data_sn = 0;
  uint32_t bidi_read_residual_count = 0;
  uint32_t residual_count = 0;
};

enum class TaskManagementFunction : uint8_t {  // Section 11.5.1.
  kAbortTask = 1,
  kAbortTaskSet = 2,
  kClearAca = 3,
  kClearTaskSet = 4,
  kLogicalUnitReset = 5,
  kTargetWarmReset = 6,
  kTargetColdReset = 7,
  kTaskReassign = 8,
};
// `function` stays a byte: unknown functions are answered, not rejected.
struct TaskManagementRequestPdu {
  bool immediate = false;
  uint8_t function = 0;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t referenced_task_tag = kReservedTag;
  uint32_t cmd_sn = 0;
  uint32_t exp_stat_sn = 0;
  uint32_t ref_cmd_sn = 0;
  uint32_t exp_data_sn = 0;
};
struct TaskManagementResponsePdu {  // Section 11.6.
  enum Response : uint8_t {
    kComplete = 0,
    kTaskDoesNotExist = 1,
    kLunDoesNotExist = 2,
    kTaskStillAllegiant = 3,
    kReassignNotSupported = 4,
    kNotSupported = 5,
    kAuthorizationFailed = 6,
    kRejected = 255,
  };
  uint8_t response = kComplete;
  uint32_t initiator_task_tag = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
};

// Section 11.7.
struct ScsiDataOutPdu {
  bool final = false;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t exp_stat_sn = 0;
  uint32_t data_sn = 0;
  uint32_t buffer_offset = 0;
};
struct ScsiDataInPdu {
  bool final = false;
  bool acknowledge = false;
  bool overflow = false;
  bool underflow = false;
  bool has_status = false;  // S: `status`, `stat_sn` and residual are valid.
  uint8_t status = 0;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint32_t data_sn = 0;
  uint32_t buffer_offset = 0;
  uint32_t residual_count = 0;
};

// Section 11.8.
struct R2tPdu {
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint32_t r2t_sn = 0;
  uint32_t buffer_offset = 0;
  uint32_t desired_data_transfer_length = 0;
};

// Section 11.9.
struct AsyncMessagePdu {
  enum Event : uint8_t {
    kScsiAsyncEvent = 0,
    kLogoutRequested = 1,
    kConnectionDropped = 2,
    kSessionDropped = 3,
    kNegotiationRequested = 4,
    kTaskTermination = 5,
  };
  Lun lun = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint8_t async_event = 0;
  uint8_t async_vcode = 0;
  uint16_t parameter1 = 0;
  uint16_t parameter2 = 0;
  uint16_t parameter3 = 0;
};

// Sections 11.10 and 11.11.
struct TextRequestPdu {
  bool immediate = false;
  bool final = true;
  bool continue_ = false;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t cmd_sn = 0;
  uint32_t exp_stat_sn = 0;
};
struct TextResponsePdu {
  bool final = true;
  bool continue_ = false;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
};

// Sections 11.12 and 11.13.
enum class LoginStage : uint8_t {
  kSecurity = 0,
  kOperational = 1,
  kFullFeature = 3
};
using Isid = std::array<uint8_t, 6>;
struct LoginRequestPdu {
  bool transit = false;
  bool continue_ = false;
  LoginStage csg = LoginStage::kSecurity;
  LoginStage nsg = LoginStage::kSecurity;
  uint8_t version_max = 0;
  uint8_t version_min = 0;
  Isid isid = {};
  uint16_t tsih = 0;
  uint32_t initiator_task_tag = 0;
  uint16_t cid = 0;
  uint32_t cmd_sn = 0;
  uint32_t exp_stat_sn = 0;
};
struct LoginResponsePdu {
  bool transit = false;
  bool continue_ = false;
  LoginStage csg = LoginStage::kSecurity;
  LoginStage nsg = LoginStage::kSecurity;
  uint8_t version_max = 0;
  uint8_t version_active = 0;
  Isid isid = {};
  uint16_t tsih = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint8_t status_class = 0;
  uint8_t status_detail = 0;
};
// Status-Class << 8 | Status-Detail (section 11.13.5).
enum class LoginStatus : uint16_t {
  kSuccess = 0x0000,
  kTargetMovedTemporarily = 0x0101,
  kTargetMovedPermanently = 0x0102,
  kInitiatorError = 0x0200,
  kAuthenticationFailure = 0x0201,
  kAuthorizationFailure = 0x0202,
  kNotFound = 0x0203,
  kTargetRemoved = 0x0204,
  kUnsupportedVersion = 0x0205,
  kTooManyConnections = 0x0206,
  kMissingParameter = 0x0207,
  kCantIncludeInSession = 0x0208,
  kSessionTypeNotSupported = 0x0209,
  kSessionDoesNotExist = 0x020a,
  kInvalidDuringLogin = 0x020b,
  kTargetError = 0x0300,
  kServiceUnavailable = 0x0301,
  kOutOfResources = 0x0302,
};
// "target not found (0x0203)", for logs and errors.
std::string LoginStatusName(uint8_t status_class, uint8_t status_detail);

// Sections 11.14 and 11.15.
struct LogoutRequestPdu {
  enum Reason : uint8_t {
    kCloseSession = 0,
    kCloseConnection = 1,
    kRemoveForRecovery = 2
  };
  bool immediate = false;
  uint8_t reason = kCloseSession;
  uint32_t initiator_task_tag = 0;
  uint16_t cid = 0;
  uint32_t cmd_sn = 0;
  uint32_t exp_stat_sn = 0;
};
struct LogoutResponsePdu {
  enum Response : uint8_t {
    kClosed = 0,
    kCidNotFound = 1,
    kRecoveryNotSupported = 2,
    kCleanupFailed = 3,
  };
  uint8_t response = kClosed;
  uint32_t initiator_task_tag = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint16_t time2wait = 0;
  uint16_t time2retain = 0;
};

// Section 11.16.
struct SnackRequestPdu {
  enum Type : uint8_t { kDataOrR2t = 0, kStatus = 1, kDataAck = 2, kRData = 3 };
  uint8_t type = 0;
  Lun lun = 0;
  uint32_t initiator_task_tag = 0;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t exp_stat_sn = 0;
  uint32_t beg_run = 0;
  uint32_t run_length = 0;
};

// Section 11.17.
struct RejectPdu {
  enum Reason : uint8_t {
    kReserved = 0x01,
    kDataDigestError = 0x02,
    kSnackReject = 0x03,
    kProtocolError = 0x04,
    kCommandNotSupported = 0x05,
    kImmediateCommandReject = 0x06,
    kTaskInProgress = 0x07,
    kInvalidDataAck = 0x08,
    kInvalidPduField = 0x09,
    kLongOperationReject = 0x0a,
    kNegotiationReset = 0x0b,  // Deprecated in RFC 7143; still decoded.
    kWaitingForLogout = 0x0c,
  };
  uint8_t reason = 0;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint32_t data_sn_or_r2t_sn = 0;
};
std::string RejectReasonName(uint8_t reason);

// Sections 11.18 and 11.19.
struct NopOutPdu {
  bool immediate = false;
  Lun lun = 0;
  uint32_t initiator_task_tag = kReservedTag;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t cmd_sn = 0;
  uint32_t exp_stat_sn = 0;
};
struct NopInPdu {
  Lun lun = 0;
  uint32_t initiator_task_tag = kReservedTag;
  uint32_t target_transfer_tag = kReservedTag;
  uint32_t stat_sn = 0;
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
};

// One Encode per struct. Lengths are written as zero: EncodeLengths adds them.
void Encode(const ScsiCommandPdu& pdu, uint8_t* bhs);
void Encode(const ScsiResponsePdu& pdu, uint8_t* bhs);
void Encode(const TaskManagementRequestPdu& pdu, uint8_t* bhs);
void Encode(const TaskManagementResponsePdu& pdu, uint8_t* bhs);
void Encode(const ScsiDataOutPdu& pdu, uint8_t* bhs);
void Encode(const ScsiDataInPdu& pdu, uint8_t* bhs);
void Encode(const R2tPdu& pdu, uint8_t* bhs);
void Encode(const AsyncMessagePdu& pdu, uint8_t* bhs);
void Encode(const TextRequestPdu& pdu, uint8_t* bhs);
void Encode(const TextResponsePdu& pdu, uint8_t* bhs);
void Encode(const LoginRequestPdu& pdu, uint8_t* bhs);
void Encode(const LoginResponsePdu& pdu, uint8_t* bhs);
void Encode(const LogoutRequestPdu& pdu, uint8_t* bhs);
void Encode(const LogoutResponsePdu& pdu, uint8_t* bhs);
void Encode(const SnackRequestPdu& pdu, uint8_t* bhs);
void Encode(const RejectPdu& pdu, uint8_t* bhs);
void Encode(const NopOutPdu& pdu, uint8_t* bhs);
void Encode(const NopInPdu& pdu, uint8_t* bhs);

// Why a BHS could not be decoded. A small enum, not a Status: these run per
// PDU. `field` names the offending field, statically allocated.
struct DecodeResult {
  enum Code : uint8_t { kOk, kWrongOpcode, kInvalidField };
  Code code = kOk;
  const char* field = "";
  bool ok() const { return code == kOk; }
};
DecodeResult Decode(const uint8_t* bhs, ScsiCommandPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, ScsiResponsePdu* pdu);
DecodeResult Decode(const uint8_t* bhs, TaskManagementRequestPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, TaskManagementResponsePdu* pdu);
DecodeResult Decode(const uint8_t* bhs, ScsiDataOutPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, ScsiDataInPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, R2tPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, AsyncMessagePdu* pdu);
DecodeResult Decode(const uint8_t* bhs, TextRequestPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, TextResponsePdu* pdu);
DecodeResult Decode(const uint8_t* bhs, LoginRequestPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, LoginResponsePdu* pdu);
DecodeResult Decode(const uint8_t* bhs, LogoutRequestPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, LogoutResponsePdu* pdu);
DecodeResult Decode(const uint8_t* bhs, SnackRequestPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, RejectPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, NopOutPdu* pdu);
DecodeResult Decode(const uint8_t* bhs, NopInPdu* pdu);

// Additional Header Segments (section 11.2.2).
struct AhsView {
  absl::Span<const uint8_t> extended_cdb;  // Bytes of the CDB after the 16th.
  bool has_bidi_read_length = false;
  uint32_t bidi_read_length = 0;
};
// Walks the AHS area (a multiple of 4 bytes). Unknown types are an error, as
// are a segment that runs past the end, a repeated type, and an odd length.
DecodeResult DecodeAhs(absl::Span<const uint8_t> ahs, AhsView* out);
// Appends to `out` (capacity kMaxAhsBytes); returns the bytes written, padded
// to 4. `extended_cdb` is empty or holds the bytes after the 16th.
size_t EncodeAhs(const AhsView& ahs, uint8_t* out);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_PDU_H_
