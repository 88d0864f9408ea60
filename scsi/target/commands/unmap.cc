#include <algorithm>
#include <cstring>

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kAnchor = 0x01;
constexpr uint32_t kHeader = 8;
constexpr uint32_t kDescriptor = 16;
constexpr uint32_t kLongestList =
    kHeader + LogicalUnit::kMaxUnmapDescriptors * kDescriptor;

void UnmapNext(Task* task);

BlockRange DescriptorAt(const Task& task, uint64_t index) {
  const uint8_t* p = task.buffer->data + kHeader + index * kDescriptor;
  return {LoadBe64(p), LoadBe32(p + 8)};
}

void AfterUnmap(Task* task) {
  if (task->io.status != IoStatus::kOk) return FailIo(*task->lu_nexus, task);
  UnmapNext(task);
}

// Task::blocks counts the descriptors, Task::progress those that are done.
void UnmapNext(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint32_t shift = lu.lu().block_shift();
  // A loop for what completes at once: there may be many descriptors.
  while (task->progress < task->blocks) {
    const BlockRange range = DescriptorAt(*task, task->progress++);
    if (range.blocks == 0) continue;
    SetIo(task, IoRequest::Op::kUnmap, range.lba << shift, nullptr,
          range.blocks << shift);
    task->io.iov_count = 0;
    if (!lu.SubmitIo(task, &AfterUnmap)) return;
    if (task->io.status != IoStatus::kOk) return FailIo(lu, task);
  }
  lu.Good(task);
}

// Nothing is unmapped unless everything may be.
bool CheckDescriptors(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  uint64_t total = 0;
  for (uint64_t i = 0; i < task->blocks; ++i) {
    const BlockRange range = DescriptorAt(*task, i);
    if (!CheckOnMedium(lu, task, range)) return false;
    total += range.blocks;
    if (total > LogicalUnit::kMaxUnmapBlocks) {
      lu.InvalidParameter(task,
                          static_cast<uint16_t>(kHeader + i * kDescriptor + 8));
      return false;
    }
  }
  return true;
}

// With the descriptors in the buffer, and everything received.
void ApplyList(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  task->progress = 0;
  if (!CheckDescriptors(task)) return;
  if (lu.EnterGuard(task, &UnmapNext)) UnmapNext(task);
}

// What follows the descriptors is received, too, though nobody looks at it: a
// residual would say that the target did without a part of the list. It goes
// to the rest of the buffer, piece by piece. Task::progress is what has come.
void ReceiveRest(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint32_t length = LoadBe16(&task->cdb[7]);
  static_assert(BufferPool::kSmallBytes > kLongestList);
  for (;;) {
    task->progress += task->chunk;
    const auto received = static_cast<uint32_t>(task->progress);
    if (received == length) return ApplyList(task);
    task->chunk =
        std::min(length - received, task->buffer->size - kLongestList);
    if (!lu.ReceiveDataOut(task, received, task->buffer->data + kLongestList,
                           task->chunk, &ReceiveRest)) {
      return;
    }
  }
}

// With the first Task::chunk bytes of the parameter list in the buffer.
void AfterDescriptors(Task* task) {
  constexpr uint16_t kDescriptorBytesField = 2;
  // An incomplete descriptor at the end is ignored (SBC-3 section 5.23.2).
  const uint32_t descriptor_bytes =
      std::min<uint32_t>(LoadBe16(task->buffer->data + kDescriptorBytesField),
                         LoadBe16(&task->cdb[7]) - kHeader);
  task->blocks = descriptor_bytes / kDescriptor;
  // More than MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
  if (task->blocks > LogicalUnit::kMaxUnmapDescriptors) {
    return task->lu_nexus->InvalidParameter(task, kDescriptorBytesField);
  }
  ReceiveRest(task);
}

void ReceiveList(Task* task) {
  if (task->lu_nexus->ReceiveDataOut(task, 0, task->buffer->data, task->chunk,
                                     &AfterDescriptors)) {
    AfterDescriptors(task);
  }
}

}  // namespace

// SBC-3 section 5.23.
void Unmap(LuNexus& lu, Task* task) {
  const uint32_t length = LoadBe16(&task->cdb[7]);
  // There is no anchored state (ANC_SUP = 0).
  if ((task->cdb[1] & kAnchor) != 0) return lu.InvalidCdbField(task, 1, 0);
  if (length == 0) return lu.Good(task);
  task->data_out_wanted = length;
  if (length < kHeader || task->data_out_length < length) {
    return lu.CheckCondition(task, SenseKey::kIllegalRequest,
                             AdditionalSense::kParameterListLengthError);
  }
  if (!lu.CheckReady(task)) return;
  // As many descriptors as there may be; the header tells how many there are.
  task->chunk = std::min(length, kLongestList);
  if (lu.AcquireBuffer(task, task->chunk, &ReceiveList)) ReceiveList(task);
}

}  // namespace skiff::scsi
