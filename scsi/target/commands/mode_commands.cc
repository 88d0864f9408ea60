#include <algorithm>
#include <cstring>

#include "scsi/endian.h"
#include "scsi/target/commands/command_table.h"
#include "scsi/target/mode_pages.h"
#include "scsi/target/nexus_impl.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kModeSelect6 = 0x15;
constexpr uint8_t kModeSense6 = 0x1a;

constexpr size_t kHeader6 = 4;
constexpr size_t kHeader10 = 8;
constexpr size_t kShortDescriptor = 8;
constexpr size_t kLongDescriptor = 16;

// MODE SENSE, byte 1.
constexpr uint8_t kDbd = 0x08;
constexpr uint8_t kLlbaa = 0x10;
// MODE SELECT, byte 1.
constexpr uint8_t kPf = 0x10;
constexpr uint8_t kSp = 0x01;

constexpr uint8_t kLongLba = 0x01;

// DEVICE-SPECIFIC PARAMETER, SBC-3 section 6.5.1.
uint8_t DeviceSpecificParameter(const LuNexus& lu) {
  constexpr uint8_t kWp = 0x80;
  constexpr uint8_t kDpofua = 0x10;
  return kDpofua | (lu.write_protected() ? kWp : 0);
}

// SBC-3 section 6.5.2.
size_t PutBlockDescriptor(const LogicalUnit& unit, bool long_form,
                          uint8_t* out) {
  const uint64_t count = unit.block_count();
  if (long_form) {
    StoreBe64(out, count);
    StoreBe32(out + 8, 0);
    StoreBe32(out + 12, unit.block_size());
    return kLongDescriptor;
  }
  StoreBe32(out, static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX)));
  out[4] = 0;
  StoreBe24(out + 5, unit.block_size());
  return kShortDescriptor;
}

struct PageRequest {
  ModePages::Values values;
  uint8_t page;
  uint8_t subpage;
};

PageRequest RequestedPage(const Task& task) {
  return {static_cast<ModePages::Values>(task.cdb[2] >> 6),
          static_cast<uint8_t>(task.cdb[2] & 0x3f), task.cdb[3]};
}

void SendModeData(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint8_t* cdb = task->cdb.data();
  const bool six = cdb[0] == kModeSense6;
  const bool long_form = !six && (cdb[1] & kLlbaa) != 0;
  const size_t header = six ? kHeader6 : kHeader10;
  uint8_t* out = task->buffer->data;
  const PageRequest request = RequestedPage(*task);

  size_t descriptor = 0;
  if ((cdb[1] & kDbd) == 0) {
    descriptor = PutBlockDescriptor(lu.lu(), long_form, out + header);
  }
  const size_t pages = lu.lu().mode_pages().Read(
      request.values, request.page, request.subpage, out + header + descriptor);
  if (pages == 0) return lu.InvalidCdbField(task, 2, 5);
  const size_t length = header + descriptor + pages;

  // MODE DATA LENGTH does not count itself.
  std::memset(out, 0, header);
  if (six) {
    out[0] = static_cast<uint8_t>(length - 1);
    out[2] = DeviceSpecificParameter(lu);
    out[3] = static_cast<uint8_t>(descriptor);
  } else {
    StoreBe16(out, static_cast<uint16_t>(length - 2));
    out[3] = DeviceSpecificParameter(lu);
    out[4] = long_form && descriptor > 0 ? kLongLba : 0;
    StoreBe16(out + 6, static_cast<uint16_t>(descriptor));
  }
  const uint64_t room = six ? cdb[4] : LoadBe16(cdb + 7);
  lu.GoodWithData(task, out, std::min<uint64_t>(length, room));
}

size_t ParameterListLength(const Task& task) {
  return task.cdb[0] == kModeSelect6 ? task.cdb[4] : LoadBe16(&task.cdb[7]);
}

// The block descriptor at `offset` of the list may only say what is.
bool CheckBlockDescriptor(const LogicalUnit& unit, const uint8_t* descriptor,
                          size_t length) {
  const bool long_form = length == kLongDescriptor;
  const uint64_t count =
      long_form ? LoadBe64(descriptor) : LoadBe32(descriptor);
  const uint32_t block_size =
      long_form ? LoadBe32(descriptor + 12) : LoadBe24(descriptor + 5);
  const bool count_ok = count == 0 || count == unit.block_count() ||
                        (!long_form && count == UINT32_MAX);
  return count_ok && block_size == unit.block_size();
}

