#include <algorithm>

#include "scsi/target/block_range.h"
#include "scsi/target/command_table.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kFua = 0x08;

// WRITE (6) has no FUA bit, but LBA bits in its place.
bool IsFua(const Task& task) {
  return task.cdb[0] != 0x0a && (task.cdb[1] & kFua) != 0;
}

// Task::chunk is what the step under way writes; Task::progress what was
// written.

// --- Into the medium's memory.

void AfterFlush(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  lu.Good(task);
}

void Flush(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  SetIo(task, IoRequest::Op::kFlush, 0, nullptr, 0);
  task->io.iov_count = 0;
  if (lu.SubmitIo(task, &AfterFlush)) AfterFlush(task);
}

void AfterDirectData(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  lu.LeaveGuard(task);
  if (IsFua(*task) && lu.lu().info().volatile_write_cache) return Flush(task);
  lu.Good(task);
}

// Counted as a write in flight while the initiator's data arrive, since they
// arrive in the medium.
void ReceiveDirectly(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t offset = task->lba << lu.lu().block_shift();
  lu.lu().backend().NoteWritten(offset, task->chunk);
  if (lu.ReceiveDataOut(task, 0, lu.lu().memory() + offset, task->chunk,
                        &AfterDirectData)) {
    AfterDirectData(task);
  }
}

// --- Through a buffer.

void ReceiveStep(Task* task);

void AfterWrite(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  lu.LeaveGuard(task);
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  task->progress += task->chunk;
  ReceiveStep(task);
}

void WriteStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  SetIo(task, IoRequest::Op::kWrite,
        (task->lba << lu.lu().block_shift()) + task->progress,
        task->buffer->data, task->chunk);
  task->io.fua = IsFua(*task);
  if (lu.SubmitIo(task, &AfterWrite)) AfterWrite(task);
}

void AfterData(Task* task) {
  if (task->lu_nexus->EnterGuard(task, &WriteStep)) WriteStep(task);
}

// With a buffer: receives the next piece of the data into it.
void ReceiveStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t total =
      std::min<uint64_t>(task->data_out_wanted, task->data_out_length);
  if (task->progress == total) return lu.Good(task);
  task->chunk = static_cast<uint32_t>(
      std::min<uint64_t>(total - task->progress, task->buffer->size));
  if (lu.ReceiveDataOut(task, static_cast<uint32_t>(task->progress),
                        task->buffer->data, task->chunk, &AfterData)) {
    AfterData(task);
  }
}

}  // namespace

// SBC-3 section 5.27 ff. An initiator that offers fewer data than the CDB wants
// gets as many whole blocks written, and a residual.
void Write(LuNexus& lu, Task* task) {
  uint32_t length = 0;
  if (!DecodeTransfer(lu, task)) return;
  if (!DataOutLength(lu, task, task->blocks << lu.lu().block_shift(),
                     &length)) {
    return;
  }
  if (length == 0) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  task->chunk = length;
  if (lu.lu().memory() != nullptr) {
    if (lu.EnterGuard(task, &ReceiveDirectly)) ReceiveDirectly(task);
  } else {
    if (lu.AcquireBuffer(task, length, &ReceiveStep)) ReceiveStep(task);
  }
}

// SBC-3 section 5.22. Everything is flushed, whatever the range is. With IMMED
// there is no need to wait for the result; it would have to be reported as a
// deferred error. Waiting is allowed and simpler.
void SynchronizeCache(LuNexus& lu, Task* task) {
  if (!CheckOnMedium(lu, task, ReadBlockRange(task->cdb.data()))) return;
  if (!lu.lu().info().volatile_write_cache) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  Flush(task);
}

}  // namespace skiff::scsi
