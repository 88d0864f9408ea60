// TargetSession: NOP, task management, text, logout, reject.

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/serial.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/names.h"
#include "protocol/session/target_session.h"
#include "protocol/session/target_session_send.h"
#include "scsi/lun.h"

namespace skiff::protocol {
namespace {

uint8_t ResponseFor(scsi::TaskManagementResult result) {
  switch (result) {
    case scsi::TaskManagementResult::kFunctionComplete:
      return TaskManagementResponsePdu::kComplete;
    case scsi::TaskManagementResult::kTaskDoesNotExist:
      return TaskManagementResponsePdu::kTaskDoesNotExist;
    case scsi::TaskManagementResult::kIncorrectLun:
      return TaskManagementResponsePdu::kLunDoesNotExist;
    case scsi::TaskManagementResult::kNotSupported:
      break;
    case scsi::TaskManagementResult::kNotAuthorized:
      return TaskManagementResponsePdu::kAuthorizationFailed;
  }
  return TaskManagementResponsePdu::kNotSupported;
}

// A Reject of such a request takes the place of the answer to it (RFC 7145
// section 8.1.1.1).
bool WantsAnswer(const uint8_t* bhs) {
  const BhsFrame frame = DecodeFrame(bhs);
  switch (static_cast<Opcode>(frame.opcode)) {
    case Opcode::kScsiCommand:
    case Opcode::kTaskManagementRequest:
    case Opcode::kTextRequest:
    case Opcode::kLogoutRequest:
      return true;
    case Opcode::kNopOut:
      return frame.initiator_task_tag != kReservedTag;
    default:
      return false;
  }
}

}  // namespace

// --- NOP-Out (section 11.18).

void TargetSession::HandleNopOut(const ControlPdu& in) {
  NopOutPdu nop;
  if (!DecodeOrReject(in, &nop)) return;
  if (nop.initiator_task_tag == kReservedTag) {
    // No answer wanted: the answer to our ping, or one more sign of life. It
    // carries the CmdSN of the next command without consuming it, and must be
    // immediate.
    if (ping_unanswered_ &&
        nop.target_transfer_tag == (ping_tag_ & 0x7fffffffu)) {
      ping_unanswered_ = false;
      unasked_.RetireOne(ping_stat_sn_);
    }
    if (!nop.immediate) {
      SendReject(RejectPdu::kProtocolError, in.bhs,
                 "NOP-Out without tag is not immediate");
    }
    return;
  }
  if (CheckOrder(nop.immediate, nop.cmd_sn) != Order::kInOrder) return;
  NopInPdu answer;
  answer.lun = nop.lun;
  answer.initiator_task_tag = nop.initiator_task_tag;
  const size_t size = std::min<size_t>(
      in.data.size(), parameters_.initiator_max_recv_data_segment_length);
  Send(answer, in.data.first(size));
}

// --- Task management (sections 11.5, 11.6, 4.2.3).

void TargetSession::HandleTaskManagement(const ControlPdu& in) {
  TaskManagementRequestPdu pdu;
  if (!DecodeOrReject(in, &pdu)) return;
  if (nexus_ == nullptr) {
    return RejectNotify(RejectPdu::kProtocolError, in.bhs,
                        "task management in a discovery session",
                        AfterReject::kClose);
  }
  if (pdu.immediate && managing_.size() >= options_.max_task_management) {
    return SendReject(RejectPdu::kImmediateCommandReject, in.bhs,
                      "too many task management functions");
  }
  if (CheckOrder(pdu.immediate, pdu.cmd_sn) != Order::kInOrder) return;
  const uint32_t tag = pdu.initiator_task_tag;
  if (managing_.size() >= options_.max_task_management) {
    return AnswerTaskManagement(tag, TaskManagementResponsePdu::kRejected);
  }
  const auto manage = [this, &pdu](scsi::TaskManagement function) {
    Manage(function, pdu, nullptr);
  };
  switch (static_cast<TaskManagementFunction>(pdu.function)) {
    case TaskManagementFunction::kAbortTask:
      return AbortTask(pdu);
    case TaskManagementFunction::kAbortTaskSet:
      return manage(scsi::TaskManagement::kAbortTaskSet);
    case TaskManagementFunction::kClearAca:
      return manage(scsi::TaskManagement::kClearAca);
    case TaskManagementFunction::kClearTaskSet:
      return manage(scsi::TaskManagement::kClearTaskSet);
    case TaskManagementFunction::kLogicalUnitReset:
      return manage(scsi::TaskManagement::kLogicalUnitReset);
    case TaskManagementFunction::kTargetWarmReset:
      return manage(scsi::TaskManagement::kTargetReset);
    case TaskManagementFunction::kTargetColdReset:
      // It would be a power cycle, which ends every session of every initiator
      // (section 11.5.1). It is optional, no recovery needs it, and there is
      // nothing to tell who may do that to the others.
      break;
    case TaskManagementFunction::kTaskReassign:
      // Only with error recovery level 2 (section 11.6.1).
      return AnswerTaskManagement(
          tag, TaskManagementResponsePdu::kReassignNotSupported);
  }
  AnswerTaskManagement(tag, TaskManagementResponsePdu::kNotSupported);
}

void TargetSession::AbortTask(const TaskManagementRequestPdu& pdu) {
  const uint32_t tag = pdu.initiator_task_tag;
  const TaskSlot slot = tags_.Find(pdu.referenced_task_tag);
  if (slot == kNoTask &&
      absl::c_linear_search(managing_, pdu.referenced_task_tag)) {
    // Section 11.5.1: not of a task management request.
    return AnswerTaskManagement(tag, TaskManagementResponsePdu::kRejected);
  }
  if (slot == kNoTask || !scsi::SameLun(At(slot).lun, pdu.lun)) {
    const bool never_came = slot == kNoTask && CountAsReceived(pdu);
    return AnswerTaskManagement(
        tag, never_came ? TaskManagementResponsePdu::kComplete
                        : TaskManagementResponsePdu::kTaskDoesNotExist);
  }
  Manage(scsi::TaskManagement::kAbortTask, pdu, &At(slot).scsi);
}

void TargetSession::Manage(scsi::TaskManagement function,
                           const TaskManagementRequestPdu& pdu,
                           scsi::Task* task) {
  const uint32_t tag = pdu.initiator_task_tag;
  managing_.push_back(tag);
  nexus_->Manage(function, pdu.lun, task,
                 [this, tag](scsi::TaskManagementResult result) {
                   managing_.erase(absl::c_find(managing_, tag));
                   AnswerTaskManagement(tag, ResponseFor(result));
                 });
}

// Section 11.6.1, the rules b and c for a task that is not here. True where the
// CmdSN is in the window, and the initiator has gone past it: the command does
// not come any more, and those after it must not wait for it.
bool TargetSession::CountAsReceived(const TaskManagementRequestPdu& pdu) {
  uint32_t exp_cmd_sn;
  uint32_t max_cmd_sn;
  CurrentWindow(&exp_cmd_sn, &max_cmd_sn);
  if (!SerialInWindow(pdu.ref_cmd_sn, exp_cmd_sn, max_cmd_sn) ||
      !SerialLess(pdu.ref_cmd_sn, pdu.cmd_sn)) {
    return false;
  }
  if (aborted_cmd_sns_.empty()) {
    // A power of two, so that places stay their own when CmdSNs wrap around.
    aborted_cmd_sns_.resize(std::bit_ceil(options_.queue_depth));
  }
  if (!WasAborted(pdu.ref_cmd_sn)) {
    aborted_cmd_sns_[PlaceOf(pdu.ref_cmd_sn)] = true;
    ++aborted_;
  }
  PassAborted();
  return true;
}

void TargetSession::PassAborted() {
  while (WasAborted(exp_cmd_sn_)) {
    aborted_cmd_sns_[PlaceOf(exp_cmd_sn_)] = false;
    --aborted_;
    ++exp_cmd_sn_;
  }
}

void TargetSession::AnswerTaskManagement(uint32_t initiator_task_tag,
                                         uint8_t response) {
  if (phase_ != Phase::kFullFeature) return;
  TaskManagementResponsePdu answer;
  answer.response = response;
  answer.initiator_task_tag = initiator_task_tag;
  Send(answer, {});
}

// --- Text (sections 11.10, 11.11).

void TargetSession::HandleText(const ControlPdu& in) {
  TextRequestPdu request;
  if (!DecodeInOrder(in, &request)) return;
  const bool continues = text_tag_ != kReservedTag &&
                         request.initiator_task_tag == text_tag_ &&
                         request.target_transfer_tag == text_transfer_tag_;
  if (request.target_transfer_tag != kReservedTag && !continues) {
    return SendReject(RejectPdu::kInvalidPduField, in.bhs,
                      "no such text exchange");
  }
  // A request with the reserved transfer tag starts afresh (section 11.10.4).
  if (!continues) ResetText();
  text_tag_ = request.initiator_task_tag;
  if (text_out_.empty() && !TakeText(in, request.continue_)) return;
  SendTextResponse(request);
}

void TargetSession::ResetText() {
  text_in_.reset();
  text_out_ = TextWriter();
  text_keys_.clear();
  unknown_text_keys_ = 0;
  text_tag_ = kReservedTag;
}

// False if the exchange ended in a Reject, which resets it (section 6.4).
bool TargetSession::TakeText(const ControlPdu& in, bool continued) {
  if (!text_in_.has_value()) text_in_.emplace(options_.max_text_bytes);
  std::vector<TextPair> pairs;
  absl::Status taken = text_in_->Add(in.data, continued);
  const bool whole = taken.ok() && text_in_->complete();
  if (whole) taken = ParseText(text_in_->text(), &pairs);
  if (whole && taken.ok()) taken = CheckTextKeys(pairs);
  if (!taken.ok()) {
    ResetText();
    SendReject(RejectPdu::kProtocolError, in.bhs, taken.message());
    return false;
  }
  if (!whole) return true;
  if (!AnswerText(pairs)) {
    ResetText();
    SendReject(RejectPdu::kLongOperationReject, in.bhs,
               absl::StrCat("the answer has more than ",
                            options_.max_text_answer_bytes, " bytes"));
    return false;
  }
  text_in_.reset();
  return true;
}

// Section 6.4: a key that comes a second time is a protocol error. Nothing is
// answered before all were looked at: each may have a long answer.
absl::Status TargetSession::CheckTextKeys(const std::vector<TextPair>& pairs) {
  for (const TextPair& pair : pairs) {
    const KeySpec* const key = FindKey(pair.key);
    if (key == nullptr) {
      if (++unknown_text_keys_ <= options_.login.max_unknown_keys) continue;
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", options_.login.max_unknown_keys,
                       " unknown keys, the last one ", Quoted(pair.key)));
    }
    if (absl::c_linear_search(text_keys_, key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(pair.key, " is sent a second time"));
    }
    text_keys_.push_back(key);
  }
  return absl::OkStatus();
}

