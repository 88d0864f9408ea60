#ifndef SKIFF_PROTOCOL_SESSION_TARGET_SESSION_SEND_H_
#define SKIFF_PROTOCOL_SESSION_TARGET_SESSION_SEND_H_

// Shared by the parts of TargetSession: stamping, sending and receiving one
// PDU.

#include "absl/strings/str_cat.h"
#include "protocol/session/target_session.h"

namespace skiff::protocol {

template <typename Pdu>
void TargetSession::Stamp(Pdu* pdu, bool consume_stat_sn) {
  pdu->stat_sn = consume_stat_sn ? stat_sn_++ : stat_sn_;
  CurrentWindow(&pdu->exp_cmd_sn, &pdu->max_cmd_sn);
  told_exp_cmd_sn_ = pdu->exp_cmd_sn;
}

template <typename Pdu>
void TargetSession::Send(Pdu pdu, absl::Span<const uint8_t> data,
                         bool consume_stat_sn) {
  uint8_t bhs[kBhsSize];
  Stamp(&pdu, consume_stat_sn);
  Encode(pdu, bhs);
  datamover_->SendControl(bhs, data);
  host_->Wake();
}

// What answers nothing. There is room for it and a ping.
template <typename Pdu>
void TargetSession::SendUnasked(const Pdu& pdu,
                                absl::Span<const uint8_t> data) {
  unasked_.Add(stat_sn_);
  Send(pdu, data);
  // The answer brings an acknowledgement before there is no room any more
  // (RFC 7145 section 8.1.2, second implementation note).
  if (!unasked_.HasRoom(1) && unasked_.HasRoom()) SendPing();
}

// Decodes; a PDU with a bad field is answered with Reject.
template <typename Pdu>
bool TargetSession::DecodeOrReject(const ControlPdu& in, Pdu* pdu) {
  const DecodeResult decoded = Decode(in.bhs, pdu);
  if (decoded.ok()) return true;
  RejectField(in, decoded.field);
  return false;
}

// As above, and in CmdSN order; false when the PDU is to be left alone.
template <typename Pdu>
bool TargetSession::DecodeInOrder(const ControlPdu& in, Pdu* pdu) {
  if (!DecodeOrReject(in, pdu)) return false;
  return CheckOrder(pdu->immediate, pdu->cmd_sn) == Order::kInOrder;
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_SESSION_TARGET_SESSION_SEND_H_
