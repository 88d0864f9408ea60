#ifndef SKIFF_TOOLS_COMMON_TRANSPORTS_H_
#define SKIFF_TOOLS_COMMON_TRANSPORTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protocol/target/target_server.h"
#include "transport/auto/choice_report.h"
#include "transport/registry.h"
#include "transport/trace/tracing_backend.h"

namespace skiff::tools {

// Adds every transport that Skiff has, the better one first. `capture`, unless
// it is null, gets what TCP connections carry; what RDMA connections carry, the
// options of targets and initiators capture.
absl::Status AddTransports(transport::Registry* registry,
                           const transport::CaptureSink& capture = nullptr);

// Adds `auto`, too, which chooses between them. Each choice goes to the log: as
// a warning where RDMA was preferred and is not had, for people who want
// details otherwise. `log` is called on the threads of reactors, as is
// `observer`, unless it is null. The registry stays where it is.
absl::Status AddTransportsAndAuto(transport::Registry* registry,
                                  protocol::LogSink log,
                                  const transport::CaptureSink& capture,
                                  transport::ChoiceObserver observer = nullptr);

// Loads the library that a transport needs, where it has one that takes long,
// so that no reactor waits for it. Whoever uses the transport then is told what
// went wrong.
void LoadLibraryOf(absl::string_view scheme);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_TRANSPORTS_H_
