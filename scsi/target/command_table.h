#ifndef SKIFF_SCSI_TARGET_COMMAND_TABLE_H_
#define SKIFF_SCSI_TARGET_COMMAND_TABLE_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "scsi/target/lu_nexus.h"
#include "scsi/target/task.h"

namespace skiff::scsi {

// One command, or one service action of one. The same table dispatches, checks
// CDBs, and answers REPORT SUPPORTED OPERATION CODES.
struct CommandInfo {
  enum Flag : uint8_t {
    kNone = 0,
    // Implemented by the REPORT LUNS well-known logical unit too.
    kWellKnown = 1,
    // Answered although no logical unit is there.
    kAnyLun = 2,
    // Not terminated by a pending unit attention (SPC-4 section 5.x, SAM-5
    // section 5.14.1).
    kIgnoresUnitAttention = 4,
    // Changes the medium.
    kWrites = 8,
    // Only on thin provisioned media.
    kThin = 16,
  };
  static constexpr int kNoServiceAction = -1;

  uint8_t opcode;
  int service_action;
  uint8_t length;  // Of the CDB.
  uint8_t flags;
  // CDB USAGE DATA (SPC-4 section 6.35.3): the bits that are looked at. Any
  // other bit set makes the CDB invalid, unless it is in `ignored`.
  std::array<uint8_t, 16> usage;
  // Bits that were retired; senders of old still set them.
  std::array<uint8_t, 16> ignored;
  void (*start)(LuNexus& lu, Task* task);
};

// Every command, ordered by operation code and service action.
absl::Span<const CommandInfo> AllCommands();

// The command for a CDB; null when there is none. `*opcode_known` tells whether
// only the service action is unknown.
const CommandInfo* FindCommand(const uint8_t* cdb, bool* opcode_known);

// Whether this kind of logical unit, with this medium, implements the command.
bool Implements(const LuNexus& lu, const CommandInfo& info);

// The first bit of the CDB that must not be set, as byte * 8 + bit; -1: none.
int FirstInvalidBit(const CommandInfo& info, const uint8_t* cdb);

// The commands, by family.

// primary_commands.cc
void TestUnitReady(LuNexus& lu, Task* task);
void RequestSense(LuNexus& lu, Task* task);
void StartStopUnit(LuNexus& lu, Task* task);
void PreventAllowMediumRemoval(LuNexus& lu, Task* task);
void ReportLuns(LuNexus& lu, Task* task);
// inquiry.cc
void Inquiry(LuNexus& lu, Task* task);
// mode_commands.cc
void ModeSense(LuNexus& lu, Task* task);
void ModeSelect(LuNexus& lu, Task* task);
// report_supported.cc
void ReportSupportedOperationCodes(LuNexus& lu, Task* task);
void ReportSupportedTaskManagementFunctions(LuNexus& lu, Task* task);
// capacity.cc
void ReadCapacity10(LuNexus& lu, Task* task);
void ReadCapacity16(LuNexus& lu, Task* task);
void GetLbaStatus(LuNexus& lu, Task* task);
// read.cc
void Read(LuNexus& lu, Task* task);
void PreFetch(LuNexus& lu, Task* task);
// write.cc
void Write(LuNexus& lu, Task* task);
void SynchronizeCache(LuNexus& lu, Task* task);
// verify.cc
void Verify(LuNexus& lu, Task* task);
void WriteAndVerify(LuNexus& lu, Task* task);
// write_same.cc
void WriteSame(LuNexus& lu, Task* task);
// unmap.cc
void Unmap(LuNexus& lu, Task* task);
// compare_and_write.cc
void CompareAndWrite(LuNexus& lu, Task* task);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_COMMAND_TABLE_H_
