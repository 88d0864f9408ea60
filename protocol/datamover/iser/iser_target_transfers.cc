// Where the target's data go to and come from.

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <memory>

#include "protocol/datamover/iser/iser_target_datamover.h"

namespace skiff::protocol {

namespace {

constexpr size_t kMaxSense = 252;

}  // namespace

// --- Data-out.

// The next unsolicited data of the task: to where they are wanted, or staged.
// False: there is no memory, and the task has failed.
bool IserTargetDatamover::Store(TaskSlot slot, absl::Span<const uint8_t> data) {
  if (data.empty()) return true;
  Task* const task = &At(slot);
  const auto end = static_cast<uint32_t>(task->received + data.size());
  uint8_t* const place = task->PlaceOfNext(data.size());
  if (place != nullptr) {
    std::memcpy(place, data.data(), data.size());
    task->placed = end;
  } else {
    if (!staging_.Begin(slot, task, client_)) return false;
    std::memcpy(task->staging.get() + task->received, data.data(), data.size());
  }
  channel_.counters().copied_bytes += data.size();
  task->received = end;
  return true;
}

void IserTargetDatamover::Land(TaskSlot slot, absl::Span<const uint8_t> data) {
  Task& task = At(slot);
  if (!Store(slot, data) || !task.getting) return;
  PlaceStaged(&task);
  if (ReadRest(slot)) EndGet(slot);
}

void IserTargetDatamover::PlaceStaged(Task* task) {
  const uint32_t bytes = task->PlaceReceived();
  if (bytes == 0) return;
  channel_.counters().copied_bytes += bytes;
  if (task->placed == task->received && !task->unsolicited_open) {
    staging_.End(task);
  }
}

Progress IserTargetDatamover::GetData(TaskSlot slot, uint32_t offset,
                                      absl::Span<uint8_t> to) {
  Task& task = At(slot);
  assert(task.live);
  if (to.empty()) return Progress::kDone;
  task.BeginGet(offset, to);
  task.get_failed = false;
  PlaceStaged(&task);
  if (!ReadRest(slot)) return Progress::kPending;
  task.getting = false;
  return Progress::kDone;
}

// Reads what was not sent unsolicited, as far as the task's share of Reads
// goes: what is an R2T over a byte stream (RFC 7145 section 7.3.6). True if
// nothing is missing any more.
bool IserTargetDatamover::ReadRest(TaskSlot slot) {
  Task& task = At(slot);
  if (task.unsolicited_open || task.data_failed) return false;
  if (task.placed >= task.get_end) return task.reads == 0;
  // Deployed initiators advertise the address of the first byte that they do
  // not send, RFC 7145's that of the whole buffer (docs/iser.md).
  const bool whole =
      parameters_.iser.write_base() == IserWriteBase::kWholeBuffer;
  const uint64_t base =
      task.buffers.write_base_offset - (whole ? 0 : task.received);
  while (task.placed < task.get_end &&
         task.reads < channel_.options().max_reads_of_task) {
    const auto size = static_cast<uint32_t>(std::min<size_t>(
        task.get_end - task.placed, channel_.max_rdma_bytes()));
    uint8_t* const to = task.to + (task.placed - task.get_begin);
    const absl::Status queued =
        channel_.Read(slot, task.placed, {to, size}, get_access_,
                      {base + task.placed, {task.buffers.write_stag}});
    if (!queued.ok()) {
      MemoryError(slot, queued);
      return false;
    }
    ++task.references;
    ++task.reads;
    task.placed += size;
  }
  return false;
}

void IserTargetDatamover::EndGet(TaskSlot slot) {
  Task& task = At(slot);
  task.getting = false;
  client_->DataCompletionNotify(
      slot, DataOperation::kGet,
      task.get_failed ? DataOutcome::kLost : DataOutcome::kMoved);
}

// --- Data-in and responses.

void IserTargetDatamover::PutData(TaskSlot slot, uint32_t offset,
                                  absl::Span<const uint8_t> from, bool notify) {
  WriteData(slot, offset, from, notify);
}

// What is Data-In over a byte stream (RFC 7145 section 7.3.5). False if the
// device cannot use the memory.
bool IserTargetDatamover::WriteData(TaskSlot slot, uint32_t offset,
                                    absl::Span<const uint8_t> from,
                                    bool notify) {
  if (channel_.terminated()) return true;
  Task& task = At(slot);
  assert(task.live);
  if (channel_.broken()) {
    if (notify) ++task.lost_puts;
    return true;
  }
  assert(from.empty() || task.buffers.read_stag_valid);
  while (!from.empty()) {
    const size_t size = std::min(from.size(), channel_.max_rdma_bytes());
    const bool last = size == from.size();
    const absl::Status queued = channel_.Write(
        slot, last && notify ? IserWork::kNotifyPut : IserWork::kPut, offset,
        from.first(size),
        {task.buffers.read_base_offset + offset, {task.buffers.read_stag}});
    if (!queued.ok()) {
      if (notify) ++task.lost_puts;
      MemoryError(slot, queued);
      return false;
    }
    ++task.references;
    ++task.writes;
    offset += static_cast<uint32_t>(size);
    from.remove_prefix(size);
  }
  return true;
}

bool IserTargetDatamover::PutDataAndResponse(TaskSlot slot, uint32_t offset,
                                             absl::Span<const uint8_t> from,
                                             const ScsiResponsePdu& response,
                                             absl::Span<const uint8_t> sense) {
  if (channel_.terminated()) return true;
  // Else the response would claim data that never come.
  if (!WriteData(slot, offset, from, /*notify=*/false)) return false;
  SendResponse(slot, response, sense);
  return true;
}

inline void IserTargetDatamover::SendResponse(TaskSlot slot,
                                              const ScsiResponsePdu& response,
                                              absl::Span<const uint8_t> sense) {
  Task& task = At(slot);
  // Of a bidirectional command's two keys, the initiator invalidates the other
  // one (RFC 7145 section 7.3.2).
  const uint32_t* invalidated = nullptr;
  if (channel_.options().remote_invalidation) {
    if (task.buffers.read_stag_valid) {
      invalidated = &task.buffers.read_stag;
    } else if (task.buffers.write_stag_valid) {
      invalidated = &task.buffers.write_stag;
    }
  }
  const bool queued = sense.empty()
                          ? channel_.SendResponse(response, slot, invalidated)
                          : SendSense(slot, response, sense, invalidated);
  if (queued) ++task.references;
}

bool IserTargetDatamover::SendSense(TaskSlot slot,
                                    const ScsiResponsePdu& response,
                                    absl::Span<const uint8_t> sense,
                                    const uint32_t* invalidated) {
  // SenseLength, then the sense data (RFC 7143 section 11.4.7), as far as the
  // initiator's receives go.
  std::array<uint8_t, 2 + kMaxSense> data;
  const size_t room = std::min<size_t>(
      data.size(), parameters_.initiator_max_recv_data_segment_length);
  const size_t size = std::min(sense.size(), room - 2);
  data[0] = 0;
  data[1] = static_cast<uint8_t>(size);
  std::copy_n(sense.begin(), size, data.begin() + 2);
  IserOutgoing message;
  message.data = {data.data(), 2 + size};
  message.task = slot;
  message.invalidates = invalidated != nullptr;
  if (message.invalidates) message.invalidated_stag = *invalidated;
  return channel_.Send(response, message);
}

}  // namespace skiff::protocol
