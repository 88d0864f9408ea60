#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/common/process.h"
#include "tools/common/stderr_log.h"
#include "tools/skiff/base/endpoint.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/base/json.h"
#include "tools/skiff/base/text.h"
#include "tools/skiff/command_line.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/interrupt.h"
#include "transport/log/printable.h"

namespace skiff::tools {
namespace {

int Fail(const CommonOptions& common, const absl::Status& status) {
  const int interrupted = InterruptedExitStatus();
  const int code = absl::IsCancelled(status) && interrupted != 0
                       ? interrupted
                       : static_cast<int>(ExitCodeOf(status));
  const std::string message(status.message());
  FlushStderrLog();
  std::fprintf(stderr, "skiff: %s\n", transport::Printable(message).c_str());
  if (common.json)
    std::printf("%s\n", ToJson(ErrorReport{code, message}).c_str());
  return code;
}

template <typename Report>
int Print(const CommonOptions& common, const absl::StatusOr<Report>& report) {
  if (!report.ok()) return Fail(common, report.status());
  if (common.json) {
    std::printf("%s\n", ToJson(*report).c_str());
  } else {
    std::fputs(transport::Printable(ToText(*report), "\n").c_str(), stdout);
  }
  return InterruptedExitStatus();
}

ExitCode DoctorExitCode(Severity worst) {
  switch (worst) {
    case Severity::kFine:
    case Severity::kNote:
      return ExitCode::kOk;
    case Severity::kWarning:
      return ExitCode::kFailed;
    case Severity::kError:
      break;
  }
  return ExitCode::kNoSession;
}

// Runs the subcommand of a command line.
class Runner {
 public:
  explicit Runner(const CommonOptions& common) : common_(common) {}

  int operator()(const DiscoverOptions& o) {
    return Print(common_, Discover(common_, o));
  }
  int operator()(const ListOptions& o) {
    const auto report = List(common_, o);
    const int code = Print(common_, report);
    return code == 0 && report->incomplete()
               ? static_cast<int>(ExitCode::kFailed)
               : code;
  }
  int operator()(const InquiryOptions& o) {
    return Print(common_, Inquire(common_, o));
  }
  int operator()(const CapacityOptions& o) {
    return Print(common_, Capacity(common_, o));
  }
  int operator()(const PerfOptions& o) {
    return Print(common_, Perf(common_, o));
  }
  int operator()(const PingOptions& o) {
    const auto report = Ping(common_, o);
    const int code = Print(common_, report);
    // Not all that were sent were answered.
    return code == 0 && report->round_trips_us.size() < report->sent
               ? static_cast<int>(ExitCode::kFailed)
               : code;
  }
  int operator()(const TransportsOptions& /*o*/) {
    return Print(common_, Transports());
  }
  int operator()(const DoctorOptions& o) {
    const auto report = Doctor(common_, o);
    const int code = Print(common_, report);
    return code == 0 ? static_cast<int>(DoctorExitCode(report->worst())) : code;
  }
  int operator()(const DumpOptions& o) {
    const absl::StatusOr<std::string> text = DumpCapture(o);
    if (!text.ok()) return Fail(common_, text.status());
    std::fputs(transport::Printable(*text, "\n").c_str(), stdout);
    return static_cast<int>(ExitCode::kOk);
  }
  int operator()(const ResetOptions& o) {
    const absl::Status status = Reset(common_, o);
    return status.ok() ? 0 : Fail(common_, status);
  }
  int operator()(const CopyOptions& o);

 private:
  const CommonOptions& common_;
};

int Runner::operator()(const CopyOptions& o) {
  const bool to_stdout = o.destination == "-";
  if (to_stdout && common_.json) {
    return Fail(common_, UsageError("--json: standard output is taken by the "
                                    "data; write them to a file"));
  }
  if (to_stdout && isatty(STDOUT_FILENO) != 0) {
    return Fail(common_,
                UsageError("standard output is a terminal; write to a file, or "
                           "pipe into a program such as xxd"));
  }
  const absl::StatusOr<CopyReport> report = Copy(common_, o);
  if (!report.ok() || common_.json) return Print(common_, report);
  // Standard output may be the destination.
  if (!o.quiet) {
    std::fputs(transport::Printable(ToText(*report), "\n").c_str(), stderr);
  }
  return InterruptedExitStatus();
}

int Main(int argc, char** argv) {
  if (!PrepareProcess()) return static_cast<int>(ExitCode::kFailed);
  CommandLine line;
  if (const std::optional<int> code = ParseCommandLine(argc, argv, &line)) {
    return *code;
  }
  const StderrLog log{StderrLog::Options()};
  WatchForInterrupts([json = line.common.json](int status) {
    FlushStderrLog();
    std::fputs("skiff: interrupted\n", stderr);
    if (!json) return;
    std::printf("%s\n", ToJson(ErrorReport{status, "interrupted"}).c_str());
    std::fflush(stdout);
  });
  const absl::Status refused = RefuseSecrets();
  if (!refused.ok()) return Fail(line.common, refused);
  const int code = std::visit(Runner(line.common), line.command);
  if (std::fflush(stdout) != 0) {
    std::perror("skiff: cannot write to standard output");
    return static_cast<int>(ExitCode::kFailed);
  }
  return code;
}

}  // namespace
}  // namespace skiff::tools

int main(int argc, char** argv) { return skiff::tools::Main(argc, argv); }
