#include "tools/common/stderr_log.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace skiff::tools {
namespace {

absl::string_view LevelName(protocol::LogLevel level) {
  switch (level) {
    case protocol::LogLevel::kError:
      return "error";
    case protocol::LogLevel::kWarning:
      return "warn ";
    case protocol::LogLevel::kInfo:
      return "info ";
    case protocol::LogLevel::kDebug:
      return "debug";
  }
  return "?";
}

}  // namespace

void LogToStderr(protocol::LogLevel level, absl::string_view message) {
  const std::string line =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(),
                                    absl::UTCTimeZone()),
                   " ", LevelName(level), " ", message, "\n");
  // One call for a line. Nothing can be done when standard error is gone.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

protocol::LogSink StderrSink(protocol::LogLevel level) {
  return [level](protocol::LogLevel of_message, absl::string_view message) {
    if (of_message <= level) LogToStderr(of_message, message);
  };
}

}  // namespace skiff::tools
