#ifndef SKIFF_TOOLS_COMMON_STDERR_LOG_H_
#define SKIFF_TOOLS_COMMON_STDERR_LOG_H_

#include <atomic>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "tools/common/log_format.h"
#include "transport/log/log_event.h"
#include "transport/log/queued_log.h"

namespace skiff::tools {

// While one exists, all that is logged (LogToStderr, StderrSink, and what
// libraries say with LogToProcess) goes to standard error through one queue and
// a thread, so that nobody waits for whoever reads it; a crash still writes
// what is queued. At most one at a time, made while there are no other threads.
// Where standard error is systemd's journal, it gets each line's priority. With
// LogFormat::kJournal, all goes to the journal itself, by the same queue.
class StderrLog {
 public:
  struct Options {
    // Its format and priorities are set by what is below; for kJournal, its
    // format and where it goes by LogToJournal().
    transport::QueuedLogOptions queue;
    LogFormat format = LogFormat::kText;
    // How long the end of the program, at most, waits for the reader.
    absl::Duration flush_timeout = absl::Seconds(1);
    protocol::LogLevel level = protocol::LogLevel::kInfo;  // At first.
  };
  explicit StderrLog(const Options& options);
  StderrLog(const StderrLog&) = delete;
  StderrLog& operator=(const StderrLog&) = delete;
  ~StderrLog();  // Flushes.

  // Waits for what was logged so far to be written, no longer than
  // `flush_timeout`.
  void Flush() { log_.Flush(flush_timeout_); }

  // A sink for what is at least as grave as `level` says, also when that
  // changes: a LogEventSink. Must not be called after this has gone.
  protocol::LogSink Sink();
  // Thread-safe.
  void set_level(protocol::LogLevel level) { level_ = level; }

  // A line without fields, of any level.
  void Write(protocol::LogLevel level, absl::string_view message) {
    log_.Write(level, message);
  }

 private:
  const absl::Duration flush_timeout_;
  std::atomic<protocol::LogLevel> level_;
  transport::QueuedLog log_;
};

// Writes one line to standard error:
//   2026-11-21T09:00:35.123456Z info  10.0.0.2:41234: logged in
// The journal also gets its priority. Thread-safe; lines of threads never mix.
void LogToStderr(protocol::LogLevel level, absl::string_view message);

// Waits as StderrLog::Flush() does, if there is one: before something else is
// written to standard error.
void FlushStderrLog();

// A sink for what is at least as grave as `level`.
protocol::LogSink StderrSink(protocol::LogLevel level);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_STDERR_LOG_H_
