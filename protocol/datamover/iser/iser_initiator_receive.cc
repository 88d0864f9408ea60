// What the initiator makes of the target's messages.

#include <algorithm>

#include "protocol/datamover/iser/iser_initiator_datamover.h"

namespace skiff::protocol {

inline TaskSlot IserInitiatorDatamover::Find(uint32_t tag) const {
  const TaskSlot slot = SlotOfTag(tag);
  if (slot >= tasks_.size() || !tasks_[slot].live || tasks_[slot].deallocated ||
      tasks_[slot].initiator_task_tag != tag) {
    return kNoTask;
  }
  return slot;
}

// The session ends; nothing more is to be understood.
void IserInitiatorDatamover::Refuse(const uint8_t* bhs, const char* why) {
  channel_.StopReceiving();
  client_->RejectNotify(RejectPdu::kProtocolError, bhs, why);
}

void IserInitiatorDatamover::Fail(const char* why) {
  channel_.StopReceiving();
  client_->ConnectionTerminateNotify(absl::DataLossError(why));
}

void IserInitiatorDatamover::OnBadMessage(const absl::Status& why) {
  client_->ConnectionTerminateNotify(why);
}

void IserInitiatorDatamover::OnBroken(const absl::Status& why) {
  client_->ConnectionTerminateNotify(why);
}

void IserInitiatorDatamover::OnMessage(
    const IserMessage& message, const transport::RemoteKey* invalidated) {
  switch (message.opcode) {
    case IserOpcode::kControl:
      break;
    case IserOpcode::kHello:
      return Fail("the target sent an iSER Hello");
    case IserOpcode::kHelloReply:
      return OnHelloReply(message.hello_reply);
  }
  if (message.control.write_stag_valid || message.control.read_stag_valid) {
    return Refuse(message.bhs, "an STag from a target");
  }
  if (awaiting_hello_reply_) {
    return Refuse(message.bhs, "a PDU before the iSER HelloReply");
  }
  const auto opcode = static_cast<Opcode>(message.frame.opcode);
  if (enabled_ && opcode == Opcode::kScsiResponse) {
    return OnResponse(message, invalidated);
  }
  if (invalidated != nullptr) {
    // Section 7.3.2: a SCSI Response does that, and nothing else.
    return Refuse(message.bhs, "a PDU that invalidated a key");
  }
  if (enabled_ && (opcode == Opcode::kScsiDataIn || opcode == Opcode::kR2t)) {
    return Refuse(message.bhs, "what RDMA does on an iSER connection");
  }
  client_->ControlNotify(message);
}

void IserInitiatorDatamover::OnHelloReply(const IserHelloReply& reply) {
  if (!awaiting_hello_reply_) return Fail("an unexpected iSER HelloReply");
  // Section 10.1.3.2.
  if (reply.reject || reply.current_version != kIserVersion) {
    return Fail("the target does not speak iSER version 10");
  }
  awaiting_hello_reply_ = false;
}

void IserInitiatorDatamover::OnResponse(
    const IserMessage& message, const transport::RemoteKey* invalidated) {
  ScsiResponsePdu response;
  const DecodeResult decoded = Decode(message.bhs, &response);
  if (!decoded.ok()) return Refuse(message.bhs, decoded.field);
  const TaskSlot slot = Find(response.initiator_task_tag);
  if (slot == kNoTask) return Refuse(message.bhs, "unknown Initiator Task Tag");
  Task& task = tasks_[slot];
  if (!task.posted) {
    return Refuse(message.bhs, "a response to a command that was not sent");
  }
  if (invalidated != nullptr) {
    Data* theirs = nullptr;
    for (Data* data : {&task.in, &task.out}) {
      if (data->bound &&
          data->window->remote_key().value == invalidated->value) {
        theirs = data;
      }
    }
    if (theirs == nullptr) {
      return Refuse(message.bhs,
                    "a response that invalidated a key of another command");
    }
    theirs->bound = false;
    ++channel_.counters().remote_invalidations;
  }
  task.answered = true;
  const Moved moved = MovedBy(task, response);
  channel_.counters().bytes_in += moved.in;
  channel_.counters().bytes_out += moved.out;
  if (moved.in > 0 || moved.out > 0) ++channel_.counters().commands_moved;
  client_->ResponseNotify(slot, response, message.data);
}

// The target's RDMA is not seen here. A command that ended well says which data
// it has moved; another's are anybody's guess.
inline IserInitiatorDatamover::Moved IserInitiatorDatamover::MovedBy(
    const Task& task, const ScsiResponsePdu& response) const {
  Moved moved;
  if (response.response != ScsiResponsePdu::kCompleted ||
      response.status != 0) {
    return moved;
  }
  // Of a bidirectional command, it is that of the data-out, and the other field
  // that of the data-in (RFC 7143 sections 11.4.3 and 11.4.5).
  const uint32_t short_by = response.underflow ? response.residual_count : 0;
  const uint32_t read_short_by = task.out.length == 0 ? short_by
                                 : response.bidi_read_underflow
                                     ? response.bidi_read_residual_count
                                     : 0;
  const uint32_t out_end =
      task.out.length - std::min(short_by, task.out.length);
  if (out_end > task.unsolicited) moved.out = out_end - task.unsolicited;
  moved.in = task.in.length - std::min(read_short_by, task.in.length);
  return moved;
}

void IserInitiatorDatamover::BeforeTraced(const IserMessage& message,
                                          IserTrace* trace) {
  ScsiResponsePdu response;
  if (!enabled_ || message.opcode != IserOpcode::kControl ||
      !Decode(message.bhs, &response).ok()) {
    return;
  }
  const TaskSlot slot = Find(response.initiator_task_tag);
  if (slot == kNoTask) return;
  constexpr absl::string_view kHow = "RDMA by the target, known by its end";
  const Task& task = tasks_[slot];
  const Moved moved = MovedBy(task, response);
  const auto text = [](const Data& data, uint32_t offset, uint32_t length) {
    return absl::string_view(
        reinterpret_cast<const char*>(data.memory) + offset, length);
  };
  if (task.out.memory != nullptr && moved.out > 0) {
    trace->R2t(/*sent=*/false, task.initiator_task_tag, task.unsolicited,
               moved.out, kHow);
    trace->DataOut(/*sent=*/true, task.initiator_task_tag, task.unsolicited,
                   text(task.out, task.unsolicited, moved.out), kHow);
  }
  if (task.in.memory != nullptr && moved.in > 0) {
    trace->DataIn(/*sent=*/false, task.initiator_task_tag, 0,
                  text(task.in, 0, moved.in), kHow);
  }
}

}  // namespace skiff::protocol
