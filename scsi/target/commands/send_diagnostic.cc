// SEND DIAGNOSTIC. There is the default self-test alone: the other ones need a
// log page for their results, and there are no diagnostic pages.

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kSelfTest = 0x04;

// Which block a step reads: a medium that was cut short lacks its last one.
enum Step : uint8_t { kFirstBlock = 0, kLastBlock = 1 };

void AfterRead(Task* task);

void ReadBlock(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t count = lu.lu().block_count();
  if (count == 0) return lu.Good(task);
  const uint64_t lba = task->step == kFirstBlock ? 0 : count - 1;
  SetIo(task, IoRequest::Op::kRead, lba << lu.lu().block_shift(),
        task->buffer->data, lu.lu().block_size());
  if (lu.SubmitIo(task, &AfterRead)) AfterRead(task);
}

void AfterRead(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  switch (task->io.status) {
    case IoStatus::kOk:
      break;
    case IoStatus::kGone:
    case IoStatus::kNoMemory:
      return FailIo(lu, task);  // It says nothing of the medium.
    default:
      return lu.CheckCondition(task, SenseKey::kHardwareError,
                               AdditionalSense::kLogicalUnitFailedSelfTest);
  }
  if (task->step == kLastBlock) return lu.Good(task);
  task->step = kLastBlock;
  ReadBlock(task);
}

}  // namespace

// SPC-4 section 6.42. Without SELFTEST, a parameter list would say what to do:
// there is none, which is no error. DEVOFFL and UNITOFFL allow for tests that
// disturb others, which this is not.
void SendDiagnostic(LuNexus& lu, Task* task) {
  if ((task->cdb[1] & kSelfTest) == 0) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  if (lu.AcquireBuffer(task, lu.lu().block_size(), &ReadBlock)) ReadBlock(task);
}

}  // namespace skiff::scsi
