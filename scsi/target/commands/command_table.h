#ifndef SKIFF_SCSI_TARGET_COMMANDS_COMMAND_TABLE_H_
#define SKIFF_SCSI_TARGET_COMMANDS_COMMAND_TABLE_H_

#include "scsi/target/command_set.h"
#include "scsi/target/lu_nexus.h"
#include "scsi/target/task.h"

namespace skiff::scsi {

// Every command.
const CommandSet& AllCommands();

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
// send_diagnostic.cc
void SendDiagnostic(LuNexus& lu, Task* task);
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

#endif  // SKIFF_SCSI_TARGET_COMMANDS_COMMAND_TABLE_H_
