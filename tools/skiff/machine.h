#ifndef SKIFF_TOOLS_SKIFF_MACHINE_H_
#define SKIFF_TOOLS_SKIFF_MACHINE_H_

#include <sys/resource.h>

#include <string>

#include "tools/skiff/base/transports_report.h"

namespace skiff::tools {

// Looks at the limits of this process and at the kernel. `root` stands before
// the paths that are read: empty, except in tests.
MachineReport ReadMachine(const std::string& root = "");

// Parts of it. `exempt`: the process may lock as much as it likes
// (CAP_IPC_LOCK, capabilities(7)).
LimitReport ReportLockedMemory(const rlimit& limit, bool exempt);
LimitReport ReportOpenFiles(const rlimit& limit);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_MACHINE_H_
