#ifndef SKIFF_TOOLS_COMMON_TRANSPORTS_H_
#define SKIFF_TOOLS_COMMON_TRANSPORTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protocol/target/target_server.h"
#include "transport/auto/choice_report.h"
#include "transport/registry.h"

namespace skiff::tools {

// Adds every transport that this build has, the better one first.
absl::Status AddTransports(transport::Registry* registry);

// Adds `auto`, which chooses between those that are there, and has to be the
// last one. Each choice goes to the log: as a warning where RDMA was preferred
// and is not had, for people who want details otherwise. `log` is called on the
// threads of reactors, as is `observer`, unless it is null. The registry stays
// where it is.
absl::Status AddAuto(transport::Registry* registry, protocol::LogSink log,
                     transport::ChoiceObserver observer = nullptr);

// Both.
absl::Status AddTransportsAndAuto(transport::Registry* registry,
                                  protocol::LogSink log,
                                  transport::ChoiceObserver observer = nullptr);

// Loads the library that a transport needs, where it has one that takes long,
// so that no reactor waits for it. Whoever uses the transport then is told what
// went wrong.
void LoadLibraryOf(absl::string_view scheme);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_TRANSPORTS_H_
