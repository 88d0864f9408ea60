// transports: which ways there are to reach a target from this machine.

#include <string>

#include "tools/common/transports.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/machine.h"
#include "transport/registry.h"

namespace skiff::tools {

absl::StatusOr<TransportsReport> Transports() {
  transport::Registry registry;
  absl::Status status = AddTransports(&registry);
  if (!status.ok()) return status;
  TransportsReport report;
  for (transport::Transport* transport : registry.All()) {
    report.transports.push_back(
        {std::string(transport->scheme()), transport->Devices()});
  }
  report.machine = ReadMachine();
  return report;
}

}  // namespace skiff::tools
