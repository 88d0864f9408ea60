#ifndef SKIFF_TOOLS_SKIFFD_MANAGEMENT_CALLS_H_
#define SKIFF_TOOLS_SKIFFD_MANAGEMENT_CALLS_H_

#include <string>

#include "tools/management/rpc_server.h"
#include "tools/skiffd/controls.h"

namespace skiff::tools::skiffd {

// Does what a call of management.proto asks for. `method` and `request` may be
// anything.
RpcAnswer AnswerCall(const std::string& method, const std::string& request,
                     Controls* controls);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_MANAGEMENT_CALLS_H_
