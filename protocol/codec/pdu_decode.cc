#include <cstring>

#include "protocol/codec/endian.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/pdu_flags.h"

// A receiver ignores reserved fields, and reports reserved values in defined
// fields (RFC 7143 section 11). The checks below are the second half of that
// rule and the format's MUSTs that a header alone can break.

namespace skiff::protocol {
namespace {

constexpr DecodeResult kOk = {};

constexpr DecodeResult Invalid(const char* field) {
  return {DecodeResult::kInvalidField, field};
}

constexpr DecodeResult kWrongOpcode = {DecodeResult::kWrongOpcode, "Opcode"};

inline bool HasOpcode(const uint8_t* bhs, Opcode opcode) {
  return (bhs[0] & kOpcodeMask) == static_cast<uint8_t>(opcode);
}

inline bool HasAhs(const uint8_t* bhs) { return bhs[4] != 0; }

inline bool HasAnyLength(const uint8_t* bhs) { return Load32(bhs + 4) != 0; }

// What the PDUs that are neither a SCSI Command nor a data transfer share. The
// F bit is fixed in their formats, and only a SCSI Command has AHSs (section
// 11.2.1.5).
inline DecodeResult CheckFixed(const uint8_t* bhs) {
  if ((bhs[1] & kFinalBit) == 0) return Invalid("F");
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  return kOk;
}

// As CheckFixed, for PDUs whose lengths both MUST be 0.
inline DecodeResult CheckFixedWithoutData(const uint8_t* bhs) {
  const DecodeResult fixed = CheckFixed(bhs);
  if (!fixed.ok()) return fixed;
  if (HasAnyLength(bhs)) return Invalid("DataSegmentLength");
  return kOk;
}

template <typename Pdu>
inline void LoadTargetNumbers(const uint8_t* bhs, Pdu* pdu) {
  pdu->stat_sn = Load32(bhs + 24);
  pdu->exp_cmd_sn = Load32(bhs + 28);
  pdu->max_cmd_sn = Load32(bhs + 32);
}

// Sections 11.12.1 to 11.12.3.
template <typename Pdu>
DecodeResult DecodeStages(uint8_t flags, Pdu* pdu) {
  pdu->transit = (flags & kFinalBit) != 0;
  pdu->continue_ = (flags & kContinueBit) != 0;
  if (pdu->transit && pdu->continue_) return Invalid("C");
  const uint8_t current = (flags >> kCurrentStageShift) & kStageMask;
  if (current == 2) return Invalid("CSG");
  pdu->csg = static_cast<LoginStage>(current);
  // Reserved, hence ignored, without the T bit.
  const uint8_t next = pdu->transit ? flags & kStageMask : 0;
  if (next == 2) return Invalid("NSG");
  pdu->nsg = static_cast<LoginStage>(next);
  return kOk;
}

// Section 11.16's rules for the type that the PDU has.
DecodeResult CheckSnack(const SnackRequestPdu& pdu) {
  const bool for_task = pdu.type == SnackRequestPdu::kDataOrR2t ||
                        pdu.type == SnackRequestPdu::kRData;
  if (for_task == (pdu.initiator_task_tag == kReservedTag)) {
    return Invalid("InitiatorTaskTag");
  }
  if (pdu.type == SnackRequestPdu::kRData) {
    if (pdu.target_transfer_tag == 0 ||
        pdu.target_transfer_tag == kReservedTag) {
      return Invalid("SNACKTag");
    }
    if (pdu.beg_run != 0) return Invalid("BegRun");
  }
  const bool length_is_zero = pdu.type == SnackRequestPdu::kRData ||
                              pdu.type == SnackRequestPdu::kDataAck;
  if (length_is_zero && pdu.run_length != 0) return Invalid("RunLength");
  return kOk;
}

}  // namespace

DecodeResult Decode(const uint8_t* bhs, ScsiCommandPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kScsiCommand)) return kWrongOpcode;
  const ScsiCommandTransfer transfer = DecodeTransfer(bhs);
  pdu->immediate = (bhs[0] & kImmediateBit) != 0;
  pdu->final = transfer.final;
  pdu->read = transfer.read;
  pdu->write = transfer.write;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->expected_data_transfer_length = transfer.length;
  pdu->cmd_sn = Load32(bhs + 24);
  pdu->exp_stat_sn = Load32(bhs + 28);
  std::memcpy(pdu->cdb.data(), bhs + 32, pdu->cdb.size());

  const uint8_t attribute = bhs[1] & kAttributeMask;
  if (attribute > static_cast<uint8_t>(TaskAttribute::kAca)) {
    return Invalid("ATTR");
  }
  pdu->attribute = static_cast<TaskAttribute>(attribute);
  // Section 11.3.1: "At least one of the W and F bits MUST be set", and a
  // transfer has a direction.
  if (!pdu->final && !pdu->write) return Invalid("F");
  if (pdu->expected_data_transfer_length != 0 && !pdu->read && !pdu->write) {
    return Invalid("ExpectedDataTransferLength");
  }
  // Section 11.3.4: the read length of a bidirectional command is in an AHS.
  if (pdu->read && pdu->write && !HasAhs(bhs)) {
    return Invalid("TotalAHSLength");
  }
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  return kOk;
}

