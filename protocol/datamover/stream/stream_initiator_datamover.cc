#include "protocol/datamover/stream/stream_initiator_datamover.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace skiff::protocol {

StreamInitiatorDatamover::StreamInitiatorDatamover(
    StreamBuffers* buffers, const StreamDatamoverOptions& options)
    : options_(options),
      receiver_(buffers, this),
      send_queue_(this, buffers->blocks()) {}

void StreamInitiatorDatamover::Cursor::Seek(const iovec* list, int entries,
                                            size_t offset) {
  if (offset < begin) Reset(list, entries);
  while (count > 1 && offset - begin >= iov->iov_len) {
    begin += iov->iov_len;
    ++iov;
    --count;
  }
}

void StreamInitiatorDatamover::SetClient(InitiatorDatamoverClient* client,
                                         uint32_t max_tasks) {
  assert(max_tasks <= kMaxTaskSlots);
  client_ = client;
  tasks_.resize(max_tasks);
}

void StreamInitiatorDatamover::EnableDatamover(const Parameters& parameters) {
  parameters_ = parameters;
  enabled_ = true;
  send_queue_.SetDigests(parameters.header_digest, parameters.data_digest);
  receiver_.SetDigests(parameters.header_digest, parameters.data_digest);
  receiver_.SetMaxDataSegmentLength(
      parameters.initiator_max_recv_data_segment_length);
}

// --- Sending.

void StreamInitiatorDatamover::SendControl(const uint8_t* bhs,
                                           absl::Span<const uint8_t> data) {
  if (terminated_) return;
  send_queue_.AppendCopy(bhs, {}, data, kNoTask, SendQueue::Notice::kNone);
}

absl::Status StreamInitiatorDatamover::SendCommand(
    const OutgoingCommand& command) {
  if (terminated_) return absl::OkStatus();
  const TaskSlot slot = command.task;
  Task& task = tasks_[slot];
  Begin(command, &task);
  // Immediate and unsolicited data together are bounded by FirstBurstLength
  // (RFC 7143 sections 13.10, 13.11 and 13.14).
  const uint32_t unsolicited =
      std::min(task.data_out_length, parameters_.first_burst_length);
  const uint32_t immediate =
      parameters_.immediate_data
          ? std::min(unsolicited,
                     parameters_.target_max_recv_data_segment_length)
          : 0;
  const bool more = !parameters_.initial_r2t && immediate < unsolicited;

  ScsiCommandPdu pdu = *command.pdu;
  pdu.final = !more;
  Encode(pdu, send_queue_.Begin());
  std::array<uint8_t, kMaxAhsBytes> ahs;
  size_t ahs_size = 0;
  if (!command.ahs.extended_cdb.empty() || command.ahs.has_bidi_read_length) {
    ahs_size = EncodeAhs(command.ahs, ahs.data());
  }
  const bool queued = send_queue_.CommitPieces(
      {ahs.data(), ahs_size}, task.data_out, task.data_out_count, 0, immediate,
      slot, SendQueue::Notice::kTask);
  if (!queued) task.references = 0;  // The connection ends.
  task.data_out_asked = more ? unsolicited : immediate;
  if (more) PushSequence(slot, {kReservedTag, immediate, unsolicited, 0});
  return absl::OkStatus();
}

inline void StreamInitiatorDatamover::Begin(const OutgoingCommand& command,
                                            Task* task) {
  assert(!task->live);
  task->initiator_task_tag = command.pdu->initiator_task_tag;
  task->lun = command.pdu->lun;
  task->live = true;
  task->command_sent = false;
  task->references = 1;
  task->data_in = command.data_in;
  task->data_in_count = command.data_in_count;
  task->data_in_length = command.data_in_length;
  task->received = 0;
  task->data_sn = 0;
  task->in.Reset(task->data_in, task->data_in_count);
  task->data_out = command.data_out;
  task->data_out_count = command.data_out_count;
  task->data_out_length = command.data_out_length;
  task->r2t_sn = 0;
  task->outstanding_r2ts = 0;
  task->data_out_sent = 0;
  task->data_out_repeated = 0;
  task->out.Reset(task->data_out, task->data_out_count);
  task->sequence_head = task->sequence_count = 0;
}

void StreamInitiatorDatamover::PushSequence(TaskSlot slot,
                                            const Sequence& sequence) {
  Task& task = tasks_[slot];
  assert(task.sequence_count < kMaxSequences);
  task.sequences[(task.sequence_head + task.sequence_count) % kMaxSequences] =
      sequence;
  ++task.sequence_count;
  if (task.sending) return;
  task.sending = true;
  task.next_sending = kNoTask;
  (sending_tail_ != kNoTask ? tasks_[sending_tail_].next_sending
                            : sending_head_) = slot;
  sending_tail_ = slot;
}

