#ifndef SKIFF_TOOLS_SKIFFD_MANAGEMENT_CHECK_H_
#define SKIFF_TOOLS_SKIFFD_MANAGEMENT_CHECK_H_

#include "tools/skiffd/checker.h"
#include "tools/skiffd/config.h"

namespace skiff::tools::skiffd {

// Who may manage the daemon, and where.
ManagementConfig CheckManagement(const Config& config, Checker* checker);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_MANAGEMENT_CHECK_H_
