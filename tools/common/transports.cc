#include "tools/common/transports.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/auto/auto_transport.h"
#include "transport/libfabric/fabric/libfabric_library.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::tools {

absl::Status AddTransports(transport::Registry* registry) {
  absl::Status status = registry->Add(transport::MakeVerbsTransport());
  if (status.ok()) status = registry->Add(transport::MakeLibfabricTransport());
  if (status.ok()) status = registry->Add(transport::MakeTcpTransport());
  return status;
}

absl::Status AddTransportsAndAuto(transport::Registry* registry,
                                  protocol::LogSink log,
                                  transport::ChoiceObserver observer) {
  absl::Status status = AddTransports(registry);
  if (!status.ok()) return status;
  return registry->Add(transport::MakeAutoTransport(
      registry, [log = std::move(log), observer = std::move(observer)](
                    const transport::ChoiceReport& report) {
        if (observer) observer(report);
        if (report.fell_back()) {
          log(protocol::LogLevel::kWarning,
              absl::StrCat(report.address,
                           ": TCP instead of RDMA: ", report.WhyNoRdma()));
        }
        log(protocol::LogLevel::kDebug, report.ToString());
      }));
}

void LoadLibraryOf(absl::string_view scheme) {
  // auto:// looks at devices on a thread of its own, and so loads all there.
  if (scheme == "libfabric") transport::LoadLibfabric().IgnoreError();
}

}  // namespace skiff::tools
