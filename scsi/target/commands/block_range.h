#ifndef SKIFF_SCSI_TARGET_COMMANDS_BLOCK_RANGE_H_
#define SKIFF_SCSI_TARGET_COMMANDS_BLOCK_RANGE_H_

#include <cstdint>

#include "scsi/endian.h"
#include "scsi/target/lu_nexus.h"
#include "scsi/target/task.h"

namespace skiff::scsi {

// LOGICAL BLOCK ADDRESS and TRANSFER LENGTH (or NUMBER OF LOGICAL BLOCKS ...)
// are at the same places in all CDBs of the same length (SPC-4 section 4.2.2).
inline BlockRange ReadBlockRange(const uint8_t* cdb) {
  switch (cdb[0] >> 5) {  // GROUP CODE
    case 0:
      // Zero blocks means 256.
      return {LoadBe24(cdb + 1) & 0x1fffff, cdb[4] == 0 ? 256u : cdb[4]};
    case 5:
      return {LoadBe32(cdb + 2), LoadBe32(cdb + 6)};
    case 4:
      return {LoadBe64(cdb + 2), LoadBe32(cdb + 10)};
    default:
      return {LoadBe32(cdb + 2), LoadBe16(cdb + 7)};
  }
}

// Where the TRANSFER LENGTH is, for field pointers.
inline uint16_t TransferLengthByte(const uint8_t* cdb) {
  switch (cdb[0] >> 5) {
    case 0:
      return 4;
    case 5:
      return 6;
    case 4:
      return 10;
    default:
      return 7;
  }
}

// Whether the range is on the medium; else completes the task with LOGICAL
// BLOCK ADDRESS OUT OF RANGE.
bool CheckOnMedium(LuNexus& lu, Task* task, const BlockRange& range);

// The range of the task's CDB, into Task::lba and Task::blocks, checked against
// the medium and the transfer limit; false: the task is complete.
inline bool DecodeTransfer(LuNexus& lu, Task* task) {
  const BlockRange range = ReadBlockRange(task->cdb.data());
  task->lba = range.lba;
  task->blocks = range.blocks;
  const uint64_t count = lu.lu().block_count();
  if (range.lba > count || range.blocks > count - range.lba) [[unlikely]] {
    return CheckOnMedium(lu, task, range);
  }
  if (range.blocks > lu.lu().max_transfer_blocks()) [[unlikely]] {
    lu.InvalidCdbField(task, TransferLengthByte(task->cdb.data()));
    return false;
  }
  return true;
}

// How much of `wanted` data-out bytes the initiator sends, in `*length`. When
// it ends within a logical block, nothing is transferred: the task is completed
// with INVALID FIELD IN COMMAND INFORMATION UNIT, and false is returned. (FCP-4
// section 9.4.2 allows this for a length that does not match the CDB; iSCSI
// says nothing.)
bool DataOutLength(LuNexus& lu, Task* task, uint64_t wanted, uint32_t* length);

// Completes a task whose I/O failed.
void FailIo(LuNexus& lu, Task* task);

// A task's buffer as two halves. Whole blocks of either size, and aligned for
// direct I/O.
inline uint32_t HalfSize(const Task& task) {
  constexpr uint32_t kLargestBlock = 4096;
  return task.buffer->size / 2 / kLargestBlock * kLargestBlock;
}
inline uint8_t* HalfOf(const Task& task, uint32_t which) {
  return task.buffer->data + (which != 0 ? HalfSize(task) : 0);
}

// How much of a transfer of `total` bytes goes through the buffer at once: all
// of it, or, when it is too long for that, a half, so that one half can be
// filled while the other is emptied.
inline uint32_t StepSize(const Task& task, uint64_t total) {
  return total <= task.buffer->size ? task.buffer->size : HalfSize(task);
}

// Sets the task's IoRequest for one piece of contiguous memory.
inline void SetIo(Task* task, IoRequest::Op op, uint64_t offset, uint8_t* data,
                  uint64_t length) {
  task->iov[0] = {data, length};
  task->io.op = op;
  task->io.fua = false;
  task->io.may_unmap = false;
  task->io.offset = offset;
  task->io.length = length;
  task->io.iov = task->iov;
  task->io.iov_count = 1;
}

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_COMMANDS_BLOCK_RANGE_H_