DecodeResult Decode(const uint8_t* bhs, ScsiResponsePdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kScsiResponse)) return kWrongOpcode;
  pdu->response = bhs[2];
  pdu->status = bhs[3];
  // Section 11.4.3: the flags of a command that did not complete at the target
  // are undefined and ignored.
  const uint8_t flags =
      pdu->response == ScsiResponsePdu::kCompleted ? bhs[1] : uint8_t{0};
  pdu->bidi_read_overflow = (flags & kBidiOverflowBit) != 0;
  pdu->bidi_read_underflow = (flags & kBidiUnderflowBit) != 0;
  pdu->overflow = (flags & kOverflowBit) != 0;
  pdu->underflow = (flags & kUnderflowBit) != 0;
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->snack_tag = Load32(bhs + 20);
  LoadTargetNumbers(bhs, pdu);
  pdu->exp_data_sn = Load32(bhs + 36);
  pdu->bidi_read_residual_count = Load32(bhs + 40);
  pdu->residual_count = Load32(bhs + 44);

  const DecodeResult fixed = CheckFixed(bhs);
  if (!fixed.ok()) return fixed;
  if (pdu->response > ScsiResponsePdu::kTargetFailure && pdu->response < 0x80) {
    return Invalid("Response");
  }
  if (pdu->overflow && pdu->underflow) return Invalid("U");
  if (pdu->bidi_read_overflow && pdu->bidi_read_underflow) return Invalid("u");
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  return kOk;
}

DecodeResult Decode(const uint8_t* bhs, TaskManagementRequestPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kTaskManagementRequest)) return kWrongOpcode;
  pdu->immediate = (bhs[0] & kImmediateBit) != 0;
  pdu->function = bhs[1] & kFunctionMask;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->referenced_task_tag = Load32(bhs + 20);
  pdu->cmd_sn = Load32(bhs + 24);
  pdu->exp_stat_sn = Load32(bhs + 28);
  pdu->ref_cmd_sn = Load32(bhs + 32);
  pdu->exp_data_sn = Load32(bhs + 36);
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  return CheckFixedWithoutData(bhs);
}

// Responses other than the defined ones are kept: all of them map to FUNCTION
// REJECTED (section 11.6.1).
DecodeResult Decode(const uint8_t* bhs, TaskManagementResponsePdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kTaskManagementResponse)) return kWrongOpcode;
  pdu->response = bhs[2];
  pdu->initiator_task_tag = Load32(bhs + 16);
  LoadTargetNumbers(bhs, pdu);
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  return CheckFixedWithoutData(bhs);
}

DecodeResult Decode(const uint8_t* bhs, ScsiDataOutPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kScsiDataOut)) return kWrongOpcode;
  pdu->final = (bhs[1] & kFinalBit) != 0;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  pdu->exp_stat_sn = Load32(bhs + 28);
  pdu->data_sn = Load32(bhs + 36);
  pdu->buffer_offset = Load32(bhs + 40);
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  return kOk;
}

