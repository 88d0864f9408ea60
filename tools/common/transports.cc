#include "tools/common/transports.h"

#include "transport/libfabric/libfabric_backend.h"
#include "transport/tcp/tcp_backend.h"
#include "transport/verbs/verbs_backend.h"

namespace skiff::tools {

absl::Status AddTransports(transport::Registry* registry) {
  absl::Status status = registry->Add(transport::MakeVerbsBackend());
  if (status.ok()) status = registry->Add(transport::MakeLibfabricBackend());
  if (status.ok()) status = registry->Add(transport::MakeTcpBackend());
  return status;
}

}  // namespace skiff::tools
