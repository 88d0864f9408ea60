#ifndef SKIFF_SCSI_BACKEND_MEMORY_LIMIT_H_
#define SKIFF_SCSI_BACKEND_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace skiff::scsi {

// The memory in bytes that this process may use: the machine's, or the limit of
// its control group or of one above it, or that of its address space (`ulimit
// -v`), whichever is least. A limit that cannot
// be read does not count. Zero: unknown.
uint64_t UsableMemory();

// The least memory limit of this process's control group and of those above it,
// as far as they are mounted: memory.max in version 2, memory.limit_in_bytes in
// version 1 (cgroups(7)). The largest number if there is none. `root` stands
// before the paths /proc and /sys (for tests).
uint64_t ControlGroupMemoryLimit(const std::string& root = "");

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_MEMORY_LIMIT_H_