// False if the answer is too long.
bool TargetSession::AnswerText(const std::vector<TextPair>& pairs) {
  for (const TextPair& pair : pairs) {
    if (pair.key == "SendTargets") {
      AnswerSendTargets(pair);
    } else if (pair.key == "MaxRecvDataSegmentLength") {
      AnswerSegmentLength(pair);
    } else {
      const bool known = FindKey(pair.key) != nullptr;
      text_out_.Add(pair.key, known ? "Reject" : "NotUnderstood");
    }
  }
  return text_out_.size() <= options_.max_text_answer_bytes;
}

// Appendix C: "All" in discovery sessions only; empty means this session's
// target. Names are compared as at login; what is none is nobody's.
void TargetSession::AnswerSendTargets(const TextPair& pair) {
  const LoginIdentity& identity = login_->identity();
  const bool discovery = identity.session_type == SessionType::kDiscovery;
  std::string what =
      NormalizeName(pair.value).value_or(std::string(pair.value));
  const bool others =
      what == "All" || (!what.empty() && what != identity.target_name);
  if (others && !discovery) return text_out_.Add(pair.key, "Reject");
  if (what.empty()) {
    what = identity.target_name;
  } else if (what == "All") {
    what = "";
  }
  for (const DiscoveredTarget& target : host_->Discover(identity, what)) {
    AppendTarget(target, &text_out_);
    if (text_out_.size() > options_.max_text_answer_bytes) return;
  }
}

