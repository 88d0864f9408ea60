#include "tools/common/stderr_log.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/common/journal_stream.h"

namespace skiff::tools {
namespace {

std::atomic<StderrLog*> current{nullptr};

transport::QueuedLogOptions QueueOf(const StderrLog::Options& options) {
  transport::QueuedLogOptions queue = options.queue;
  queue.priorities =
      options.format != LogFormat::kJournal && IsJournalStream(queue.fd);
  if (options.format == LogFormat::kJson) queue.format = FormatJsonLine;
  return queue;
}

}  // namespace

StderrLog::StderrLog(const Options& options)
    : flush_timeout_(options.flush_timeout),
      level_(options.level),
      log_(QueueOf(options)) {
  current = this;
  transport::SetProcessLog(Sink());
  log_.WriteOnFatalSignals();
}

StderrLog::~StderrLog() {
  Flush();
  transport::SetProcessLog(StderrSink(level_));
  current = nullptr;
}

protocol::LogSink StderrLog::Sink() {
  return transport::LogEventSink([this](const transport::LogEvent& event) {
    if (event.level <= level_.load(std::memory_order_relaxed)) {
      log_.Write(event);
    }
  });
}

void LogToStderr(protocol::LogLevel level, absl::string_view message) {
  if (StderrLog* const log = current.load()) {
    return log->Write(level, message);
  }
  // Before and after, when nobody is served.
  const std::string line = absl::StrCat(
      IsJournalStream(STDERR_FILENO) ? transport::LogPriority(level) : "",
      transport::FormatLogLine(absl::Now(), level, message));
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
