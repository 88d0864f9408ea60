#include "scsi/target/commands/command_table.h"

#include <cstdint>

#include "absl/types/span.h"

namespace skiff::scsi {
namespace {

using I = CommandInfo;
using A = AccessClass;

constexpr int kNoSa = I::kNoServiceAction;
constexpr uint8_t kEverywhere = I::kWellKnown | I::kAnyLun;
constexpr uint8_t kNaca = 0x04;   // The one bit of CONTROL.
constexpr uint8_t kGroup = 0x3f;  // GROUP NUMBER: no statistics are kept.
constexpr uint8_t kFuaNv = 0x02;
constexpr uint8_t kSyncNv = 0x04;
constexpr uint8_t kPmi = 0x01;
constexpr uint8_t kX = 0xff;

// Operation code, service action, CDB length, flags, access class, usage,
// ignored, function.
// RDPROTECT, WRPROTECT and VRPROTECT are in no usage map: there is no
// protection information, so that only zero is valid (SBC-3 section 4.22).
// clang-format off
constexpr CommandInfo kCommands[] = {
    // TEST UNIT READY
    {0x00, kNoSa, 6, I::kWellKnown, A::kIdentify, {0x00, 0, 0, 0, 0, kNaca}, {},
     &TestUnitReady},
    // REQUEST SENSE
    {0x03, kNoSa, 6, kEverywhere | I::kIgnoresUnitAttention, A::kIdentify,
     {0x03, 0x01, 0, 0, kX, kNaca}, {}, &RequestSense},
    // READ (6)
    {0x08, kNoSa, 6, I::kReads, A::kRead,
     {0x08, 0x1f, kX, kX, kX, kNaca}, {}, &Read},
    // WRITE (6)
    {0x0a, kNoSa, 6, I::kWrites, A::kWrite,
     {0x0a, 0x1f, kX, kX, kX, kNaca}, {}, &Write},
    // INQUIRY
    {0x12, kNoSa, 6, kEverywhere | I::kIgnoresUnitAttention, A::kIdentify,
     {0x12, 0x01, kX, kX, kX, kNaca}, {}, &Inquiry},
    // MODE SELECT (6)
    {0x15, kNoSa, 6, I::kNone, A::kControl,
     {0x15, 0x11, 0, 0, kX, kNaca}, {}, &ModeSelect},
    // MODE SENSE (6)
    {0x1a, kNoSa, 6, I::kNone, A::kRead,
     {0x1a, 0x08, kX, kX, kX, kNaca}, {}, &ModeSense},
    // START STOP UNIT
    {0x1b, kNoSa, 6, I::kNone, A::kControl,
     {0x1b, 0x01, 0, 0x0f, 0xf7, kNaca}, {}, &StartStopUnit},
    // SEND DIAGNOSTIC: SELFTEST. It may disturb others (DEVOFFL, UNITOFFL).
    {0x1d, kNoSa, 6, I::kNone, A::kRead, {0x1d, 0x04, 0, 0, 0, kNaca},
     {0, 0x03}, &SendDiagnostic},
    // PREVENT ALLOW MEDIUM REMOVAL
    {0x1e, kNoSa, 6, I::kNone, A::kControl, {0x1e, 0, 0, 0, 0x03, kNaca}, {},
     &PreventAllowMediumRemoval},
    // READ CAPACITY (10). SBC-3 retired LOGICAL BLOCK ADDRESS and PMI.
    {0x25, kNoSa, 10, I::kNone, A::kIdentify,
     {0x25, 0, 0, 0, 0, 0, 0, 0, 0, kNaca},
     {0, 0x01, kX, kX, kX, kX, 0, 0, kPmi}, &ReadCapacity10},
    // READ (10)
    {0x28, kNoSa, 10, I::kReads, A::kRead,
     {0x28, 0x18, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, kGroup}, &Read},
    // WRITE (10)
    {0x2a, kNoSa, 10, I::kWrites, A::kWrite,
     {0x2a, 0x18, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, kGroup}, &Write},
    // WRITE AND VERIFY (10)
    {0x2e, kNoSa, 10, I::kWrites, A::kWrite,
     {0x2e, 0x16, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, 0, 0, 0, 0, 0, kGroup}, &WriteAndVerify},
    // VERIFY (10)
    {0x2f, kNoSa, 10, I::kNone, A::kRead,
     {0x2f, 0x16, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, 0, 0, 0, 0, 0, kGroup}, &Verify},
    // PRE-FETCH (10)
    {0x34, kNoSa, 10, I::kNone, A::kRead,
     {0x34, 0x02, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, 0, 0, 0, 0, 0, kGroup}, &PreFetch},
    // SYNCHRONIZE CACHE (10). It changes nothing that can be read.
    {0x35, kNoSa, 10, I::kNone, A::kRead,
     {0x35, 0x02, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, kSyncNv, 0, 0, 0, 0, kGroup}, &SynchronizeCache},
    // WRITE SAME (10)
    {0x41, kNoSa, 10, I::kNone, A::kWrite,
     {0x41, 0x18, kX, kX, kX, kX, 0, kX, kX, kNaca},
     {0, 0, 0, 0, 0, 0, kGroup}, &WriteSame},
    // UNMAP
    {0x42, kNoSa, 10, I::kThin, A::kWrite,
     {0x42, 0x01, 0, 0, 0, 0, 0, kX, kX, kNaca},
     {0, 0, 0, 0, 0, 0, kGroup}, &Unmap},
    // MODE SELECT (10)
    {0x55, kNoSa, 10, I::kNone, A::kControl,
     {0x55, 0x11, 0, 0, 0, 0, 0, kX, kX, kNaca}, {}, &ModeSelect},
    // MODE SENSE (10)
    {0x5a, kNoSa, 10, I::kNone, A::kRead,
     {0x5a, 0x18, kX, kX, 0, 0, 0, kX, kX, kNaca}, {}, &ModeSense},
    // READ (16)
    {0x88, kNoSa, 16, I::kReads, A::kRead,
     {0x88, 0x18, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &Read},
    // COMPARE AND WRITE
    {0x89, kNoSa, 16, I::kNone, A::kWrite,
     {0x89, 0x18, kX, kX, kX, kX, kX, kX, kX, kX, 0, 0, 0, kX, 0, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &CompareAndWrite},
    // WRITE (16)
    {0x8a, kNoSa, 16, I::kWrites, A::kWrite,
     {0x8a, 0x18, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &Write},
    // WRITE AND VERIFY (16)
    {0x8e, kNoSa, 16, I::kWrites, A::kWrite,
     {0x8e, 0x16, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &WriteAndVerify},
    // VERIFY (16)
    {0x8f, kNoSa, 16, I::kNone, A::kRead,
     {0x8f, 0x16, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &Verify},
    // PRE-FETCH (16)
    {0x90, kNoSa, 16, I::kNone, A::kRead,
     {0x90, 0x02, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &PreFetch},
    // SYNCHRONIZE CACHE (16)
    {0x91, kNoSa, 16, I::kNone, A::kRead,
     {0x91, 0x02, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, kSyncNv, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup},
     &SynchronizeCache},
    // WRITE SAME (16)
    {0x93, kNoSa, 16, I::kNone, A::kWrite,
     {0x93, 0x19, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &WriteSame},
    // SERVICE ACTION IN (16): READ CAPACITY (16)
    {0x9e, 0x10, 16, I::kNone, A::kIdentify,
     {0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, kX, kX, kX, kX, 0, kNaca},
     {0, 0, kX, kX, kX, kX, kX, kX, kX, kX, 0, 0, 0, 0, kPmi}, &ReadCapacity16},
    // SERVICE ACTION IN (16): GET LBA STATUS
    {0x9e, 0x12, 16, I::kNone, A::kRead,
     {0x9e, 0x12, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {}, &GetLbaStatus},
    // REPORT LUNS
    {0xa0, kNoSa, 12, kEverywhere | I::kIgnoresUnitAttention, A::kIdentify,
     {0xa0, 0, kX, 0, 0, 0, kX, kX, kX, kX, 0, kNaca}, {}, &ReportLuns},
    // MAINTENANCE IN: REPORT SUPPORTED OPERATION CODES
    {0xa3, 0x0c, 12, I::kNone, A::kIdentify,
     {0xa3, 0x0c, 0x87, kX, kX, kX, kX, kX, kX, kX, 0, kNaca}, {},
     &ReportSupportedOperationCodes},
    // MAINTENANCE IN: REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS
    {0xa3, 0x0d, 12, I::kNone, A::kIdentify,
     {0xa3, 0x0d, 0x80, 0, 0, 0, kX, kX, kX, kX, 0, kNaca}, {},
     &ReportSupportedTaskManagementFunctions},
    // READ (12)
    {0xa8, kNoSa, 12, I::kReads, A::kRead,
     {0xa8, 0x18, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &Read},
    // WRITE (12)
    {0xaa, kNoSa, 12, I::kWrites, A::kWrite,
     {0xaa, 0x18, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, kFuaNv, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &Write},
    // WRITE AND VERIFY (12)
    {0xae, kNoSa, 12, I::kWrites, A::kWrite,
     {0xae, 0x16, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &WriteAndVerify},
    // VERIFY (12)
    {0xaf, kNoSa, 12, I::kNone, A::kRead,
     {0xaf, 0x16, kX, kX, kX, kX, kX, kX, kX, kX, 0, kNaca},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kGroup}, &Verify},
};
// clang-format on

constexpr CommandSet kAllCommands{absl::Span<const CommandInfo>(kCommands)};

}  // namespace

const CommandSet& AllCommands() { return kAllCommands; }

}  // namespace skiff::scsi
