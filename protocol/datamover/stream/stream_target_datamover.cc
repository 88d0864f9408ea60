#include "protocol/datamover/stream/stream_target_datamover.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "protocol/codec/endian.h"

namespace skiff::protocol {
namespace {

constexpr size_t kLunOffset = 8;

// Transfer tags this far behind the newest belong to a task that ended early.
constexpr uint16_t kStaleGenerations = 1024;

// Copies up to this size are made whatever the budget says.
constexpr size_t kSmallCopy = 4096;

}  // namespace

StreamTargetDatamover::StreamTargetDatamover(
    StreamBuffers* buffers, const StreamDatamoverOptions& options)
    : options_(options),
      receiver_(buffers, this),
      send_queue_(this, buffers->blocks()),
      staging_(buffers->blocks()) {}

StreamTargetDatamover::~StreamTargetDatamover() { ConnectionTerminate(); }

void StreamTargetDatamover::SetClient(TargetDatamoverClient* client,
                                      uint32_t max_tasks) {
  assert(max_tasks <= kMaxTaskSlots);
  client_ = client;
  max_tasks_ = max_tasks;
  tasks_.SetMaxTasks(max_tasks);
}

void StreamTargetDatamover::EnableDatamover(const Parameters& parameters) {
  parameters_ = parameters;
  parameters_.max_outstanding_r2t =
      std::min(parameters.max_outstanding_r2t, kMaxBursts);
  send_queue_.SetDigests(parameters.header_digest, parameters.data_digest);
  receiver_.SetDigests(parameters.header_digest, parameters.data_digest);
  receiver_.SetMaxDataSegmentLength(
      parameters.target_max_recv_data_segment_length);
}

void StreamTargetDatamover::SendControl(const uint8_t* bhs,
                                        absl::Span<const uint8_t> data) {
  if (terminated_) return;
  send_queue_.AppendCopy(bhs, {}, data, kNoTask, SendQueue::Notice::kNone);
}

// --- Receiving.

absl::Span<const iovec> StreamTargetDatamover::ReceiveSpans() {
  // One read may hold many commands, and their answers be far more than the
  // limit: what came with them waits too.
  if (!congested()) receiver_.Resume();
  if (congested()) return {};
  return receiver_.Spans();
}

void StreamTargetDatamover::BytesReceived(size_t n) {
  receiver_.BytesReceived(n);
}

void StreamTargetDatamover::OnPdu(const StreamReceiver::Pdu& pdu,
                                  absl::Span<const uint8_t> data,
                                  StreamReceiver::DigestError error) {
  if (pdu.frame.opcode != static_cast<uint8_t>(Opcode::kScsiDataOut)) {
    HandleControl(pdu, data, error);
    return;
  }
  Incoming in;
  if (!MatchDataOut(pdu, &in)) return;
  if (error != StreamReceiver::DigestError::kNone) {
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
    // A command without its CmdSN leaves a hole that error recovery level 0
    // cannot fill.
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
  const AcceptedCommand command =
      client_->CommandNotify({pdu.frame, pdu.bhs, pdu.ahs, {}});
  const TaskSlot slot = command.task;
  if (slot == kNoTask) return kNoTask;
  if (!BeginTask(pdu, command)) {
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
bool StreamTargetDatamover::BeginTask(const StreamReceiver::Pdu& pdu,
                                      const AcceptedCommand& command) {
  const TaskSlot slot = command.task;
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
  const DataFault* const fault = task.Begin(
      parameters_, command.data_out_length, pdu.frame.final, immediate);
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

// --- Sending.

void StreamTargetDatamover::PutData(TaskSlot slot, uint32_t offset,
                                    absl::Span<const uint8_t> from,
                                    bool notify) {
  if (!MayCopy(from.size())) {
    if (notify) {
      ++At(slot).references;
      ++At(slot).lost_puts;
    }
    return client_->TaskRefused(slot);
  }
  AppendDataIn(slot, offset, from,
               notify ? SendQueue::Notice::kPut : SendQueue::Notice::kTask,
               nullptr);
}

// What is sent under a data digest is copied, and copies of what peers do not
// take are theirs to pay for. Small ones are not worth a refusal: the number of
// commands bounds them.
bool StreamTargetDatamover::MayCopy(size_t bytes) {
  if (parameters_.data_digest != Digest::kCrc32c || bytes <= kSmallCopy ||
      terminated_) {
    return true;
  }
  return staging_.blocks()->HasRoom(bytes,
                                    send_queue_.bytes() + staging_.bytes());
}

bool StreamTargetDatamover::PutDataAndResponse(
    TaskSlot slot, uint32_t offset, absl::Span<const uint8_t> from,
    const ScsiResponsePdu& response, absl::Span<const uint8_t> sense) {
  // Only good status may travel in a Data-In (RFC 7143 section 11.7.3).
  const bool merge =
      !from.empty() && response.response == ScsiResponsePdu::kCompleted &&
      response.status == 0 && sense.empty() && !response.bidi_read_overflow &&
      !response.bidi_read_underflow;
  if (!MayCopy(from.size())) {
    client_->TaskRefused(slot);
    return false;
  }
  if (!from.empty()) {
    AppendDataIn(slot, offset, from, SendQueue::Notice::kTask,
                 merge ? &response : nullptr);
  }
  if (!merge) AppendResponse(slot, response, sense);
  return true;
}

// Sequences of at most MaxBurstLength, of PDUs that the initiator can receive
// (RFC 7143 sections 11.7.1, 13.12 and 13.13).
void StreamTargetDatamover::AppendDataIn(TaskSlot slot, uint32_t offset,
                                         absl::Span<const uint8_t> from,
                                         SendQueue::Notice notice,
                                         const ScsiResponsePdu* response) {
  Task& task = At(slot);
  ScsiDataInPdu pdu;
  pdu.lun = task.lun;
  pdu.initiator_task_tag = task.initiator_task_tag;
  client_->CurrentWindow(&pdu.exp_cmd_sn, &pdu.max_cmd_sn);
  while (!from.empty()) {
    const uint32_t burst_left = parameters_.max_burst_length - task.burst_used;
    const size_t n =
        std::min({from.size(), size_t{burst_left},
                  size_t{parameters_.initiator_max_recv_data_segment_length}});
    const bool last = n == from.size();
    task.burst_used += static_cast<uint32_t>(n);
    pdu.final = last || n == burst_left;
    if (pdu.final) task.burst_used = 0;
    pdu.data_sn = task.input_sn++;
    pdu.buffer_offset = offset;
    if (last && response != nullptr) {
      pdu.has_status = true;
      pdu.status = response->status;
      pdu.stat_sn = response->stat_sn;
      pdu.overflow = response->overflow;
      pdu.underflow = response->underflow;
      pdu.residual_count = response->residual_count;
    }
    Encode(pdu, send_queue_.Begin());
    const SendQueue::Notice due = last ? notice : SendQueue::Notice::kNone;
    const bool queued = send_queue_.Commit(from.first(n), slot, due);
    // Without memory the connection ends, and tells of the loss then.
    if (due == SendQueue::Notice::kPut ||
        (due != SendQueue::Notice::kNone && queued)) {
      ++task.references;
      if (!queued) ++task.lost_puts;
    }
    offset += static_cast<uint32_t>(n);
    from.remove_prefix(n);
  }
}

void StreamTargetDatamover::AppendResponse(TaskSlot slot,
                                           const ScsiResponsePdu& response,
                                           absl::Span<const uint8_t> sense) {
  Task& task = At(slot);
  ScsiResponsePdu pdu = response;
  pdu.exp_data_sn =
      response.response == ScsiResponsePdu::kCompleted ? task.input_sn : 0;
  if (sense.empty()) {
    Encode(pdu, send_queue_.Begin());
    if (send_queue_.Commit({}, slot, SendQueue::Notice::kTask)) {
      ++task.references;
    }
    return;
  }
  // SenseLength, then the sense data (RFC 7143 section 11.4.7).
  std::array<uint8_t, 2 + 252> data;
  const size_t size = std::min<size_t>(sense.size(), 252);
  data[0] = 0;
  data[1] = static_cast<uint8_t>(size);
  std::memcpy(data.data() + 2, sense.data(), size);
  uint8_t bhs[kBhsSize];
  Encode(pdu, bhs);
  if (send_queue_.AppendCopy(bhs, {}, {data.data(), 2 + size}, slot,
                             SendQueue::Notice::kTask)) {
    ++task.references;
  }
}

void StreamTargetDatamover::OnSent(TaskSlot slot, SendQueue::Notice notice,
                                   uint32_t, bool sent) {
  if (notice == SendQueue::Notice::kPut) {
    client_->DataCompletionNotify(
        slot, DataOperation::kPut,
        sent ? DataOutcome::kMoved : DataOutcome::kLost);
  }
  Unreference(slot);
}

void StreamTargetDatamover::TellLostPuts(TaskSlot slot) {
  for (Task& task = At(slot); task.lost_puts > 0;) {
    --task.lost_puts;
    client_->DataCompletionNotify(slot, DataOperation::kPut,
                                  DataOutcome::kLost);
    Unreference(slot);
  }
}

void StreamTargetDatamover::Unreference(TaskSlot slot) {
  Task& task = At(slot);
  assert(task.references > 0);
  if (--task.references > 0 || !task.deallocated) return;
  task.live = false;
  client_->TaskDone(slot);
}

// --- Ending.

void StreamTargetDatamover::CancelTransfers(TaskSlot slot) {
  Task& task = At(slot);
  task.data_failed = true;  // What still arrives for it is dropped.
  task.unsolicited_open = false;
  task.burst_count = 0;
  if (incoming_.task == slot) {
    receiver_.AbandonPlacement();
    incoming_.task = kNoTask;
  }
  send_queue_.Cancel(slot);
  TellLostPuts(slot);
  if (task.getting) CompleteGet(slot, DataOutcome::kLost);
}

Progress StreamTargetDatamover::DeallocateTaskResources(TaskSlot slot) {
  Task& task = At(slot);
  assert(task.live && !task.deallocated && !task.getting);
  task.deallocated = true;
  task.unsolicited_open = false;
  task.burst_count = 0;
  if (incoming_.task == slot) {
    receiver_.AbandonPlacement();
    incoming_.task = kNoTask;
  }
  task.in_hand = nullptr;
  staging_.End(&task);
  task.live = task.references > 0;
  return task.live ? Progress::kPending : Progress::kDone;
}

void StreamTargetDatamover::ConnectionTerminate() {
  if (terminated_) return;
  terminated_ = true;
  receiver_.AbandonPlacement();
  receiver_.Stop();
  incoming_.task = kNoTask;
  send_queue_.Clear();
  for (TaskSlot slot = 0; slot < max_tasks_; ++slot) {
    if (!Live(slot)) continue;
    TellLostPuts(slot);
    if (Live(slot) && At(slot).getting) CompleteGet(slot, DataOutcome::kLost);
  }
}

std::unique_ptr<StreamDatamoverOf<TargetDatamover>> MakeTargetStreamDatamover(
    StreamBuffers* buffers, const StreamDatamoverOptions& options) {
  return std::make_unique<StreamTargetDatamover>(buffers, options);
}

}  // namespace skiff::protocol