void ApplyPages(Task* task, size_t offset) {
  LuNexus& lu = *task->lu_nexus;
  bool changed = false;
  const auto error = lu.lu().mode_pages().Select(
      {task->buffer->data + offset, task->chunk - offset}, &changed);
  if (error.has_value()) {
    if (error->code != AdditionalSense::kInvalidFieldInParameterList) {
      return lu.CheckCondition(task, SenseKey::kIllegalRequest, error->code);
    }
    return lu.InvalidParameter(task,
                               static_cast<uint16_t>(offset + error->byte),
                               error->bit.has_value() ? *error->bit : -1);
  }
  if (changed) {
    lu.nexus().target().EstablishForOthers(
        lu.shared_lu(), AdditionalSense::kModeParametersChanged, &lu.nexus());
  }
  lu.Good(task);
}

// With the parameter list, Task::chunk bytes, in the buffer.
void ApplyParameterList(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const uint8_t* list = task->buffer->data;
  const bool six = task->cdb[0] == kModeSelect6;
  const size_t header = six ? kHeader6 : kHeader10;
  if (task->chunk < header) {
    return lu.CheckCondition(task, SenseKey::kIllegalRequest,
                             AdditionalSense::kParameterListLengthError);
  }
  const size_t descriptor = six ? list[3] : LoadBe16(list + 6);
  const size_t descriptor_length =
      !six && (list[4] & kLongLba) != 0 ? kLongDescriptor : kShortDescriptor;
  if (descriptor != 0 && descriptor != descriptor_length) {
    return lu.InvalidParameter(task, six ? 3 : 6);
  }
  if (task->chunk < header + descriptor) {
    return lu.CheckCondition(task, SenseKey::kIllegalRequest,
                             AdditionalSense::kParameterListLengthError);
  }
  if (descriptor != 0 &&
      !CheckBlockDescriptor(lu.lu(), list + header, descriptor)) {
    return lu.InvalidParameter(task, static_cast<uint16_t>(header));
  }
  ApplyPages(task, header + descriptor);
}

void ReceiveParameterList(Task* task) {
  if (task->lu_nexus->ReceiveDataOut(task, 0, task->buffer->data, task->chunk,
                                     &ApplyParameterList)) {
    ApplyParameterList(task);
  }
}

}  // namespace

// SPC-4 sections 6.13 and 6.14.
void ModeSense(LuNexus& lu, Task* task) {
  const PageRequest request = RequestedPage(*task);
  if (request.values == ModePages::Values::kSaved) {
    return lu.CheckCondition(task, SenseKey::kIllegalRequest,
                             AdditionalSense::kSavingParametersNotSupported);
  }
  if (request.page == ModePages::kAllPages && request.subpage != 0 &&
      request.subpage != ModePages::kAllSubpages) {
    return lu.InvalidCdbField(task, 3);
  }
  constexpr size_t kLongest =
      kHeader10 + kLongDescriptor + ModePages::kMaxBytes;
  if (lu.AcquireBuffer(task, kLongest, &SendModeData)) SendModeData(task);
}

// SPC-4 sections 6.11 and 6.12.
void ModeSelect(LuNexus& lu, Task* task) {
  const size_t length = ParameterListLength(*task);
  if ((task->cdb[1] & kSp) != 0) return lu.InvalidCdbField(task, 1, 0);
  if (length == 0) return lu.Good(task);
  // Without PF the list is in a format of the vendor's, and there is none.
  if ((task->cdb[1] & kPf) == 0) return lu.InvalidCdbField(task, 1, 4);
  task->data_out_wanted = length;
  if (task->data_out_length < length) {
    return lu.CheckCondition(task, SenseKey::kIllegalRequest,
                             AdditionalSense::kParameterListLengthError);
  }
  task->chunk = static_cast<uint32_t>(length);
  if (lu.AcquireBuffer(task, length, &ReceiveParameterList)) {
    ReceiveParameterList(task);
  }
}

}  // namespace skiff::scsi
