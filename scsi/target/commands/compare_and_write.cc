#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kFua = 0x08;

void AfterIo(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  lu.ReleaseExclusive(task);
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  lu.Good(task);
}

// No write to the logical unit is in flight, from whichever reactor. (Reads are
// not held back: of a medium in memory they may see the write half done, as
// they may with any write; what they read in between is not what decides.)
void CompareThenWrite(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint32_t shift = lu.lu().block_shift();
  SetIo(task, IoRequest::Op::kCompareAndWrite, task->lba << shift,
        task->buffer->data, task->blocks << shift);
  task->iov[0].iov_len = task->chunk;  // Both halves.
  task->io.fua = (task->cdb[1] & kFua) != 0;
  if (lu.SubmitIo(task, &AfterIo)) AfterIo(task);
}

void AfterData(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (lu.AcquireExclusive(task, &CompareThenWrite)) CompareThenWrite(task);
}

void ReceiveData(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (lu.ReceiveDataOut(task, 0, task->buffer->data, task->chunk, &AfterData)) {
    AfterData(task);
  }
}

}  // namespace

// SBC-3 section 5.2. The data come in two halves: what to compare with, and
// what to write. A miscompare tells what the medium holds.
void CompareAndWrite(LuNexus& lu, Task* task) {
  if (!lu.Allows(task, AccessClass::kRead)) return;
  constexpr uint16_t kNumberOfLogicalBlocks = 13;
  const BlockRange range{LoadBe64(&task->cdb[2]),
                         task->cdb[kNumberOfLogicalBlocks]};
  if (range.blocks > lu.lu().max_compare_and_write_blocks()) {
    return lu.InvalidCdbField(task, kNumberOfLogicalBlocks);
  }
  if (!CheckOnMedium(lu, task, range)) return;
  task->lba = range.lba;
  task->blocks = range.blocks;
  task->data_out_wanted = 2 * range.blocks << lu.lu().block_shift();
  if (task->data_out_length != task->data_out_wanted) {
    return lu.CheckCondition(
        task, SenseKey::kIllegalRequest,
        AdditionalSense::kInvalidFieldInCommandInformationUnit);
  }
  if (range.blocks == 0) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  task->chunk = static_cast<uint32_t>(task->data_out_wanted);
  if (lu.AcquireBuffer(task, task->chunk, &ReceiveData)) ReceiveData(task);
}

}  // namespace skiff::scsi
