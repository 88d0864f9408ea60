#include <algorithm>
#include <cstring>

#include "scsi/endian.h"
#include "scsi/target/commands/command_table.h"

namespace skiff::scsi {
namespace {

// REPORTING OPTIONS, SPC-4 table 274.
enum ReportingOptions : uint8_t {
  kAllCommands = 0,
  kOperationCode = 1,
  kServiceAction = 2,
  kEither = 3,
};

constexpr uint8_t kRctd = 0x80;
constexpr uint8_t kReportingOptionsMask = 0x07;
constexpr size_t kTimeoutsDescriptor = 12;

// Command timeouts are not specified: all zeroes.
size_t PutTimeouts(uint8_t* out) {
  std::memset(out, 0, kTimeoutsDescriptor);
  StoreBe16(out, kTimeoutsDescriptor - 2);
  return kTimeoutsDescriptor;
}

size_t PutAllCommands(const LuNexus& lu, bool timeouts, uint8_t* out) {
  constexpr uint8_t kCtdp = 0x02;
  constexpr uint8_t kServactv = 0x01;
  uint8_t* p = out + 4;
  for (const CommandInfo& info : lu.commands().all()) {
    if (!lu.Implements(info)) continue;
    std::memset(p, 0, 8);
    p[0] = info.opcode;
    if (info.service_action != CommandInfo::kNoServiceAction) {
      StoreBe16(p + 2, static_cast<uint16_t>(info.service_action));
      p[5] |= kServactv;
    }
    if (timeouts) p[5] |= kCtdp;
    StoreBe16(p + 6, info.length);
    p += 8;
    if (timeouts) p += PutTimeouts(p);
  }
  const size_t length = static_cast<size_t>(p - out);
  StoreBe32(out, static_cast<uint32_t>(length - 4));
  return length;
}

size_t PutOneCommand(const CommandInfo* info, bool timeouts, uint8_t* out) {
  constexpr uint8_t kNotSupported = 1;
  constexpr uint8_t kSupported = 3;
  constexpr uint8_t kCtdp = 0x80;
  std::memset(out, 0, 4);
  if (info == nullptr) {
    out[1] = kNotSupported;
    return 4;
  }
  out[1] = kSupported | (timeouts ? kCtdp : 0);
  StoreBe16(out + 2, info->length);
  std::memcpy(out + 4, info->usage.data(), info->length);
  size_t length = size_t{4} + info->length;
  if (timeouts) length += PutTimeouts(out + length);
  return length;
}

// The command that the CDB asks about; `*has_service_actions` tells about its
// operation code.
const CommandInfo* RequestedCommand(const LuNexus& lu, const Task& task,
                                    bool* has_service_actions) {
  const uint8_t opcode = task.cdb[3];
  const int service_action = LoadBe16(&task.cdb[4]);
  *has_service_actions = false;
  const CommandInfo* found = nullptr;
  for (const CommandInfo& info : lu.commands().all()) {
    if (info.opcode != opcode || !lu.Implements(info)) continue;
    if (info.service_action == CommandInfo::kNoServiceAction) return &info;
    *has_service_actions = true;
    if (info.service_action == service_action) found = &info;
  }
  return found;
}

void SendOperationCodes(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const bool timeouts = (task->cdb[2] & kRctd) != 0;
  uint8_t* out = task->buffer->data;
  size_t length = 0;
  if ((task->cdb[2] & kReportingOptionsMask) == kAllCommands) {
    length = PutAllCommands(lu, timeouts, out);
  } else {
    bool has_service_actions = false;
    length = PutOneCommand(RequestedCommand(lu, *task, &has_service_actions),
                           timeouts, out);
  }
  lu.GoodWithData(task, out,
                  std::min<uint64_t>(length, LoadBe32(&task->cdb[6])));
}

void SendTaskManagementFunctions(Task* task) {
  constexpr uint8_t kRepd = 0x80;
  // ATS, ATSS, CACAS, CTSS, LURS, TRS.
  constexpr uint8_t kSupported = 0x80 | 0x40 | 0x20 | 0x10 | 0x08 | 0x02;
  LuNexus& lu = *task->lu_nexus;
  const size_t length = (task->cdb[2] & kRepd) != 0 ? 16 : 4;
  uint8_t* out = task->buffer->data;
  std::memset(out, 0, length);
  out[0] = kSupported;
  out[3] = static_cast<uint8_t>(length - 4);
  lu.GoodWithData(task, out,
                  std::min<uint64_t>(length, LoadBe32(&task->cdb[6])));
}

}  // namespace

// SPC-4 section 6.35.
void ReportSupportedOperationCodes(LuNexus& lu, Task* task) {
  const uint8_t options = task->cdb[2] & kReportingOptionsMask;
  if (options > kEither) return lu.InvalidCdbField(task, 2, 2);
  bool has_service_actions = false;
  const CommandInfo* info = RequestedCommand(lu, *task, &has_service_actions);
  if (options == kOperationCode && has_service_actions) {
    return lu.InvalidCdbField(task, 2, 2);
  }
  if (options == kServiceAction && info != nullptr && !has_service_actions) {
    return lu.InvalidCdbField(task, 2, 2);
  }
  const size_t longest =
      4 + lu.commands().all().size() * (8 + kTimeoutsDescriptor);
  if (lu.AcquireBuffer(task, longest, &SendOperationCodes)) {
    SendOperationCodes(task);
  }
}

// SPC-4 section 6.36.
void ReportSupportedTaskManagementFunctions(LuNexus& lu, Task* task) {
  if (lu.AcquireBuffer(task, 16, &SendTaskManagementFunctions)) {
    SendTaskManagementFunctions(task);
  }
}

}  // namespace skiff::scsi