// The one operational key of full feature phase; a declaration needs no answer
// (section 13.12).
void TargetSession::AnswerSegmentLength(const TextPair& pair) {
  const absl::optional<uint64_t> bytes = ParseNumber(pair.value);
  if (!bytes.has_value() || *bytes < 512 || *bytes > kMaxDataSegmentLength) {
    return text_out_.Add(pair.key, "Reject");
  }
  if (parameters_.iser.enabled) return;  // RFC 7145 section 6.2.
  parameters_.initiator_max_recv_data_segment_length =
      static_cast<uint32_t>(*bytes);
  datamover_->EnableDatamover(parameters_);
}

void TargetSession::SendTextResponse(const TextRequestPdu& request) {
  TextResponsePdu response;
  response.lun = request.lun;
  response.initiator_task_tag = request.initiator_task_tag;
  bool more = false;
  std::string data;
  const bool answering = !text_in_.has_value();
  if (answering && !text_out_.empty()) {
    data = text_out_.Next(parameters_.initiator_max_recv_data_segment_length,
                          &more);
  }
  response.continue_ = more;
  // F=1 answers a final request whose answer is complete (section 11.11.1).
  response.final = answering && !more && request.final;
  if (response.final) {
    response.target_transfer_tag = kReservedTag;
    text_tag_ = kReservedTag;
  } else {
    text_transfer_tag_ = (text_transfer_tag_ + 1) & 0x7fffffffu;
    response.target_transfer_tag = text_transfer_tag_;
  }
  Send(response, {reinterpret_cast<const uint8_t*>(data.data()), data.size()});
}

