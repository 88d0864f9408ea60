#include <cassert>
#include <cstring>

#include "protocol/codec/endian.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/pdu_flags.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t If(bool condition, uint8_t bit) {
  return condition ? bit : uint8_t{0};
}

// Bytes 0 to 7: opcode (with the I bit), flags and the two opcode-specific
// bytes; the lengths are zero.
inline void StoreStart(uint8_t byte0, uint8_t flags, uint8_t byte2,
                       uint8_t byte3, uint8_t* bhs) {
  Store32(static_cast<uint32_t>(byte0) << 24 |
              static_cast<uint32_t>(flags) << 16 |
              static_cast<uint32_t>(byte2) << 8 | byte3,
          bhs);
  Store32(0, bhs + 4);
}
inline void StoreStart(Opcode opcode, uint8_t flags, uint8_t byte2,
                       uint8_t byte3, uint8_t* bhs) {
  StoreStart(static_cast<uint8_t>(opcode), flags, byte2, byte3, bhs);
}
// Of a PDU that its initiator may send as immediate.
inline void StoreRequestStart(Opcode opcode, bool immediate, uint8_t flags,
                              uint8_t byte2, uint8_t byte3, uint8_t* bhs) {
  StoreStart(static_cast<uint8_t>(static_cast<uint8_t>(opcode) |
                                  If(immediate, kImmediateBit)),
             flags, byte2, byte3, bhs);
}

// Bytes 24 to 35 of every target PDU.
template <typename Pdu>
inline void StoreTargetNumbers(const Pdu& pdu, uint8_t* bhs) {
  Store32(pdu.stat_sn, bhs + 24);
  Store32(pdu.exp_cmd_sn, bhs + 28);
  Store32(pdu.max_cmd_sn, bhs + 32);
}

// The next stage is reserved unless the T bit is set (section 11.12.3).
template <typename Pdu>
uint8_t LoginFlags(const Pdu& pdu) {
  const uint8_t next = pdu.transit ? static_cast<uint8_t>(pdu.nsg) : uint8_t{0};
  return static_cast<uint8_t>(
      If(pdu.transit, kFinalBit) | If(pdu.continue_, kContinueBit) |
      static_cast<uint8_t>(pdu.csg) << kCurrentStageShift | next);
}

}  // namespace

void EncodeLengths(uint8_t* bhs, size_t ahs_bytes,
                   uint32_t data_segment_length) {
  assert(ahs_bytes % 4 == 0 && ahs_bytes <= kMaxAhsBytes);
  assert(data_segment_length <= kMaxDataSegmentLength);
  Store32(static_cast<uint32_t>(ahs_bytes / 4) << 24 | data_segment_length,
          bhs + 4);
}