absl::Span<const iovec> StreamInitiatorDatamover::SendSpans() {
  if (send_queue_.out_of_memory()) [[unlikely]] {
    SayOutOfMemory();
    return {};
  }
  while (sending_head_ != kNoTask &&
         data_out_queued_ < options_.data_out_quantum_bytes) {
    const TaskSlot slot = sending_head_;
    Task& task = tasks_[slot];
    SendDataOut(slot);
    // The next PDU is another task's, if there is one.
    if (task.sequence_count > 0 && sending_tail_ == slot) continue;
    sending_head_ = task.next_sending;
    if (sending_head_ == kNoTask) sending_tail_ = kNoTask;
    task.sending = false;
    if (task.sequence_count == 0) continue;
    task.sending = true;
    task.next_sending = kNoTask;
    tasks_[sending_tail_].next_sending = slot;
    sending_tail_ = slot;
  }
  return send_queue_.Spans();
}

// One PDU of the task's first sequence (RFC 7143 section 11.7).
void StreamInitiatorDatamover::SendDataOut(TaskSlot slot) {
  Task& task = tasks_[slot];
  Sequence& sequence = task.sequences[task.sequence_head];
  const bool solicited = sequence.target_transfer_tag != kReservedTag;
  const auto limit = static_cast<uint32_t>(
      std::min<size_t>(parameters_.target_max_recv_data_segment_length,
                       std::max<size_t>(options_.data_out_quantum_bytes, 512)));
  const uint32_t length = std::min(sequence.end - sequence.offset, limit);

  ScsiDataOutPdu pdu;
  pdu.final = length == sequence.end - sequence.offset;
  pdu.lun = solicited ? task.lun : 0;  // Section 11.7.4.
  pdu.initiator_task_tag = task.initiator_task_tag;
  pdu.target_transfer_tag = sequence.target_transfer_tag;
  pdu.exp_stat_sn = client_->CurrentExpStatSn();
  pdu.data_sn = sequence.data_sn++;
  pdu.buffer_offset = sequence.offset;
  Encode(pdu, send_queue_.Begin());
  task.out.Seek(task.data_out, task.data_out_count, sequence.offset);
  if (send_queue_.CommitPieces({}, task.out.iov, task.out.count,
                               sequence.offset - task.out.begin, length, slot,
                               SendQueue::Notice::kTask)) {
    ++task.references;
    data_out_queued_ += length;
  }
  sequence.offset += length;
  if (!pdu.final) return;
  if (solicited) --task.outstanding_r2ts;
  task.sequence_head = (task.sequence_head + 1) % kMaxSequences;
  --task.sequence_count;
}

void StreamInitiatorDatamover::OnSent(TaskSlot slot,
                                      SendQueue::Notice /*notice*/,
                                      uint32_t bytes, bool sent) {
  Task& task = tasks_[slot];
  --task.references;
  if (sent) task.data_out_sent += bytes;
  // The command itself is the first of its PDUs to leave.
  if (task.command_sent) {
    data_out_queued_ -= bytes;
  } else {
    task.command_sent = true;
  }
}

void StreamInitiatorDatamover::StopSending(TaskSlot slot) {
  Task& task = tasks_[slot];
  task.sequence_count = 0;
  if (!task.sending) return;
  task.sending = false;
  TaskSlot before = kNoTask;
  TaskSlot at = sending_head_;
  while (at != slot) {
    before = at;
    at = tasks_[at].next_sending;
  }
  (before != kNoTask ? tasks_[before].next_sending : sending_head_) =
      task.next_sending;
  if (sending_tail_ == slot) sending_tail_ = before;
}

// --- The end of tasks and connections.

Progress StreamInitiatorDatamover::DeallocateTaskResources(TaskSlot slot) {
  Task& task = tasks_[slot];
  assert(task.live);
  StopSending(slot);
  if (incoming_.task == slot) {
    incoming_.task = kNoTask;
    receiver_.AbandonPlacement();
  }
  if (task.references > 0) send_queue_.Cancel(slot);
  task.live = false;
  return Progress::kDone;
}

void StreamInitiatorDatamover::ConnectionTerminate() {
  if (terminated_) return;
  terminated_ = true;
  receiver_.Stop();
  sending_head_ = sending_tail_ = kNoTask;
  send_queue_.Clear();
  for (Task& task : tasks_) {
    task.live = false;
    task.sending = false;
    task.sequence_count = 0;
  }
  incoming_.task = kNoTask;
}

std::unique_ptr<StreamDatamoverOf<InitiatorDatamover>>
MakeInitiatorStreamDatamover(StreamBuffers* buffers,
                             const StreamDatamoverOptions& options) {
  return std::make_unique<StreamInitiatorDatamover>(buffers, options);
}

}  // namespace skiff::protocol
