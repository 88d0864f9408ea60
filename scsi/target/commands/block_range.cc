#include "scsi/target/commands/block_range.h"

#include <algorithm>

namespace skiff::scsi {

bool CheckOnMedium(LuNexus& lu, Task* task, const BlockRange& range) {
  const uint64_t count = lu.lu().block_count();
  if (range.lba <= count && range.blocks <= count - range.lba) return true;
  lu.CheckCondition(task, SenseKey::kIllegalRequest,
                    AdditionalSense::kLbaOutOfRange);
  return false;
}

bool DataOutLength(LuNexus& lu, Task* task, uint64_t wanted, uint32_t* length) {
  task->data_out_wanted = wanted;
  *length =
      static_cast<uint32_t>(std::min<uint64_t>(wanted, task->data_out_length));
  if (*length % lu.lu().block_size() == 0) [[likely]] {
    return true;
  }
  lu.CheckCondition(task, SenseKey::kIllegalRequest,
                    AdditionalSense::kInvalidFieldInCommandInformationUnit);
  return false;
}

void FailIo(LuNexus& lu, Task* task) {
  SenseData sense;
  const auto at_error = [&] {
    sense.information = task->io.error_offset >> lu.lu().block_shift();
  };
  switch (task->io.status) {
    case IoStatus::kReadError:
      sense.key = SenseKey::kMediumError;
      sense.code = AdditionalSense::kUnrecoveredReadError;
      at_error();
      break;
    case IoStatus::kWriteError:
      sense.key = SenseKey::kMediumError;
      sense.code = AdditionalSense::kWriteError;
      at_error();
      break;
    case IoStatus::kNoSpace:
      // SBC-3 section 4.7.3.6.
      sense.key = SenseKey::kDataProtect;
      sense.code = AdditionalSense::kSpaceAllocationFailedWriteProtect;
      break;
    case IoStatus::kMiscompare:
      sense.key = SenseKey::kMiscompare;
      sense.code = AdditionalSense::kMiscompareDuringVerify;
      // The offset in the Data-Out buffer (SBC-3 section 5.2).
      sense.information =
          task->io.error_offset - (task->lba << lu.lu().block_shift());
      break;
    case IoStatus::kGone:
      sense.key = SenseKey::kNotReady;
      sense.code = AdditionalSense::kNotReadyCauseNotReportable;
      break;
    case IoStatus::kNoMemory:
      task->status = ScsiStatus::kBusy;
      return lu.Finish(task, nullptr, 0);
    case IoStatus::kOk:
    case IoStatus::kNotSupported:
    case IoStatus::kCancelled:  // Nobody asked for it.
      sense.key = SenseKey::kHardwareError;
      sense.code = AdditionalSense::kInternalTargetFailure;
      break;
  }
  lu.CheckCondition(task, sense);
}

}  // namespace skiff::scsi