void Encode(const ScsiCommandPdu& pdu, uint8_t* bhs) {
  const uint8_t flags = static_cast<uint8_t>(
      If(pdu.final, kFinalBit) | If(pdu.read, kReadBit) |
      If(pdu.write, kWriteBit) | static_cast<uint8_t>(pdu.attribute));
  StoreRequestStart(Opcode::kScsiCommand, pdu.immediate, flags, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.expected_data_transfer_length, bhs + 20);
  Store32(pdu.cmd_sn, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  std::memcpy(bhs + 32, pdu.cdb.data(), pdu.cdb.size());
}

void Encode(const ScsiResponsePdu& pdu, uint8_t* bhs) {
  const uint8_t flags = static_cast<uint8_t>(
      kFinalBit | If(pdu.bidi_read_overflow, kBidiOverflowBit) |
      If(pdu.bidi_read_underflow, kBidiUnderflowBit) |
      If(pdu.overflow, kOverflowBit) | If(pdu.underflow, kUnderflowBit));
  StoreStart(Opcode::kScsiResponse, flags, pdu.response, pdu.status, bhs);
  Store64(0, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.snack_tag, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(pdu.exp_data_sn, bhs + 36);
  Store32(pdu.bidi_read_residual_count, bhs + 40);
  Store32(pdu.residual_count, bhs + 44);
}

void Encode(const TaskManagementRequestPdu& pdu, uint8_t* bhs) {
  const uint8_t flags =
      static_cast<uint8_t>(kFinalBit | (pdu.function & kFunctionMask));
  StoreRequestStart(Opcode::kTaskManagementRequest, pdu.immediate, flags, 0, 0,
                    bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.referenced_task_tag, bhs + 20);
  Store32(pdu.cmd_sn, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  Store32(pdu.ref_cmd_sn, bhs + 32);
  Store32(pdu.exp_data_sn, bhs + 36);
  Store64(0, bhs + 40);
}

void Encode(const TaskManagementResponsePdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kTaskManagementResponse, kFinalBit, pdu.response, 0, bhs);
  Store64(0, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(0, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(0, bhs + 36);
  Store64(0, bhs + 40);
}

void Encode(const ScsiDataOutPdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kScsiDataOut, If(pdu.final, kFinalBit), 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  Store32(0, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  Store32(0, bhs + 32);
  Store32(pdu.data_sn, bhs + 36);
  Store32(pdu.buffer_offset, bhs + 40);
  Store32(0, bhs + 44);
}

void Encode(const ScsiDataInPdu& pdu, uint8_t* bhs) {
  const uint8_t flags = static_cast<uint8_t>(
      If(pdu.final, kFinalBit) | If(pdu.acknowledge, kAcknowledgeBit) |
      If(pdu.overflow, kOverflowBit) | If(pdu.underflow, kUnderflowBit) |
      If(pdu.has_status, kStatusBit));
  StoreStart(Opcode::kScsiDataIn, flags, 0, pdu.status, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(pdu.data_sn, bhs + 36);
  Store32(pdu.buffer_offset, bhs + 40);
  Store32(pdu.residual_count, bhs + 44);
}

void Encode(const R2tPdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kR2t, kFinalBit, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(pdu.r2t_sn, bhs + 36);
  Store32(pdu.buffer_offset, bhs + 40);
  Store32(pdu.desired_data_transfer_length, bhs + 44);
}

void Encode(const AsyncMessagePdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kAsyncMessage, kFinalBit, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(kReservedTag, bhs + 16);
  Store32(0, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  bhs[36] = pdu.async_event;
  bhs[37] = pdu.async_vcode;
  Store16(pdu.parameter1, bhs + 38);
  Store16(pdu.parameter2, bhs + 40);
  Store16(pdu.parameter3, bhs + 42);
  Store32(0, bhs + 44);
}

void Encode(const TextRequestPdu& pdu, uint8_t* bhs) {
  const uint8_t flags = static_cast<uint8_t>(If(pdu.final, kFinalBit) |
                                             If(pdu.continue_, kContinueBit));
  StoreRequestStart(Opcode::kTextRequest, pdu.immediate, flags, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  Store32(pdu.cmd_sn, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  std::memset(bhs + 32, 0, 16);
}

void Encode(const TextResponsePdu& pdu, uint8_t* bhs) {
  const uint8_t flags = static_cast<uint8_t>(If(pdu.final, kFinalBit) |
                                             If(pdu.continue_, kContinueBit));
  StoreStart(Opcode::kTextResponse, flags, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(0, bhs + 36);
  Store64(0, bhs + 40);
}

void Encode(const LoginRequestPdu& pdu, uint8_t* bhs) {
  // Login Requests are always immediate (section 11.12).
  StoreRequestStart(Opcode::kLoginRequest, /*immediate=*/true, LoginFlags(pdu),
                    pdu.version_max, pdu.version_min, bhs);
  std::memcpy(bhs + 8, pdu.isid.data(), pdu.isid.size());
  Store16(pdu.tsih, bhs + 14);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store16(pdu.cid, bhs + 20);
  Store16(0, bhs + 22);
  Store32(pdu.cmd_sn, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  std::memset(bhs + 32, 0, 16);
}

void Encode(const LoginResponsePdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kLoginResponse, LoginFlags(pdu), pdu.version_max,
             pdu.version_active, bhs);
  std::memcpy(bhs + 8, pdu.isid.data(), pdu.isid.size());
  Store16(pdu.tsih, bhs + 14);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(0, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  bhs[36] = pdu.status_class;
  bhs[37] = pdu.status_detail;
  Store16(0, bhs + 38);
  Store64(0, bhs + 40);
}

void Encode(const LogoutRequestPdu& pdu, uint8_t* bhs) {
  const uint8_t flags =
      static_cast<uint8_t>(kFinalBit | (pdu.reason & kReasonMask));
  StoreRequestStart(Opcode::kLogoutRequest, pdu.immediate, flags, 0, 0, bhs);
  Store64(0, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store16(pdu.cid, bhs + 20);
  Store16(0, bhs + 22);
  Store32(pdu.cmd_sn, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  std::memset(bhs + 32, 0, 16);
}

void Encode(const LogoutResponsePdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kLogoutResponse, kFinalBit, pdu.response, 0, bhs);
  Store64(0, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(0, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(0, bhs + 36);
  Store16(pdu.time2wait, bhs + 40);
  Store16(pdu.time2retain, bhs + 42);
  Store32(0, bhs + 44);
}

void Encode(const SnackRequestPdu& pdu, uint8_t* bhs) {
  const uint8_t flags =
      static_cast<uint8_t>(kFinalBit | (pdu.type & kSnackTypeMask));
  StoreStart(Opcode::kSnackRequest, flags, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  Store32(0, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  Store64(0, bhs + 32);
  Store32(pdu.beg_run, bhs + 40);
  Store32(pdu.run_length, bhs + 44);
}

void Encode(const RejectPdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kReject, kFinalBit, pdu.reason, 0, bhs);
  Store64(0, bhs + 8);
  Store32(kReservedTag, bhs + 16);
  Store32(0, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(pdu.data_sn_or_r2t_sn, bhs + 36);
  Store64(0, bhs + 40);
}

void Encode(const NopOutPdu& pdu, uint8_t* bhs) {
  StoreRequestStart(Opcode::kNopOut, pdu.immediate, kFinalBit, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  Store32(pdu.cmd_sn, bhs + 24);
  Store32(pdu.exp_stat_sn, bhs + 28);
  std::memset(bhs + 32, 0, 16);
}

void Encode(const NopInPdu& pdu, uint8_t* bhs) {
  StoreStart(Opcode::kNopIn, kFinalBit, 0, 0, bhs);
  Store64(pdu.lun, bhs + 8);
  Store32(pdu.initiator_task_tag, bhs + 16);
  Store32(pdu.target_transfer_tag, bhs + 20);
  StoreTargetNumbers(pdu, bhs);
  Store32(0, bhs + 36);
  Store64(0, bhs + 40);
}

}  // namespace skiff::protocol