// --- Logout (sections 11.14, 11.15).

void TargetSession::HandleLogout(const ControlPdu& in) {
  LogoutRequestPdu request;
  if (!DecodeInOrder(in, &request)) return;
  LogoutResponsePdu response;
  response.initiator_task_tag = request.initiator_task_tag;
  response.time2wait = static_cast<uint16_t>(parameters_.default_time2wait);
  response.time2retain = 0;  // Nothing is kept at error recovery level 0.
  if (request.reason == LogoutRequestPdu::kRemoveForRecovery) {
    response.response = LogoutResponsePdu::kRecoveryNotSupported;
    return Send(response, {});
  }
  if (request.reason == LogoutRequestPdu::kCloseConnection &&
      request.cid != cid_) {
    response.response = LogoutResponsePdu::kCidNotFound;
    return Send(response, {});
  }
  Send(response, {});
  Close(absl::OkStatus(), /*after_sending=*/true);
}

// --- Reject (section 11.17). docs/architecture.md has a table of the reasons,
// and of which ends the connection.

void TargetSession::SendReject(uint8_t reason, const uint8_t* bhs,
                               absl::string_view why,
                               absl::string_view bad_field) {
  host_->Warn([&] {
    return absl::StrCat("rejected a PDU (", RejectReasonName(reason),
                        "): ", why, bad_field.empty() ? "" : ": bad ",
                        bad_field);
  });
  RejectPdu reject;
  reject.reason = reason;
  if (WantsAnswer(bhs)) return Send(reject, {bhs, kBhsSize});
  if (MayReject()) SendUnasked(reject, {bhs, kBhsSize});
}

void TargetSession::RejectNotify(RejectPdu::Reason reason, const uint8_t* bhs,
                                 const char* why, AfterReject after) {
  if (phase_ != Phase::kFullFeature && phase_ != Phase::kLogin) return;
  if (phase_ == Phase::kFullFeature) SendReject(reason, bhs, why);
  if (after == AfterReject::kClose || phase_ == Phase::kLogin) {
    Close(absl::InvalidArgumentError(why), /*after_sending=*/true);
  }
}

}  // namespace skiff::protocol
