#ifndef SKIFF_TOOLS_SKIFF_COMMANDS_H_
#define SKIFF_TOOLS_SKIFF_COMMANDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/skiff/base/options.h"
#include "tools/skiff/base/report.h"
#include "tools/skiff/base/transports_report.h"
#include "tools/skiff/doctor/finding.h"

// The subcommands, without their printing. Errors carry the exit code
// (base/exit_code.h).

namespace skiff::tools {

absl::StatusOr<DiscoveryReport> Discover(const CommonOptions& common,
                                         const DiscoverOptions& options);
absl::StatusOr<ListReport> List(const CommonOptions& common,
                                const ListOptions& options);
absl::StatusOr<FactsReport> Inquire(const CommonOptions& common,
                                    const InquiryOptions& options);
absl::StatusOr<FactsReport> Capacity(const CommonOptions& common,
                                     const CapacityOptions& options);
absl::StatusOr<CopyReport> Copy(const CommonOptions& common,
                                const CopyOptions& options);
absl::StatusOr<PerfReport> Perf(const CommonOptions& common,
                                const PerfOptions& options);
absl::StatusOr<PingReport> Ping(const CommonOptions& common,
                                const PingOptions& options);
absl::StatusOr<TransportsReport> Transports();
absl::StatusOr<DoctorReport> Doctor(const CommonOptions& common,
                                    const DoctorOptions& options);
// The text to print.
absl::StatusOr<std::string> DumpCapture(const DumpOptions& options);
absl::Status Reset(const CommonOptions& common, const ResetOptions& options);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COMMANDS_H_
