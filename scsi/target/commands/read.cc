#include <algorithm>

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

uint64_t BytesToRead(const LuNexus& lu, const Task& task) {
  return std::min<uint64_t>(task.blocks << lu.lu().block_shift(),
                            task.data_in_length);
}

// Through a buffer: Task::progress is what was given to the port, and the piece
// of the medium that follows it is in the half Task::step, or on its way there.
// A command that is longer than the buffer uses both halves in turn, and reads
// the next piece while the last one is sent.

void AfterPiece(Task* task);

// Starts to read the piece; true when that is done already.
bool ReadPiece(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t block_size = lu.lu().block_size();
  const uint64_t total = BytesToRead(lu, *task);
  const uint64_t rest = total - task->progress;
  // Whole blocks, though the initiator may have no room for the last one.
  const uint64_t length =
      std::min<uint64_t>((rest + block_size - 1) / block_size * block_size,
                         StepSize(*task, total));
  SetIo(task, IoRequest::Op::kRead,
        (task->lba << lu.lu().block_shift()) + task->progress,
        HalfOf(*task, task->step), length);
  return lu.SubmitIo(task, &AfterPiece);
}

// After a read, or a transfer, of which one may still be under way.
void AfterPiece(Task* task) {
  if (task->in_flight > 0) return;
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  const uint8_t* const data = HalfOf(*task, task->step);
  const uint64_t rest = BytesToRead(lu, *task) - task->progress;
  const uint32_t length =
      static_cast<uint32_t>(std::min<uint64_t>(rest, task->io.length));
  if (length == rest) return lu.Finish(task, data, length);
  const uint32_t offset = static_cast<uint32_t>(task->progress);
  task->progress += length;
  task->step ^= 1;
  lu.SendDataIn(task, offset, data, length, &AfterPiece);
  ReadPiece(task);  // The transfer ends later, even if this is done already.
}

// With a buffer.
void ReadFirstPiece(Task* task) {
  if (ReadPiece(task)) AfterPiece(task);
}

}  // namespace

// SBC-3 section 5.8 ff. DPO is a hint, and FUA asks for nothing: what a backend
// reads is what it has acknowledged.
void Read(LuNexus& lu, Task* task) {
  if (!DecodeTransfer(lu, task)) return;
  const uint32_t shift = lu.lu().block_shift();
  if (const uint8_t* memory = lu.lu().memory(); memory != nullptr) {
    return lu.GoodWithData(task, memory + (task->lba << shift),
                           task->blocks << shift);
  }
  task->data_in_wanted = task->blocks << shift;
  const uint64_t bytes = BytesToRead(lu, *task);
  if (bytes == 0) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  if (lu.AcquireBufferForSteps(task, bytes, &ReadFirstPiece)) {
    ReadFirstPiece(task);
  }
}

// SBC-3 section 5.6. There is no cache to fetch into, so that GOOD rather than
// CONDITION MET is the truth.
void PreFetch(LuNexus& lu, Task* task) {
  if (CheckOnMedium(lu, task, ReadBlockRange(task->cdb.data()))) lu.Good(task);
}

}  // namespace skiff::scsi
