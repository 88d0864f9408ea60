// What the initiator makes of what comes over a byte stream.

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "protocol/codec/serial.h"
#include "protocol/datamover/stream/stream_initiator_datamover.h"

namespace skiff::protocol {
namespace {

constexpr uint8_t kGood = 0x00;
constexpr uint8_t kCheckCondition = 0x02;
constexpr uint8_t kConditionMet = 0x04;

void Scatter(const uint8_t* from, size_t length, const iovec* to,
             size_t offset) {
  while (length > 0) {
    const size_t n = std::min(length, to->iov_len - offset);
    std::memcpy(static_cast<uint8_t*>(to->iov_base) + offset, from, n);
    from += n;
    length -= n;
    offset = 0;
    ++to;
  }
}

// What the target claims must not exceed what has moved: a hole in the buffer
// would pass for data, and data that never left for written. What is missing is
// told as underflow.
void TellMissing(uint32_t missing, bool* overflow, bool* underflow,
                 uint32_t* residual) {
  if (missing == 0 || (*underflow && *residual >= missing)) return;
  *overflow = false;
  *underflow = true;
  *residual = missing;
}

}  // namespace

TaskSlot StreamInitiatorDatamover::Find(uint32_t tag) const {
  const TaskSlot slot = SlotOfTag(tag);
  if (slot >= tasks_.size() || !tasks_[slot].live ||
      tasks_[slot].initiator_task_tag != tag) {
    return kNoTask;
  }
  return slot;
}

// The session ends; nothing more is to be understood.
void StreamInitiatorDatamover::Refuse(const uint8_t* bhs, const char* why) {
  receiver_.Stop();
  client_->RejectNotify(RejectPdu::kProtocolError, bhs, why);
}

void StreamInitiatorDatamover::SayOutOfMemory() {
  if (said_out_of_memory_ || terminated_) return;
  said_out_of_memory_ = true;
  client_->ConnectionTerminateNotify(
      absl::ResourceExhaustedError("no memory for a copy of what is sent"));
}

void StreamInitiatorDatamover::OnFramingError(const std::string& why) {
  client_->ConnectionTerminateNotify(absl::DataLossError(absl::StrCat(
      "what the target sent cannot be understood any more: ", why)));
}

void StreamInitiatorDatamover::OnPdu(const StreamReceiver::Pdu& pdu,
                                     absl::Span<const uint8_t> data,
                                     StreamReceiver::DigestError error) {
  if (error != StreamReceiver::DigestError::kNone) {
    receiver_.Stop();
    return client_->RejectNotify(RejectPdu::kDataDigestError, pdu.bhs,
                                 "data digest error");
  }
  if (enabled_) {
    switch (static_cast<Opcode>(pdu.frame.opcode)) {
      case Opcode::kScsiDataIn:
        if (!BeginDataIn(pdu)) return;
        if (!data.empty() && !incoming_.duplicate) {
          const Task& task = tasks_[incoming_.task];
          Scatter(data.data(), data.size(), task.in.iov,
                  incoming_.pdu.buffer_offset - task.in.begin);
          copied_bytes_ += data.size();
        }
        return FinishDataIn(static_cast<uint32_t>(data.size()));
      case Opcode::kScsiResponse:
        return OnResponse(pdu, data);
      case Opcode::kR2t:
        return OnR2t(pdu);
      default:
        break;
    }
  }
  client_->ControlNotify({pdu.frame, pdu.bhs, pdu.ahs, data});
}

StreamReceiver::Sink StreamInitiatorDatamover::OnPduStart(
    const StreamReceiver::Pdu& pdu) {
  StreamReceiver::Sink sink;
  if (!enabled_ ||
      pdu.frame.opcode != static_cast<uint8_t>(Opcode::kScsiDataIn)) {
    if (pdu.frame.data_segment_length > options_.max_control_data_bytes) {
      Refuse(pdu.bhs, "a data segment longer than such a PDU can need");
    }
    return sink;
  }
  sink.kind = StreamReceiver::Sink::kDiscard;
  if (!BeginDataIn(pdu) || incoming_.duplicate) return sink;
  const Task& task = tasks_[incoming_.task];
  sink.kind = StreamReceiver::Sink::kPlace;
  sink.iov = task.in.iov;
  sink.iov_count = task.in.count;
  sink.offset = incoming_.pdu.buffer_offset - task.in.begin;
  return sink;
}

void StreamInitiatorDatamover::OnPlaced(const StreamReceiver::Pdu& pdu,
                                        StreamReceiver::DigestError error) {
  if (error != StreamReceiver::DigestError::kNone) {
    receiver_.Stop();
    return client_->RejectNotify(RejectPdu::kDataDigestError, pdu.bhs,
                                 "data digest error");
  }
  FinishDataIn(pdu.frame.data_segment_length);
}

// Everything about a Data-In PDU that can be wrong (RFC 7143 section 11.7),
// before a byte is placed.
bool StreamInitiatorDatamover::BeginDataIn(const StreamReceiver::Pdu& pdu) {
  const uint32_t length = pdu.frame.data_segment_length;
  ScsiDataInPdu& in = incoming_.pdu;
  incoming_.task = kNoTask;
  incoming_.duplicate = false;
  const DecodeResult decoded = Decode(pdu.bhs, &in);
  if (!decoded.ok()) {
    Refuse(pdu.bhs, decoded.field);
    return false;
  }
  const TaskSlot slot = Find(in.initiator_task_tag);
  if (slot == kNoTask) {
    Refuse(pdu.bhs, "unknown Initiator Task Tag");
    return false;
  }
  Task& task = tasks_[slot];
  const char* wrong = nullptr;
  if (!Known(slot)) {
    wrong = "data for a command that was not sent";
  } else if (task.data_in_length == 0 && length > 0) {
    wrong = "data for a command that reads none";
  } else if (uint64_t{in.buffer_offset} + length > task.data_in_length) {
    wrong = "data beyond the command's buffer";
  } else if (SerialGreater(in.data_sn, task.data_sn)) {
    wrong = "DataSN skipped a PDU";
  }
  incoming_.task = slot;
  // Duplicates are discarded (section 7.9).
  incoming_.duplicate = in.data_sn != task.data_sn;
  const bool in_order =
      parameters_.data_pdu_in_order && parameters_.data_sequence_in_order;
  if (wrong == nullptr && !incoming_.duplicate && length > 0 &&
      (in_order ? in.buffer_offset != task.received
                : length > task.data_in_length - task.received)) {
    wrong = "data out of order or sent twice";
  }
  if (wrong != nullptr) {
    Refuse(pdu.bhs, wrong);
    return false;
  }
  task.in.Seek(task.data_in, task.data_in_count, in.buffer_offset);
  return true;
}

void StreamInitiatorDatamover::FinishDataIn(uint32_t length) {
  const TaskSlot slot = incoming_.task;
  if (slot == kNoTask) return;  // The task ended meanwhile.
  incoming_.task = kNoTask;
  const ScsiDataInPdu in = incoming_.pdu;
  if (incoming_.duplicate) return;
  Task& task = tasks_[slot];
  task.received += length;
  ++task.data_sn;
  // Of a bidirectional command both share the numbers (section 11.7.5).
  if (task.data_out_length > 0) ++task.r2t_sn;
  if (!in.has_status) {
    return client_->WindowNotify(in.exp_cmd_sn, in.max_cmd_sn);
  }
  ScsiResponsePdu response;
  response.overflow = in.overflow;
  response.underflow = in.underflow;
  response.status = in.status;
  response.initiator_task_tag = in.initiator_task_tag;
  response.stat_sn = in.stat_sn;
  response.exp_cmd_sn = in.exp_cmd_sn;
  response.max_cmd_sn = in.max_cmd_sn;
  response.residual_count = in.residual_count;
  Respond(slot, &response, {});
}

void StreamInitiatorDatamover::OnResponse(const StreamReceiver::Pdu& pdu,
                                          absl::Span<const uint8_t> data) {
  ScsiResponsePdu response;
  const DecodeResult decoded = Decode(pdu.bhs, &response);
  if (!decoded.ok()) return Refuse(pdu.bhs, decoded.field);
  const TaskSlot slot = Find(response.initiator_task_tag);
  if (slot == kNoTask) return Refuse(pdu.bhs, "unknown Initiator Task Tag");
  if (!Known(slot)) {
    return Refuse(pdu.bhs, "a response to a command that was not sent");
  }
  Respond(slot, &response, data);
}

void StreamInitiatorDatamover::Respond(TaskSlot slot, ScsiResponsePdu* response,
                                       absl::Span<const uint8_t> data) {
  Task& task = tasks_[slot];
  // What the target did not wait for, it does not want.
  StopSending(slot);
  // Each may be a success: CHECK CONDITION may say that an error was recovered
  // from, and CONDITION MET is what PRE-FETCH ends with.
  if (response->response == ScsiResponsePdu::kCompleted &&
      (response->status == kGood || response->status == kCheckCondition ||
       response->status == kConditionMet)) {
    const uint32_t unread = task.data_in_length - task.received;
    if (task.data_out_length == 0) {
      TellMissing(unread, &response->overflow, &response->underflow,
                  &response->residual_count);
    } else {
      TellMissing(Unwritten(task), &response->overflow, &response->underflow,
                  &response->residual_count);
      TellMissing(unread, &response->bidi_read_overflow,
                  &response->bidi_read_underflow,
                  &response->bidi_read_residual_count);
    }
  }
  client_->ResponseNotify(slot, *response, data);
}

// How much of its data have not left. Bytes that left twice count once.
uint32_t StreamInitiatorDatamover::Unwritten(const Task& task) {
  const uint64_t once =
      task.data_out_sent - std::min(task.data_out_sent, task.data_out_repeated);
  return static_cast<uint32_t>(task.data_out_length -
                               std::min<uint64_t>(once, task.data_out_length));
}

// Counts what is asked for once more. Only order tells what was asked for.
void StreamInitiatorDatamover::NoteAsked(const R2tPdu& r2t, Task* task) const {
  const uint32_t end = r2t.buffer_offset + r2t.desired_data_transfer_length;
  if (parameters_.data_sequence_in_order &&
      r2t.buffer_offset < task->data_out_asked) {
    task->data_out_repeated +=
        std::min(task->data_out_asked, end) - r2t.buffer_offset;
  }
  task->data_out_asked = std::max(task->data_out_asked, end);
}

// Returns what is wrong, or null. RFC 7143 sections 11.8, 13.13 and 13.17.
const char* StreamInitiatorDatamover::CheckR2t(TaskSlot slot,
                                               const R2tPdu& r2t) const {
  const Task& task = tasks_[slot];
  const uint64_t end =
      uint64_t{r2t.buffer_offset} + r2t.desired_data_transfer_length;
  if (!Known(slot)) return "R2T for a command that was not sent";
  if (task.data_out_length == 0) return "R2T for a command that writes nothing";
  if (r2t.desired_data_transfer_length > parameters_.max_burst_length) {
    return "Desired Data Transfer Length above MaxBurstLength";
  }
  if (end > task.data_out_length) {
    return "data wanted from beyond the command's buffer";
  }
  if (SerialGreater(r2t.r2t_sn, task.r2t_sn)) return "R2TSN skipped a PDU";
  if (task.outstanding_r2ts >=
      std::min(parameters_.max_outstanding_r2t, kMaxOutstandingR2t)) {
    return "more R2Ts than MaxOutstandingR2T";
  }
  return nullptr;
}

void StreamInitiatorDatamover::OnR2t(const StreamReceiver::Pdu& pdu) {
  R2tPdu r2t;
  const DecodeResult decoded = Decode(pdu.bhs, &r2t);
  if (!decoded.ok()) return Refuse(pdu.bhs, decoded.field);
  const TaskSlot slot = Find(r2t.initiator_task_tag);
  if (slot == kNoTask) return Refuse(pdu.bhs, "unknown Initiator Task Tag");
  Task& task = tasks_[slot];
  const char* const wrong = CheckR2t(slot, r2t);
  if (wrong != nullptr) return Refuse(pdu.bhs, wrong);
  if (r2t.r2t_sn == task.r2t_sn) {  // Duplicates are discarded (section 7.9).
    ++task.r2t_sn;
    if (task.data_in_length > 0) ++task.data_sn;
    ++task.outstanding_r2ts;
    NoteAsked(r2t, &task);
    PushSequence(slot,
                 {r2t.target_transfer_tag, r2t.buffer_offset,
                  r2t.buffer_offset + r2t.desired_data_transfer_length, 0});
  }
  client_->WindowNotify(r2t.exp_cmd_sn, r2t.max_cmd_sn);
}

}  // namespace skiff::protocol
