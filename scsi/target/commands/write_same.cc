#include <algorithm>
#include <cstring>

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kWriteSame16 = 0x93;
constexpr uint8_t kAnchor = 0x10;
constexpr uint8_t kUnmap = 0x08;
constexpr uint8_t kNdob = 0x01;

bool HasData(const Task& task) {
  return task.cdb[0] != kWriteSame16 || (task.cdb[1] & kNdob) == 0;
}

void WriteStep(Task* task);

void AfterWrite(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  task->progress += task->chunk;
  WriteStep(task);
}

// Task::buffer is full of copies of the block.
void WriteStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t rest =
      (task->blocks << lu.lu().block_shift()) - task->progress;
  if (rest == 0) return lu.Good(task);
  task->chunk =
      static_cast<uint32_t>(std::min<uint64_t>(rest, task->buffer->size));
  SetIo(task, IoRequest::Op::kWrite,
        (task->lba << lu.lu().block_shift()) + task->progress,
        task->buffer->data, task->chunk);
  if (lu.SubmitIo(task, &AfterWrite)) AfterWrite(task);
}

// From one block at the start of the buffer.
void WriteCopies(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const size_t block_size = lu.lu().block_size();
  const size_t end = std::min<uint64_t>(task->buffer->size,
                                        task->blocks << lu.lu().block_shift());
  for (size_t at = block_size; at < end; at += block_size) {
    std::memcpy(task->buffer->data + at, task->buffer->data, block_size);
  }
  WriteStep(task);
}

void AfterWriteZeroes(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status == IoStatus::kOk) return lu.Good(task);
  // The backend has no shorter way than writing them.
  if (task->io.status == IoStatus::kNotSupported) return WriteCopies(task);
  FailIo(lu, task);
}

void WriteZeroes(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint32_t shift = lu.lu().block_shift();
  SetIo(task, IoRequest::Op::kWriteZeroes, task->lba << shift, nullptr,
        task->blocks << shift);
  task->io.iov_count = 0;
  task->io.may_unmap = (task->cdb[1] & kUnmap) != 0;
  if (lu.SubmitIo(task, &AfterWriteZeroes)) AfterWriteZeroes(task);
}

// Unmapped blocks read as zeroes (LBPRZ = 1), so that UNMAP = 1 allows to unmap
// only if zeroes are what is written (SBC-3 section 5.48).
void AfterBlock(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint8_t* block = task->buffer->data;
  const size_t size = lu.lu().block_size();
  const bool zero =
      block[0] == 0 && std::memcmp(block, block + 1, size - 1) == 0;
  const auto next = zero ? &WriteZeroes : &WriteCopies;
  if (lu.EnterGuard(task, next)) next(task);
}

void ReceiveBlock(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint32_t block_size = lu.lu().block_size();
  if (!HasData(*task)) {
    std::memset(task->buffer->data, 0, block_size);
    return AfterBlock(task);
  }
  if (lu.ReceiveDataOut(task, 0, task->buffer->data, block_size, &AfterBlock)) {
    AfterBlock(task);
  }
}

}  // namespace

// SBC-3 sections 5.47 and 5.48.
void WriteSame(LuNexus& lu, Task* task) {
  const uint8_t flags = task->cdb[1];
  const uint32_t block_size = lu.lu().block_size();
  // There is no anchored state (ANC_SUP = 0).
  if ((flags & kAnchor) != 0) return lu.InvalidCdbField(task, 1, 4);
  if ((flags & kUnmap) != 0 && !lu.lu().thin()) {
    return lu.InvalidCdbField(task, 1, 3);
  }
  if (!DecodeTransfer(lu, task)) return;
  if (task->blocks == 0) {  // WSNZ = 1.
    return lu.InvalidCdbField(task, TransferLengthByte(task->cdb.data()));
  }
  if (HasData(*task)) {
    task->data_out_wanted = block_size;
    if (task->data_out_length != block_size) {
      return lu.CheckCondition(
          task, SenseKey::kIllegalRequest,
          AdditionalSense::kInvalidFieldInCommandInformationUnit);
    }
  }
  if (!lu.CheckReady(task)) return;
  if (lu.AcquireBufferForSteps(task, task->blocks << lu.lu().block_shift(),
                               &ReceiveBlock)) {
    ReceiveBlock(task);
  }
}

}  // namespace skiff::scsi
