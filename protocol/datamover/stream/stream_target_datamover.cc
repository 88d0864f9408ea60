#include "protocol/datamover/stream/stream_target_datamover.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace skiff::protocol {
namespace {

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

// Goes on with the tasks where what it tells has thrown.
void StreamTargetDatamover::ConnectionTerminate() {
  if (!std::exchange(terminated_, true)) {
    receiver_.AbandonPlacement();
    receiver_.Stop();
    incoming_.task = kNoTask;
    send_queue_.Clear();
  }
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
