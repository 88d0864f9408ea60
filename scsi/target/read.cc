#include <algorithm>

#include "scsi/target/block_range.h"
#include "scsi/target/command_table.h"

namespace skiff::scsi {
namespace {

void ReadStep(Task* task);

uint64_t BytesToRead(const LuNexus& lu, const Task& task) {
  return std::min<uint64_t>(task.blocks << lu.lu().block_shift(),
                            task.data_in_length);
}

void AfterRead(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  const uint64_t rest = BytesToRead(lu, *task) - task->progress;
  const uint32_t length =
      static_cast<uint32_t>(std::min<uint64_t>(rest, task->io.length));
  if (length == rest) return lu.Finish(task, task->buffer->data, length);
  const uint32_t offset = static_cast<uint32_t>(task->progress);
  task->progress += length;
  lu.SendDataIn(task, offset, task->buffer->data, length, &ReadStep);
}

// With a buffer: reads the next piece of the range into it.
void ReadStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t block_size = lu.lu().block_size();
  const uint64_t rest = BytesToRead(lu, *task) - task->progress;
  // Whole blocks, though the initiator may have no room for the last one.
  const uint64_t length = std::min<uint64_t>(
      (rest + block_size - 1) / block_size * block_size, task->buffer->size);
  SetIo(task, IoRequest::Op::kRead,
        (task->lba << lu.lu().block_shift()) + task->progress,
        task->buffer->data, length);
  if (lu.SubmitIo(task, &AfterRead)) AfterRead(task);
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
  if (lu.AcquireBuffer(task, bytes, &ReadStep)) ReadStep(task);
}

// SBC-3 section 5.6. There is no cache to fetch into, so that GOOD rather than
// CONDITION MET is the truth.
void PreFetch(LuNexus& lu, Task* task) {
  if (CheckOnMedium(lu, task, ReadBlockRange(task->cdb.data()))) lu.Good(task);
}

}  // namespace skiff::scsi