DecodeResult Decode(const uint8_t* bhs, ScsiDataInPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kScsiDataIn)) return kWrongOpcode;
  const uint8_t flags = bhs[1];
  pdu->final = (flags & kFinalBit) != 0;
  pdu->acknowledge = (flags & kAcknowledgeBit) != 0;
  pdu->has_status = (flags & kStatusBit) != 0;
  // O and U are valid only together with S (section 11.7.3).
  pdu->overflow = pdu->has_status && (flags & kOverflowBit) != 0;
  pdu->underflow = pdu->has_status && (flags & kUnderflowBit) != 0;
  pdu->status = bhs[3];
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  LoadTargetNumbers(bhs, pdu);
  pdu->data_sn = Load32(bhs + 36);
  pdu->buffer_offset = Load32(bhs + 40);
  pdu->residual_count = Load32(bhs + 44);
  if (pdu->has_status && !pdu->final) return Invalid("S");
  if (pdu->overflow && pdu->underflow) return Invalid("U");
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  return kOk;
}

DecodeResult Decode(const uint8_t* bhs, R2tPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kR2t)) return kWrongOpcode;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  LoadTargetNumbers(bhs, pdu);
  pdu->r2t_sn = Load32(bhs + 36);
  pdu->buffer_offset = Load32(bhs + 40);
  pdu->desired_data_transfer_length = Load32(bhs + 44);
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  if (pdu->target_transfer_tag == kReservedTag) {
    return Invalid("TargetTransferTag");
  }
  if (pdu->desired_data_transfer_length == 0) {
    return Invalid("DesiredDataTransferLength");
  }
  return CheckFixedWithoutData(bhs);
}

DecodeResult Decode(const uint8_t* bhs, AsyncMessagePdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kAsyncMessage)) return kWrongOpcode;
  pdu->lun = Load64(bhs + 8);
  LoadTargetNumbers(bhs, pdu);
  pdu->async_event = bhs[36];
  pdu->async_vcode = bhs[37];
  pdu->parameter1 = Load16(bhs + 38);
  pdu->parameter2 = Load16(bhs + 40);
  pdu->parameter3 = Load16(bhs + 42);
  return CheckFixed(bhs);
}

DecodeResult Decode(const uint8_t* bhs, TextRequestPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kTextRequest)) return kWrongOpcode;
  pdu->immediate = (bhs[0] & kImmediateBit) != 0;
  pdu->final = (bhs[1] & kFinalBit) != 0;
  pdu->continue_ = (bhs[1] & kContinueBit) != 0;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  pdu->cmd_sn = Load32(bhs + 24);
  pdu->exp_stat_sn = Load32(bhs + 28);
  if (pdu->continue_ && pdu->final) return Invalid("C");
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  return kOk;
}

DecodeResult Decode(const uint8_t* bhs, TextResponsePdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kTextResponse)) return kWrongOpcode;
  pdu->final = (bhs[1] & kFinalBit) != 0;
  pdu->continue_ = (bhs[1] & kContinueBit) != 0;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  LoadTargetNumbers(bhs, pdu);
  if (pdu->continue_ && pdu->final) return Invalid("C");
  // Section 11.11.1. The opposite case, a tag in a final response, is ignored
  // by the initiator (section 11.10.4).
  if (!pdu->final && pdu->target_transfer_tag == kReservedTag) {
    return Invalid("TargetTransferTag");
  }
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  return kOk;
}

DecodeResult Decode(const uint8_t* bhs, LoginRequestPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kLoginRequest)) return kWrongOpcode;
  pdu->version_max = bhs[2];
  pdu->version_min = bhs[3];
  std::memcpy(pdu->isid.data(), bhs + 8, pdu->isid.size());
  pdu->tsih = Load16(bhs + 14);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->cid = Load16(bhs + 20);
  pdu->cmd_sn = Load32(bhs + 24);
  pdu->exp_stat_sn = Load32(bhs + 28);
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  return DecodeStages(bhs[1], pdu);
}

