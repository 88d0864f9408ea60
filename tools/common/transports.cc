#include "tools/common/transports.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/auto/auto_transport.h"
#include "transport/tcp/tcp_transport.h"

// What transports.bzl leaves out.
#ifndef SKIFF_WITHOUT_LIBFABRIC
#include "transport/libfabric/fabric/libfabric_library.h"
#include "transport/libfabric/libfabric_transport.h"
#endif
#ifndef SKIFF_WITHOUT_VERBS
#include "transport/verbs/verbs_transport.h"
#endif

namespace skiff::tools {

absl::Status AddTransports(transport::Registry* registry) {
  absl::Status status;
#ifndef SKIFF_WITHOUT_VERBS
  status = registry->Add(transport::MakeVerbsTransport());
#endif
#ifndef SKIFF_WITHOUT_LIBFABRIC
  if (status.ok()) status = registry->Add(transport::MakeLibfabricTransport());
#endif
  if (status.ok()) status = registry->Add(transport::MakeTcpTransport());
  return status;
}

absl::Status AddAuto(transport::Registry* registry, protocol::LogSink log,
                     transport::ChoiceObserver observer) {
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

absl::Status AddTransportsAndAuto(transport::Registry* registry,
                                  protocol::LogSink log,
                                  transport::ChoiceObserver observer) {
  absl::Status status = AddTransports(registry);
  if (!status.ok()) return status;
  return AddAuto(registry, std::move(log), std::move(observer));
}

void LoadLibraryOf([[maybe_unused]] absl::string_view scheme) {
#ifndef SKIFF_WITHOUT_LIBFABRIC
  // auto:// looks at devices on a thread of its own, and so loads all there.
  if (scheme == "libfabric") transport::LoadLibfabric().IgnoreError();
#endif
}

}  // namespace skiff::tools
