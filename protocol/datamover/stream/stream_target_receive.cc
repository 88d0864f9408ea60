// What the target makes of what comes over a byte stream.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "protocol/codec/endian.h"
#include "protocol/datamover/stream/stream_target_datamover.h"

namespace skiff::protocol {
namespace {

constexpr size_t kLunOffset = 8;

// Transfer tags this far behind the newest belong to a task that ended early.
constexpr uint16_t kStaleGenerations = 1024;

}  // namespace

absl::Span<const iovec> StreamTargetDatamover::ReceiveSpans() {
  // One read may hold many commands, and their answers be far more than the
  // limit: what came with them waits too.
  if (!congested()) receiver_.Resume();
  if (congested()) return {};
  if (holding_ && !AwaitsData()) [[unlikely]] {
    return {};
  }
  return receiver_.Spans();
}

void StreamTargetDatamover::BytesReceived(size_t n) {
  receiver_.BytesReceived(n);
}

void StreamTargetDatamover::OnPdu(const StreamReceiver::Pdu& pdu,
                                  absl::Span<const uint8_t> data,
                                  StreamReceiver::DigestError error) {
  if (Held(pdu) && error == StreamReceiver::DigestError::kNone) [[unlikely]] {
    return Hold(pdu, data);
  }
  if (pdu.frame.opcode != static_cast<uint8_t>(Opcode::kScsiDataOut)) {
    HandleControl(pdu, data, error);
    return;
  }
  Incoming in;
  if (!MatchDataOut(pdu, &in)) return;
  if (error != StreamReceiver::DigestError::kNone) {
    // Section 7.8: the task ends, as error recovery level 0 asks for no data
    // again.
    client_->RejectNotify(RejectPdu::kDataDigestError, pdu.bhs,
                          "Data-Out data digest", AfterReject::kGoOn);
    return DataError(in.task, data_fault::kDigest);
  }
  if (!data.empty()) {
    uint8_t* const place = PlaceOf(&in);
    if (place == nullptr) return;
    std::memcpy(place, data.data(), data.size());
    copied_bytes_ += data.size();
  }
  Landed(in);
}

void StreamTargetDatamover::HandleControl(const StreamReceiver::Pdu& pdu,
                                          absl::Span<const uint8_t> data,
                                          StreamReceiver::DigestError error) {
  if (error != StreamReceiver::DigestError::kNone) {
    // Section 7.8. A command without its CmdSN leaves a hole that error
    // recovery level 0 cannot fill.
    client_->RejectNotify(RejectPdu::kDataDigestError, pdu.bhs,
                          "data digest error", AfterReject::kClose);
    return;
  }
  if (pdu.frame.opcode == static_cast<uint8_t>(Opcode::kScsiCommand)) {
    OnCommand(pdu, data);
    return;
  }
  client_->ControlNotify({pdu.frame, pdu.bhs, pdu.ahs, data});
}

// Tells the session of a SCSI Command, and returns its task, if there is one.
// `here`: its immediate data, unless they are still arriving.
TaskSlot StreamTargetDatamover::OnCommand(const StreamReceiver::Pdu& pdu,
                                          absl::Span<const uint8_t> here) {
  CommandLengths lengths;
  const TaskSlot slot = client_->CommandNotify(pdu, &lengths);
  if (slot == kNoTask) return kNoTask;
  if (!BeginTask(slot, pdu, lengths)) {
    client_->TaskNotReady(slot);
    return kNoTask;
  }
  Task& task = At(slot);
  if (here.empty()) {
    client_->TaskReady(slot);
    return slot;
  }
  task.TakeInHand(here);
  client_->TaskReady(slot);
  copied_bytes_ += staging_.Keep(slot, &task, client_);
  return slot;
}

// False: there is no memory for it.
bool StreamTargetDatamover::BeginTask(TaskSlot slot,
                                      const StreamReceiver::Pdu& pdu,
                                      const CommandLengths& lengths) {
  assert(slot < max_tasks_);
  if (!tasks_.Reserve(slot, staging_.blocks()->budget())) return false;
  Task& task = At(slot);
  assert(!task.live);
  task.initiator_task_tag = pdu.frame.initiator_task_tag;
  task.lun = Load64(pdu.bhs + kLunOffset);
  task.live = true;
  task.deallocated = false;
  task.references = 0;
  task.input_sn = 0;
  task.burst_used = 0;
  task.lost_puts = 0;
  task.burst_head = task.burst_count = 0;
  const uint32_t immediate = pdu.frame.data_segment_length;
  task.requested = immediate;
  const DataFault* const fault =
      task.Begin(parameters_, lengths.data_out, pdu.frame.final, immediate);
  if (fault != nullptr) DataError(slot, *fault);
  return true;
}

StreamReceiver::Sink StreamTargetDatamover::OnPduStart(
    const StreamReceiver::Pdu& pdu) {
  StreamReceiver::Sink sink;
  const auto opcode = static_cast<Opcode>(pdu.frame.opcode);
  incoming_ = Incoming();
  Incoming in;
  const bool carries_data =
      opcode == Opcode::kScsiCommand || opcode == Opcode::kScsiDataOut;
  if (!carries_data) {
    // Not memory that the peer may size at will.
    if (pdu.frame.data_segment_length <= options_.max_control_data_bytes)
      return sink;
    client_->RejectNotify(RejectPdu::kInvalidPduField, pdu.bhs,
                          "data segment longer than this PDU can need",
                          AfterReject::kClose);
    sink.kind = StreamReceiver::Sink::kDiscard;
    return sink;
  }
  // With data digests nothing touches the medium, and no command starts, before
  // its data were verified.
  if (parameters_.data_digest == Digest::kCrc32c) return sink;
  if (Held(pdu)) [[unlikely]] {
    return sink;
  }
  bool wanted = false;
  if (opcode == Opcode::kScsiCommand) {
    in.task = OnCommand(pdu, {});
    in.length = pdu.frame.data_segment_length;
    wanted = in.task != kNoTask && WantsData(in.task);
  } else {
    wanted = MatchDataOut(pdu, &in);
  }
  sink.kind = StreamReceiver::Sink::kDiscard;
  uint8_t* const place = wanted ? PlaceOf(&in) : nullptr;
  if (place == nullptr) return sink;
  incoming_ = in;
  place_ = {place, in.length};
  sink.kind = StreamReceiver::Sink::kPlace;
  sink.iov = &place_;
  sink.iov_count = 1;
  return sink;
}

void StreamTargetDatamover::OnPlaced(const StreamReceiver::Pdu&,
                                     StreamReceiver::DigestError) {
  const Incoming in = incoming_;
  incoming_ = Incoming();
  if (in.task != kNoTask) Landed(in);
}

void StreamTargetDatamover::SayOutOfMemory() {
  if (said_out_of_memory_ || terminated_) return;
  said_out_of_memory_ = true;
  client_->ConnectionTerminateNotify(
      absl::ResourceExhaustedError("no memory for a copy of what is sent"));
}

void StreamTargetDatamover::OnFramingError(const std::string& why) {
  client_->ConnectionTerminateNotify(absl::InvalidArgumentError(why));
}

// Finds the task of a Data-Out and checks it against what is due. False when
// the data are to be dropped; whoever must know was told.
bool StreamTargetDatamover::MatchDataOut(const StreamReceiver::Pdu& pdu,
                                         Incoming* in) {
  ScsiDataOutPdu data_out;
  const DecodeResult decoded = Decode(pdu.bhs, &data_out);
  if (!decoded.ok()) {
    client_->RejectNotify(RejectPdu::kInvalidPduField, pdu.bhs, decoded.field,
                          AfterReject::kClose);
    return false;
  }
  in->offset = data_out.buffer_offset;
  in->length = pdu.frame.data_segment_length;
  return data_out.target_transfer_tag == kReservedTag
             ? MatchUnsolicited(data_out, in)
             : MatchSolicited(pdu, data_out, in);
}

// Data-Out without an R2T (RFC 7143 section 11.7.4): as much as
// FirstBurstLength lets come (DataOut::TakeUnsolicited).
bool StreamTargetDatamover::MatchUnsolicited(const ScsiDataOutPdu& data_out,
                                             Incoming* in) {
  in->task = client_->FindTask(data_out.initiator_task_tag);
  // No such task: it ended early, and the initiator could not know.
  if (in->task == kNoTask || !WantsData(in->task)) return false;
  Task& task = At(in->task);
  const DataFault* const fault = task.TakeUnsolicited(data_out, in->length);
  if (fault != nullptr) {
    DataError(in->task, *fault);
    return false;
  }
  task.requested = in->offset + in->length;
  return true;
}

// Data-Out that an R2T asked for: its tag, its DataSNs from zero (sections
// 11.7.4 and 11.7.5), and all of what was asked for (section 11.8.4).
bool StreamTargetDatamover::MatchSolicited(const StreamReceiver::Pdu& pdu,
                                           const ScsiDataOutPdu& data_out,
                                           Incoming* in) {
  in->task = SlotOfTag(data_out.target_transfer_tag);
  const auto generation =
      static_cast<uint16_t>(data_out.target_transfer_tag >> 16);
  if (in->task >= max_tasks_ || !tasks_.Has(in->task)) {
    client_->RejectNotify(RejectPdu::kInvalidPduField, pdu.bhs,
                          "unknown transfer tag", AfterReject::kGoOn);
    return false;
  }
  Task& task = At(in->task);
  const bool due = task.live && task.burst_count > 0 &&
                   task.bursts[task.burst_head].target_transfer_tag ==
                       data_out.target_transfer_tag;
  if (!due) {
    // Tags count up per slot: an old one belongs to a task that ended early.
    const auto age = static_cast<uint16_t>(task.tag_generation - generation);
    const bool later_burst = task.live && age > 0 && age <= task.burst_count;
    if (later_burst) {
      DataError(in->task, data_fault::kR2tsOutOfOrder);
    } else if (age == 0 || age > kStaleGenerations) {
      client_->RejectNotify(RejectPdu::kInvalidPduField, pdu.bhs,
                            "unknown transfer tag", AfterReject::kGoOn);
    }
    return false;
  }
  if (data_out.initiator_task_tag != task.initiator_task_tag) {
    client_->RejectNotify(RejectPdu::kInvalidPduField, pdu.bhs,
                          "transfer tag of another task", AfterReject::kGoOn);
    return false;
  }
  Burst& burst = task.bursts[task.burst_head];
  const uint64_t end = uint64_t{in->offset} + in->length;
  const DataFault* fault = task.CheckOrder(data_out, burst.next_data_sn);
  if (fault == nullptr &&
      (end > burst.end || data_out.final != (end == burst.end))) {
    fault = &data_fault::kNotWhatR2tAskedFor;
  }
  if (fault != nullptr) {
    DataError(in->task, *fault);
    return false;
  }
  ++burst.next_data_sn;
  if (end == burst.end) {
    task.burst_head = (task.burst_head + 1) % kMaxBursts;
    --task.burst_count;
  }
  return true;
}

void StreamTargetDatamover::DataError(TaskSlot slot, const DataFault& fault) {
  Task& task = At(slot);
  task.data_failed = true;
  task.unsolicited_open = false;
  task.burst_count = 0;
  staging_.End(&task);
  client_->TaskDataError(slot, fault);
}

// Null: there is no memory, and the task has failed.
uint8_t* StreamTargetDatamover::PlaceOf(Incoming* in) {
  Task& task = At(in->task);
  uint8_t* const place = task.PlaceOfNext(in->length);
  in->direct = place != nullptr;
  if (in->direct) return place;
  if (!staging_.Begin(in->task, &task, client_)) return nullptr;
  return task.staging.get() + in->offset;
}

void StreamTargetDatamover::Landed(const Incoming& in) {
  Task& task = At(in.task);
  if (!task.live || task.data_failed) return;
  task.received = in.offset + in.length;
  if (in.direct) task.placed = task.received;
  if (!task.getting) return;
  DeliverStaged(in.task);
  if (task.placed >= task.get_end) {
    CompleteGet(in.task, DataOutcome::kMoved);
  } else {
    RequestMore(in.task);
  }
}

void StreamTargetDatamover::DeliverStaged(TaskSlot slot) {
  Task& task = At(slot);
  const uint32_t bytes = task.PlaceReceived();
  if (bytes == 0) return;
  copied_bytes_ += bytes;
  // The rest of the last PDU may still be on its way into it.
  const bool filling = incoming_.task == slot;
  if (task.placed == task.received && !task.unsolicited_open && !filling)
    staging_.End(&task);
}

Progress StreamTargetDatamover::GetData(TaskSlot slot, uint32_t offset,
                                        absl::Span<uint8_t> to) {
  Task& task = At(slot);
  assert(task.live);
  if (to.empty()) return Progress::kDone;
  task.BeginGet(offset, to);
  DeliverStaged(slot);
  if (task.placed >= task.get_end) {
    task.getting = false;
    return Progress::kDone;
  }
  RequestMore(slot);
  return Progress::kPending;
}

// As many R2Ts as MaxOutstandingR2T allows, each of at most MaxBurstLength (RFC
// 7143 sections 13.17 and 13.13).
void StreamTargetDatamover::RequestMore(TaskSlot slot) {
  Task& task = At(slot);
  if (task.unsolicited_open || task.data_failed) return;
  while (task.burst_count < parameters_.max_outstanding_r2t &&
         task.requested < task.get_end) {
    SendR2t(
        slot, &task,
        std::min(parameters_.max_burst_length, task.get_end - task.requested));
  }
}

// RFC 7143 section 11.8.
void StreamTargetDatamover::SendR2t(TaskSlot slot, Task* task,
                                    uint32_t length) {
  R2tPdu r2t;
  r2t.lun = task->lun;
  r2t.initiator_task_tag = task->initiator_task_tag;
  r2t.target_transfer_tag = MakeTag(slot, task->tag_generation++);
  r2t.stat_sn = client_->CurrentStatSn();
  client_->CurrentWindow(&r2t.exp_cmd_sn, &r2t.max_cmd_sn);
  r2t.r2t_sn = task->input_sn++;
  r2t.buffer_offset = task->requested;
  r2t.desired_data_transfer_length = length;
  Encode(r2t, send_queue_.Begin());
  send_queue_.Commit({}, kNoTask, SendQueue::Notice::kNone);
  task->requested += length;
  const uint32_t at = (task->burst_head + task->burst_count++) % kMaxBursts;
  task->bursts[at] = {r2t.target_transfer_tag, task->requested, 0};
}

void StreamTargetDatamover::CompleteGet(TaskSlot slot, DataOutcome outcome) {
  At(slot).getting = false;
  client_->DataCompletionNotify(slot, DataOperation::kGet, outcome);
}

}  // namespace skiff::protocol