DecodeResult Decode(const uint8_t* bhs, LoginResponsePdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kLoginResponse)) return kWrongOpcode;
  pdu->version_max = bhs[2];
  pdu->version_active = bhs[3];
  std::memcpy(pdu->isid.data(), bhs + 8, pdu->isid.size());
  pdu->tsih = Load16(bhs + 14);
  pdu->initiator_task_tag = Load32(bhs + 16);
  LoadTargetNumbers(bhs, pdu);
  pdu->status_class = bhs[36];
  pdu->status_detail = bhs[37];
  if (HasAhs(bhs)) return Invalid("TotalAHSLength");
  // T, CSG and NSG are reserved in a rejection (section 6.3.1).
  return DecodeStages(pdu->status_class == 0 ? bhs[1] : uint8_t{0}, pdu);
}

DecodeResult Decode(const uint8_t* bhs, LogoutRequestPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kLogoutRequest)) return kWrongOpcode;
  pdu->immediate = (bhs[0] & kImmediateBit) != 0;
  pdu->reason = bhs[1] & kReasonMask;
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->cid = Load16(bhs + 20);
  pdu->cmd_sn = Load32(bhs + 24);
  pdu->exp_stat_sn = Load32(bhs + 28);
  if (pdu->reason > LogoutRequestPdu::kRemoveForRecovery) {
    return Invalid("ReasonCode");
  }
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  return CheckFixedWithoutData(bhs);
}

DecodeResult Decode(const uint8_t* bhs, LogoutResponsePdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kLogoutResponse)) return kWrongOpcode;
  pdu->response = bhs[2];
  pdu->initiator_task_tag = Load32(bhs + 16);
  LoadTargetNumbers(bhs, pdu);
  pdu->time2wait = Load16(bhs + 40);
  pdu->time2retain = Load16(bhs + 42);
  if (pdu->initiator_task_tag == kReservedTag) {
    return Invalid("InitiatorTaskTag");
  }
  return CheckFixedWithoutData(bhs);
}

DecodeResult Decode(const uint8_t* bhs, SnackRequestPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kSnackRequest)) return kWrongOpcode;
  pdu->type = bhs[1] & kSnackTypeMask;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  pdu->exp_stat_sn = Load32(bhs + 28);
  pdu->beg_run = Load32(bhs + 40);
  pdu->run_length = Load32(bhs + 44);
  if (pdu->type > SnackRequestPdu::kRData) return Invalid("Type");
  const DecodeResult fixed = CheckFixed(bhs);
  if (!fixed.ok()) return fixed;
  return CheckSnack(*pdu);
}

DecodeResult Decode(const uint8_t* bhs, RejectPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kReject)) return kWrongOpcode;
  pdu->reason = bhs[2];
  LoadTargetNumbers(bhs, pdu);
  pdu->data_sn_or_r2t_sn = Load32(bhs + 36);
  return CheckFixed(bhs);
}

DecodeResult Decode(const uint8_t* bhs, NopOutPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kNopOut)) return kWrongOpcode;
  pdu->immediate = (bhs[0] & kImmediateBit) != 0;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  pdu->cmd_sn = Load32(bhs + 24);
  pdu->exp_stat_sn = Load32(bhs + 28);
  // Section 11.18.1.
  if (pdu->initiator_task_tag == kReservedTag && !pdu->immediate) {
    return Invalid("I");
  }
  return CheckFixed(bhs);
}

DecodeResult Decode(const uint8_t* bhs, NopInPdu* pdu) {
  if (!HasOpcode(bhs, Opcode::kNopIn)) return kWrongOpcode;
  pdu->lun = Load64(bhs + 8);
  pdu->initiator_task_tag = Load32(bhs + 16);
  pdu->target_transfer_tag = Load32(bhs + 20);
  LoadTargetNumbers(bhs, pdu);
  // Section 11.19: an answer to a NOP-Out asks for nothing, and only such an
  // answer carries data.
  if (pdu->initiator_task_tag != kReservedTag) {
    if (pdu->target_transfer_tag != kReservedTag) {
      return Invalid("TargetTransferTag");
    }
  } else if ((Load32(bhs + 4) & kMaxDataSegmentLength) != 0) {
    return Invalid("DataSegmentLength");
  }
  return CheckFixed(bhs);
}

}  // namespace skiff::protocol
