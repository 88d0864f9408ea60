#include <algorithm>
#include <cstring>

#include "scsi/target/commands/block_range.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

constexpr size_t kReadCapacity10Length = 8;
constexpr size_t kReadCapacity16Length = 32;
constexpr uint8_t kLbpme = 0x80;
constexpr uint8_t kLbprz = 0x40;

void SendCapacity10(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t last = lu.lu().block_count() - 1;
  uint8_t* out = task->buffer->data;
  // FFFFFFFFh: the initiator is to ask by READ CAPACITY (16).
  StoreBe32(out, static_cast<uint32_t>(std::min<uint64_t>(last, UINT32_MAX)));
  StoreBe32(out + 4, lu.lu().block_size());
  lu.GoodWithData(task, out, kReadCapacity10Length);
}

void SendCapacity16(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  uint8_t* out = task->buffer->data;
  std::memset(out, 0, kReadCapacity16Length);
  StoreBe64(out, lu.lu().block_count() - 1);
  StoreBe32(out + 8, lu.lu().block_size());
  out[13] = lu.lu().physical_block_exponent();
  if (lu.lu().thin()) out[14] = kLbpme | kLbprz;
  lu.GoodWithData(
      task, out,
      std::min<uint64_t>(kReadCapacity16Length, LoadBe32(&task->cdb[10])));
}

constexpr size_t kLbaStatusHeader = 8;
constexpr size_t kLbaStatusDescriptor = 16;
// More would only make the initiator wait: it asks again from where this ends.
constexpr size_t kMaxLbaStatusDescriptors = 64;
constexpr uint8_t kMapped = 0;
constexpr uint8_t kDeallocated = 1;

void SendLbaStatus(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint64_t count = lu.lu().block_count();
  const uint32_t shift = lu.lu().block_shift();
  const uint64_t room = LoadBe32(&task->cdb[10]);
  uint8_t* out = task->buffer->data;
  uint8_t* p = out + kLbaStatusHeader;
  uint64_t lba = task->lba;
  // At least one descriptor is made, even if the initiator has no room for it.
  for (size_t n = 0; n < kMaxLbaStatusDescriptors && lba < count; ++n) {
    if (n > 0 && static_cast<uint64_t>(p - out) >= room) break;
    const ProvisioningExtent extent =
        lu.lu().backend().ProvisioningAt(lba << shift);
    // A block that is only partly deallocated counts as mapped.
    const uint64_t blocks =
        std::min<uint64_t>({std::max<uint64_t>(extent.length >> shift, 1),
                            count - lba, UINT32_MAX});
    const bool mapped = extent.mapped || extent.length < lu.lu().block_size();
    std::memset(p, 0, kLbaStatusDescriptor);
    StoreBe64(p, lba);
    StoreBe32(p + 8, static_cast<uint32_t>(blocks));
    p[12] = mapped ? kMapped : kDeallocated;
    p += kLbaStatusDescriptor;
    lba += blocks;
  }
  const uint64_t length = static_cast<uint64_t>(p - out);
  StoreBe32(out, static_cast<uint32_t>(length - 4));
  StoreBe32(out + 4, 0);
  lu.GoodWithData(task, out, std::min(length, room));
}

}  // namespace

// SBC-3 section 5.12.
void ReadCapacity10(LuNexus& lu, Task* task) {
  if (!lu.AcquireBuffer(task, kReadCapacity10Length, &SendCapacity10)) return;
  SendCapacity10(task);
}

// SBC-3 section 5.13.
void ReadCapacity16(LuNexus& lu, Task* task) {
  if (!lu.AcquireBuffer(task, kReadCapacity16Length, &SendCapacity16)) return;
  SendCapacity16(task);
}

// SBC-3 section 5.5.
void GetLbaStatus(LuNexus& lu, Task* task) {
  task->lba = LoadBe64(&task->cdb[2]);
  if (!CheckOnMedium(lu, task, {task->lba, 1})) return;
  constexpr size_t kLongest =
      kLbaStatusHeader + kMaxLbaStatusDescriptors * kLbaStatusDescriptor;
  if (!lu.AcquireBuffer(task, kLongest, &SendLbaStatus)) return;
  SendLbaStatus(task);
}

}  // namespace skiff::scsi
