#include <algorithm>

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kFua = 0x08;

// WRITE (6) has no FUA bit, but LBA bits in its place.
bool IsFua(const Task& task) {
  return task.cdb[0] != 0x0a && (task.cdb[1] & kFua) != 0;
}

// Task::chunk is what is being written; Task::progress what was written.

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
  if (IsFua(*task) && lu.lu().volatile_write_cache()) return Flush(task);
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

// --- Through a buffer. The piece under way, Task::chunk bytes, is in the half
// Task::step. A command that is longer than the buffer uses both halves in
// turn, and receives the next piece while the last one is written. While it
// only waits for the initiator it does not count as a write in flight: one that
// went silent would hold up everybody's COMPARE AND WRITE, and with it all
// writes.

void AfterStep(Task* task);

uint64_t BytesToWrite(const Task& task) {
  return std::min<uint64_t>(task.data_out_wanted, task.data_out_length);
}

// The length of the piece that follows the first `done` bytes.
uint32_t PieceAt(const Task& task, uint64_t done) {
  const uint64_t total = BytesToWrite(task);
  return static_cast<uint32_t>(
      std::min<uint64_t>(total - done, StepSize(task, total)));
}

// Goes on to the next piece, which has arrived; false: the task is complete.
bool NextStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status != IoStatus::kOk) {
    FailIo(lu, task);
    return false;
  }
  task->progress += task->chunk;
  task->chunk = PieceAt(*task, task->progress);
  task->step ^= 1;
  if (task->chunk > 0) return true;
  lu.Good(task);
  return false;
}

// Writes the piece, and receives the next one if there is one.
void WriteSteps(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  do {
    const uint64_t next = task->progress + task->chunk;
    const uint32_t next_length = PieceAt(*task, next);
    const bool received =
        next_length == 0 || lu.ReceiveDataOut(task, static_cast<uint32_t>(next),
                                              HalfOf(*task, task->step ^ 1u),
                                              next_length, &AfterStep);
    SetIo(task, IoRequest::Op::kWrite,
          (task->lba << lu.lu().block_shift()) + task->progress,
          HalfOf(*task, task->step), task->chunk);
    task->io.fua = IsFua(*task);
    if (!lu.SubmitIo(task, &AfterStep)) return;
    if (!received) return lu.LeaveGuard(task);
  } while (NextStep(task));
}

// After a write, or a transfer, of which one may still be under way.
void AfterStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->in_flight > 0) {
    if (task->transfers > 0) lu.LeaveGuard(task);
    return;
  }
  if (!NextStep(task)) return;
  if (task->guarded || lu.EnterGuard(task, &WriteSteps)) WriteSteps(task);
}

void AfterFirstPiece(Task* task) {
  if (task->lu_nexus->EnterGuard(task, &WriteSteps)) WriteSteps(task);
}

// With a buffer.
void ReceiveFirstPiece(Task* task) {
  task->chunk = PieceAt(*task, 0);
  if (task->lu_nexus->ReceiveDataOut(task, 0, HalfOf(*task, 0), task->chunk,
                                     &AfterFirstPiece)) {
    AfterFirstPiece(task);
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
  // A medium in memory has a buffer only where somebody waits for the blocks.
  if (lu.lu().memory() != nullptr && lu.EnterGuardWithoutData(task)) {
    return ReceiveDirectly(task);
  }
  if (lu.AcquireBufferForSteps(task, length, &ReceiveFirstPiece)) {
    ReceiveFirstPiece(task);
  }
}

// SBC-3 section 5.22. Everything is flushed, whatever the range is. With IMMED
// there is no need to wait for the result; it would have to be reported as a
// deferred error. Waiting is allowed and simpler.
void SynchronizeCache(LuNexus& lu, Task* task) {
  if (!CheckOnMedium(lu, task, ReadBlockRange(task->cdb.data()))) return;
  if (!lu.lu().volatile_write_cache()) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  Flush(task);
}

}  // namespace skiff::scsi
