// What the target of an initiator's session says unasked: pings, rejects,
// asynchronous messages.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/codec/endian.h"
#include "protocol/session/initiator_session.h"

namespace skiff::protocol {
namespace {

// Pings of the target that wait for room in the send queue; one that sends more
// without reading answers is not sane.
constexpr size_t kMaxPingAnswers = 64;

}  // namespace

void InitiatorSession::OnNopIn(const ControlPdu& pdu) {
  NopInPdu ping;
  if (!Decoded(Decode(pdu.bhs, &ping), "NOP-In")) return;
  if (ping.initiator_task_tag == kReservedTag) {
    // Carries the next StatSN, but does not use it up (section 11.19.2).
    if (!AcceptWindow(ping.exp_cmd_sn, ping.max_cmd_sn) ||
        !AdmitUnexpected("a NOP-In")) {
      return;
    }
    if (ping.target_transfer_tag != kReservedTag) return AnswerPing(ping);
    unexpected_.Add(exp_stat_sn_);
    return;
  }
  if (!AcceptStatSnOfTask(ping.stat_sn, "NOP-In") ||
      !AcceptWindow(ping.exp_cmd_sn, ping.max_cmd_sn)) {
    return;
  }
  if (!general_.Owns(ping.initiator_task_tag) ||
      general_.current->kind != Request::Kind::kPing) {
    return ProtocolError("a NOP-In with an unknown Initiator Task Tag");
  }
  Finish(&general_, absl::OkStatus());
}

void InitiatorSession::AnswerPing(const NopInPdu& ping) {
  if (!datamover_->congested() && ping_answers_.empty()) {
    return SendNopOut(ping.target_transfer_tag, ping.lun);
  }
  if (ping_answers_.size() >= kMaxPingAnswers) {
    return ProtocolError(absl::StrCat("more than ", kMaxPingAnswers,
                                      " pings without reading the answers"));
  }
  ping_answers_.push_back(ping);
}

void InitiatorSession::SendNopOut(uint32_t target_transfer_tag, Lun lun) {
  NopOutPdu pdu;
  pdu.immediate = true;
  pdu.lun = lun;
  pdu.target_transfer_tag = target_transfer_tag;
  pdu.cmd_sn = window_.cmd_sn();
  pdu.exp_stat_sn = acknowledged_stat_sn_ = exp_stat_sn_;
  Bhs bhs;
  Encode(pdu, bhs.data());
  datamover_->SendControl(bhs.data(), {});
}

void InitiatorSession::SendPingAnswers() {
  while (!ping_answers_.empty() && !datamover_->congested()) {
    const NopInPdu& ping = ping_answers_.front();
    SendNopOut(ping.target_transfer_tag, ping.lun);
    ping_answers_.pop_front();
  }
}

// Whether the target may send one more PDU that is no answer (RFC 7145 section
// 8.1.2). What was acknowledged is not outstanding any more, and neither is a
// ping that was answered.
bool InitiatorSession::AdmitUnexpected(const char* pdu) {
  unexpected_.Retire(acknowledged_stat_sn_);
  if (unexpected_.HasRoom(static_cast<uint32_t>(ping_answers_.size()))) {
    return true;
  }
  ProtocolError(absl::StrCat(pdu, " beyond the ", unexpected_.limit(),
                             " unexpected PDUs that may be outstanding "
                             "(MaxOutstandingUnexpectedPDUs)"));
  return false;
}

// Whether the target owes an answer to this request, of which a Reject is one.
bool InitiatorSession::IsOutstanding(const BhsFrame& request) const {
  const uint32_t tag = request.initiator_task_tag;
  switch (static_cast<Opcode>(request.opcode)) {
    case Opcode::kScsiCommand:
      return tasks_.Find(tag) != kNoTask;
    case Opcode::kNopOut:
    case Opcode::kTextRequest:
      return general_.Owns(tag);
    case Opcode::kTaskManagementRequest:
      return task_management_.Owns(tag);
    case Opcode::kLogoutRequest:
      return logout_.Owns(tag);
    default:
      return false;
  }
}

// An idle session acknowledges nothing, and a target that has something to say
// must not run out of room because of that. Two pings are needed for NOP-Ins,
// which have the number of the answer to come.
bool InitiatorSession::UnexpectedAckIsOwed() {
  unexpected_.Retire(acknowledged_stat_sn_);
  return unexpected_.Crowded();
}

void InitiatorSession::OnReject(const ControlPdu& pdu) {
  RejectPdu reject;
  if (!Decoded(Decode(pdu.bhs, &reject), "Reject")) return;
  if (pdu.data.size() < kBhsSize) {
    return ProtocolError("a Reject without the rejected header");
  }
  const BhsFrame rejected = DecodeFrame(pdu.data.data());
  const std::string what =
      absl::StrCat("the target rejected a ", OpcodeName(rejected.opcode),
                   " PDU: ", RejectReasonName(reject.reason));
  if (state_ == State::kLogin) {
    return Lose(Loss::kTarget, absl::FailedPreconditionError(what));
  }
  const bool answers = IsOutstanding(rejected);
  if ((!answers && !AdmitUnexpected("a Reject")) ||
      !AcceptStatSn(reject.stat_sn, "Reject") ||
      !AcceptWindow(reject.exp_cmd_sn, reject.max_cmd_sn)) {
    return;
  }
  if (!answers) unexpected_.Add(reject.stat_sn);
  Log(what);
  switch (static_cast<Opcode>(rejected.opcode)) {
    case Opcode::kScsiCommand:
      return RejectCommand(tasks_.Find(rejected.initiator_task_tag),
                           reject.reason);
    case Opcode::kNopOut:
    case Opcode::kTextRequest:
      if (!general_.Owns(rejected.initiator_task_tag)) return;
      return Finish(&general_, absl::FailedPreconditionError(what));
    case Opcode::kTaskManagementRequest: {
      if (!task_management_.Owns(rejected.initiator_task_tag)) return;
      const bool own_idea = task_management_.current->own_idea;
      const uint32_t referenced = task_management_.current->referenced_tag;
      Finish(&task_management_, absl::FailedPreconditionError(what));
      if (referenced != kReservedTag) return AbortRefused(referenced);
      if (own_idea) Lose(Loss::kTimeout, absl::FailedPreconditionError(what));
      return;
    }
    case Opcode::kLogoutRequest:
      if (!logout_.Owns(rejected.initiator_task_tag)) return;
      Finish(&logout_, absl::FailedPreconditionError(what));
      if (state_ == State::kLoggingOut) End(State::kLoggedOut);
      return;
    default:
      // Only of diagnostic value: the command is still answered (section 7.3).
      return;
  }
}

// The command will not be answered, and its CmdSN is missing (section 7.3). At
// error recovery level 0 that is mended by a new session.
void InitiatorSession::RejectCommand(TaskSlot slot, uint8_t reason) {
  const bool curable = reason == RejectPdu::kDataDigestError ||
                       reason == RejectPdu::kImmediateCommandReject ||
                       reason == RejectPdu::kLongOperationReject ||
                       reason == RejectPdu::kWaitingForLogout;
  if (slot != kNoTask && !curable) {
    tasks_[slot].fate = scsi::Command::Outcome::kProtocolError;
  }
  Lose(Loss::kTarget,
       absl::UnavailableError(absl::StrCat("the target rejected a command: ",
                                           RejectReasonName(reason))));
}

// RFC 7143 section 11.9; what each event asks for is in section 11.9.1.
void InitiatorSession::OnAsyncMessage(const ControlPdu& pdu) {
  AsyncMessagePdu message;
  if (!Decoded(Decode(pdu.bhs, &message), "Async Message") ||
      !AdmitUnexpected("an Async Message") ||
      !AcceptStatSn(message.stat_sn, "Async Message") ||
      !AcceptWindow(message.exp_cmd_sn, message.max_cmd_sn)) {
    return;
  }
  unexpected_.Add(message.stat_sn);
  switch (message.async_event) {
    case AsyncMessagePdu::kScsiAsyncEvent:
      return OnScsiEvent(message.lun, pdu.data);
    case AsyncMessagePdu::kLogoutRequested:
      Log(absl::StrCat("the target asks for a logout within ",
                       message.parameter3, " s"));
      if (logout_requested_) return;
      // No new commands; those that are out may finish in the first half.
      logout_requested_ = true;
      logout_within_ = absl::Seconds(message.parameter3) / 2;
      return;
    case AsyncMessagePdu::kConnectionDropped:
      if (message.parameter1 != options_.login.cid) return;
      [[fallthrough]];
    case AsyncMessagePdu::kSessionDropped:
      time2wait_ = absl::Seconds(message.parameter2);
      return Lose(Loss::kTarget,
                  absl::UnavailableError(absl::StrCat(
                      "the target announced that it drops the session (wait ",
                      message.parameter2, " s)")));
    case AsyncMessagePdu::kNegotiationRequested:
      return OfferToNegotiate();
    case AsyncMessagePdu::kTaskTermination:
      return ProtocolError(
          "an Async Message of task termination, which was not negotiated");
    default:
      Log(absl::StrCat("unknown asynchronous event ", message.async_event,
                       " (vendor code ", message.async_vcode, ")"));
  }
}

// There is nothing to negotiate, but a Text Request must follow. One does for
// any number of messages, which must not take the places of other requests.
void InitiatorSession::OfferToNegotiate() {
  const auto is_text = [](const Request& request) {
    return request.kind == Request::Kind::kText;
  };
  if ((general_.current.has_value() && is_text(*general_.current)) ||
      std::any_of(general_.waiting.begin(), general_.waiting.end(), is_text)) {
    return;
  }
  Request request;
  request.kind = Request::Kind::kText;
  Enqueue(&general_, std::move(request));
}

void InitiatorSession::OnScsiEvent(Lun lun, absl::Span<const uint8_t> data) {
  if (data.size() < 2 || Load16(data.data()) > data.size() - 2) {
    return ProtocolError(
        "an Async Message with a SenseLength beyond its data segment");
  }
  if (!options_.on_async_event) return;
  const absl::Span<const uint8_t> sense = data.subspan(2, Load16(data.data()));
  completions_->Add([handler = options_.on_async_event, lun,
                     copy = std::vector<uint8_t>(sense.begin(), sense.end())] {
    handler(lun, copy);
  });
}

}  // namespace skiff::protocol
