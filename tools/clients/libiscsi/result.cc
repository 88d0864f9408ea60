// What a task shows of the way its command ended.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/names.h"
#include "tools/clients/libiscsi/sense.h"

namespace skiff::libiscsi {
namespace {

// The device's status as programs are told of it.
int ToldStatus(uint32_t status) {
  switch (status) {
    case kGood:
    case kConditionMet:  // libiscsi tells that all went well.
      return kGood;
    case kCheckCondition:
    case kBusy:
    case kReservationConflict:
    case kTaskSetFull:
    case kAcaActive:
    case kTaskAborted:
      return static_cast<int>(status);
    default:  // Programs know of no other.
      return kError;
  }
}

}  // namespace

void iscsi_context::FillTask(Call* call) {
  scsi_task* const task = call->task;
  free(task->datain.data);
  task->datain = {};
  task->sense = {};
  task->residual = 0;
  task->residual_status = kNoResidual;
  if (call->result.answered == 0 || call->status != kGood) {
    task->status = call->status == kGood ? kError : call->status;
    if (!call->message.empty()) SetError(std::move(call->message));
    return;
  }
  FillStatus(call);
}

void iscsi_context::FillStatus(Call* call) {
  const skiff_command_result& result = call->result;
  scsi_task* const task = call->task;
  task->status = ToldStatus(result.status);
  if (result.residual != 0) {
    task->residual = result.residual;
    task->residual_status = result.overflow != 0 ? kOverflow : kUnderflow;
  }
  if (result.status == kCheckCondition) return FillSense(call);
  if (task->status != kGood) {
    // Nothing says that data came: the buffer may be as malloc() left it.
    return SetError("SCSI status " + std::to_string(result.status));
  }
  if (call->buffer != nullptr && result.data_in_length > 0) {
    task->datain.data = std::exchange(call->buffer, nullptr);
    task->datain.size = static_cast<int>(result.data_in_length);
  }
}

// As in a SCSI Response PDU: two bytes with the length, then the sense data
// (RFC 7143 section 11.4.7.2). QEMU reads as many bytes from the third on.
void iscsi_context::FillSense(Call* call) {
  constexpr size_t kHeader = 2;
  constexpr size_t kLeast = 18;  // The parser looks at fixed places.
  scsi_task* const task = call->task;
  const size_t length =
      std::min<size_t>(call->result.sense_length, sizeof(call->result.sense));
  const size_t size = 2 * kHeader + std::max(length, kLeast);
  auto* const data = static_cast<unsigned char*>(calloc(1, size));
  if (data == nullptr) {
    task->status = kError;
    return SetError("out of memory");
  }
  data[0] = static_cast<unsigned char>(length >> 8);
  data[1] = static_cast<unsigned char>(length);
  memcpy(data + kHeader, call->result.sense, length);
  task->datain = {static_cast<int>(kHeader + length), data};
  task->sense = ParseSense(data + kHeader);
  SetError(DescribeSense(task->sense));
}

}  // namespace skiff::libiscsi
