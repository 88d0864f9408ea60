// VERIFY and WRITE AND VERIFY. Rare enough that media in memory take the same
// way as all others: the first half of the buffer holds the initiator's data,
// the second what the medium has.

#include <algorithm>
#include <cstring>

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

// BYTCHK, SBC-3 table 77.
enum ByteCheck : uint8_t {
  kMediumOnly = 0,
  kCompareAll = 1,
  kReserved = 2,
  kCompareOneBlock = 3,  // One block is compared with each of the range.
};

ByteCheck ByteCheckOf(const Task& task) {
  return static_cast<ByteCheck>(task.cdb[1] >> 1 & 3);
}

uint8_t* DataHalf(const Task& task) { return HalfOf(task, 0); }
uint8_t* MediumHalf(const Task& task) { return HalfOf(task, 1); }

// The bytes of the medium that the command covers.
uint64_t TotalBytes(const Task& task) {
  const uint64_t range = task.blocks << task.lu_nexus->lu().block_shift();
  return task.step == kCompareAll
             ? std::min<uint64_t>(range, task.data_out_length)
             : range;
}

void NextStep(Task* task);

void Miscompare(Task* task, uint64_t offset) {
  LuNexus& lu = *task->lu_nexus;
  SenseData sense;
  sense.key = SenseKey::kMiscompare;
  sense.code = AdditionalSense::kMiscompareDuringVerify;
  sense.information =
      task->lba + ((task->progress + offset) >> lu.lu().block_shift());
  lu.CheckCondition(task, sense);
}

// Whether the step's piece of the medium is as the initiator says.
bool CompareStep(Task* task) {
  const ByteCheck check = ByteCheckOf(*task);
  if (check == kMediumOnly) return true;
  const uint32_t block_size = task->lu_nexus->lu().block_size();
  for (uint32_t at = 0; at < task->chunk; at += block_size) {
    const uint8_t* expected =
        DataHalf(*task) + (check == kCompareOneBlock ? 0 : at);
    if (std::memcmp(expected, MediumHalf(*task) + at, block_size) != 0) {
      Miscompare(task, at);
      return false;
    }
  }
  return true;
}

void AfterMediumRead(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  if (!CompareStep(task)) return;
  task->progress += task->chunk;
  NextStep(task);
}

void ReadMedium(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  SetIo(task, IoRequest::Op::kRead,
        (task->lba << lu.lu().block_shift()) + task->progress,
        MediumHalf(*task), task->chunk);
  if (lu.SubmitIo(task, &AfterMediumRead)) AfterMediumRead(task);
}

void AfterMediumWrite(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  lu.LeaveGuard(task);
  if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  ReadMedium(task);
}

void WriteMedium(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  SetIo(task, IoRequest::Op::kWrite,
        (task->lba << lu.lu().block_shift()) + task->progress, DataHalf(*task),
        task->chunk);
  task->io.fua = true;  // What is verified is to be the medium.
  if (lu.SubmitIo(task, &AfterMediumWrite)) AfterMediumWrite(task);
}

bool IsWrite(const Task& task) { return (task.cdb[0] & 0x1f) == 0x0e; }

void AfterStepData(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (!IsWrite(*task)) return ReadMedium(task);
  if (lu.EnterGuard(task, &WriteMedium)) WriteMedium(task);
}

// With a buffer. Task::step == kCompareAll: data come with each step.
void NextStep(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t rest = TotalBytes(*task) - task->progress;
  if (rest == 0) return lu.Good(task);
  task->chunk =
      static_cast<uint32_t>(std::min<uint64_t>(rest, HalfSize(*task)));
  if (task->step != kCompareAll) return ReadMedium(task);
  if (lu.ReceiveDataOut(task, static_cast<uint32_t>(task->progress),
                        DataHalf(*task), task->chunk, &AfterStepData)) {
    AfterStepData(task);
  }
}

void ReceiveOneBlock(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  if (lu.ReceiveDataOut(task, 0, DataHalf(*task), lu.lu().block_size(),
                        &NextStep)) {
    NextStep(task);
  }
}

// Acquires the buffer for steps of both halves, and goes on with `next`.
void Start(Task* task, void (*next)(Task*)) {
  LuNexus& lu = *task->lu_nexus;
  if (TotalBytes(*task) == 0) return lu.Good(task);
  if (!lu.CheckReady(task)) return;
  if (lu.AcquireBufferForSteps(task, 2 * TotalBytes(*task), next)) next(task);
}

}  // namespace

// SBC-3 section 5.24 ff.
void Verify(LuNexus& lu, Task* task) {
  if (!DecodeTransfer(lu, task)) return;
  const uint32_t block_size = lu.lu().block_size();
  uint32_t length = 0;
  task->step = ByteCheckOf(*task);
  switch (ByteCheckOf(*task)) {
    case kMediumOnly:
      return Start(task, &NextStep);
    case kCompareAll:
      if (!DataOutLength(lu, task, task->blocks << lu.lu().block_shift(),
                         &length)) {
        return;
      }
      return Start(task, &NextStep);
    case kReserved:
      return lu.InvalidCdbField(task, 1, 2);
    case kCompareOneBlock:
      if (task->blocks == 0) return lu.Good(task);
      if (!DataOutLength(lu, task, block_size, &length)) return;
      if (length == 0) return lu.Good(task);
      return Start(task, &ReceiveOneBlock);
  }
}

// SBC-3 section 5.33 ff.
void WriteAndVerify(LuNexus& lu, Task* task) {
  if (!DecodeTransfer(lu, task)) return;
  if (ByteCheckOf(*task) > kCompareAll) return lu.InvalidCdbField(task, 1, 2);
  uint32_t length = 0;
  if (!DataOutLength(lu, task, task->blocks << lu.lu().block_shift(),
                     &length)) {
    return;
  }
  task->step = kCompareAll;
  Start(task, &NextStep);
}

}  // namespace skiff::scsi
