#include "tools/common/stderr_log.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/time/clock.h"

namespace skiff::tools {
namespace {

std::atomic<StderrLog*> current{nullptr};

}  // namespace

StderrLog::StderrLog(const Options& options)
    : flush_timeout_(options.flush_timeout), log_(options.queue) {
  current = this;
  transport::SetProcessLog(StderrSink(options.level));
  log_.WriteOnFatalSignals();
}

StderrLog::~StderrLog() {
  Flush();
  current = nullptr;
}

void LogToStderr(protocol::LogLevel level, absl::string_view message) {
  if (StderrLog* const log = current.load()) {
    return log->Write(level, message);
  }
  // Before and after, when nobody is served.
  const std::string line =
      transport::FormatLogLine(absl::Now(), level, message);
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

void FlushStderrLog() {
  if (StderrLog* const log = current.load()) log->Flush();
}

protocol::LogSink StderrSink(protocol::LogLevel level) {
  return [level](protocol::LogLevel of_message, absl::string_view message) {
    if (of_message <= level) LogToStderr(of_message, message);
  };
}

}  // namespace skiff::tools
