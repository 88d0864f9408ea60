// Commands of SPC-4 that carry few or no data, and SBC-3's that a medium which
// is always there makes simple.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "scsi/endian.h"
#include "scsi/lun.h"
#include "scsi/target/commands/command_table.h"
#include "scsi/target/nexus_impl.h"

namespace skiff::scsi {

void TestUnitReady(LuNexus& lu, Task* task) {
  if (lu.kind() == LuNexus::Kind::kBlockDevice && !lu.CheckReady(task)) return;
  lu.Good(task);
}

namespace {

constexpr uint8_t kDesc = 0x01;

void SendSense(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  SenseData sense;
  if (lu.kind() == LuNexus::Kind::kNone) {
    sense.key = SenseKey::kIllegalRequest;
    sense.code = AdditionalSense::kLogicalUnitNotSupported;
  } else if (lu.unit_attentions().pending()) {
    sense.key = SenseKey::kUnitAttention;
    sense.code = lu.unit_attentions().Take();
  }
  const SenseFormat format = (task->cdb[1] & kDesc) != 0
                                 ? SenseFormat::kDescriptor
                                 : SenseFormat::kFixed;
  const size_t length = EncodeSense(sense, format, task->buffer->data);
  lu.GoodWithData(task, task->buffer->data,
                  std::min<uint64_t>(length, task->cdb[4]));
}

}  // namespace

// SPC-4 section 6.39. Sense data of commands go with their status, so that only
// a unit attention can be left to tell.
void RequestSense(LuNexus& lu, Task* task) {
  if (lu.AcquireBuffer(task, kMaxEncodedSense, &SendSense)) SendSense(task);
}

// SBC-3 section 5.20. Nothing here turns, and the medium cannot be ejected:
// power conditions are accepted and change nothing.
void StartStopUnit(LuNexus& lu, Task* task) {
  const bool start = (task->cdb[4] & 0x01) != 0;
  const bool load_eject = (task->cdb[4] & 0x02) != 0;
  if (load_eject && !start) return lu.InvalidCdbField(task, 4, 1);
  lu.Good(task);
}

// SBC-3 section 5.7. The medium is not removable: nothing to prevent.
void PreventAllowMediumRemoval(LuNexus& lu, Task* task) { lu.Good(task); }

namespace {

constexpr size_t kReportLunsHeader = 8;

enum SelectReport : uint8_t {
  kLogicalUnits = 0,
  kWellKnownLogicalUnits = 1,
  kAll = 2,
};

std::vector<uint64_t> LunsToReport(const Task& task) {
  std::vector<uint64_t> luns;
  const uint8_t select = task.cdb[2];
  if (select != kWellKnownLogicalUnits) {
    luns = task.lu_nexus->nexus().ReportedLuns();
  }
  if (select != kLogicalUnits) luns.push_back(kReportLunsWellKnownLun);
  return luns;
}

void SendLuns(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  const std::vector<uint64_t> luns = LunsToReport(*task);
  uint8_t* out = task->buffer->data;
  StoreBe32(out, static_cast<uint32_t>(luns.size() * 8));
  StoreBe32(out + 4, 0);
  // The list may have grown while the task waited for a buffer; a unit
  // attention tells then.
  uint8_t* p = out + kReportLunsHeader;
  for (const uint64_t lun : luns) {
    if (p + 8 > out + task->buffer->size) break;
    StoreBe64(p, lun);
    p += 8;
  }
  lu.nexus().ClearAnnouncedLuns();
  lu.GoodWithData(task, out,
                  std::min<uint64_t>(p - out, LoadBe32(&task->cdb[6])));
}

}  // namespace

// SPC-4 section 6.33.
void ReportLuns(LuNexus& lu, Task* task) {
  if (task->cdb[2] > kAll) return lu.InvalidCdbField(task, 2);
  const uint64_t length = kReportLunsHeader + LunsToReport(*task).size() * 8;
  if (lu.AcquireBuffer(task, length, &SendLuns)) SendLuns(task);
}

}  // namespace skiff::scsi
