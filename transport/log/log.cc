#include "transport/log/log.h"

#include <poll.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/log/printable.h"

namespace skiff::transport {
namespace {

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warn ";
    case LogLevel::kInfo:
      return "info ";
    case LogLevel::kDebug:
      return "debug";
  }
  return "?";
}

// Never destroyed: threads may still log while the process exits.
LogSink& ProcessSink() {
  static LogSink* const kSink = new LogSink;
  return *kSink;
}

}  // namespace

std::string FormatLogLine(absl::Time now, LogLevel level,
                          absl::string_view message) {
  constexpr absl::string_view kCut = " ... (cut)";
  std::string line = absl::StrCat(
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", now, absl::UTCTimeZone()), " ",
      LevelName(level), " ");
  // At most ten bytes of one character: \U000e0001.
  while (!message.empty()) {
    if (line.size() > kMaxLogLine - kCut.size() - 11) {
      line.append(kCut.data(), kCut.size());
      break;
    }
    MovePrintable(&message, &line);
  }
  line.push_back('\n');
  return line;
}

void SetProcessLog(LogSink sink) { ProcessSink() = std::move(sink); }

void LogToProcess(LogLevel level, absl::string_view message) {
  if (const LogSink& sink = ProcessSink(); sink != nullptr) {
    return sink(level, message);
  }
  const std::string line = FormatLogLine(absl::Now(), level, message);
  // A pipe that is writable takes a line of this length at once (PIPE_BUF).
  pollfd out = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace skiff::transport
