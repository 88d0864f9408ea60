#ifndef SKIFF_TOOLS_COMMON_TRANSPORTS_H_
#define SKIFF_TOOLS_COMMON_TRANSPORTS_H_

#include "absl/status/status.h"
#include "transport/registry.h"

namespace skiff::tools {

// Adds every transport that Skiff has, the better one first.
absl::Status AddTransports(transport::Registry* registry);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_TRANSPORTS_H_
