#ifndef SKIFF_TRANSPORT_LOG_QUEUED_LOG_H_
#define SKIFF_TRANSPORT_LOG_QUEUED_LOG_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/log/log.h"
#include "transport/log/log_event.h"

namespace skiff::transport {

// Where lines go, and how many may wait.
struct QueuedLogOptions {
  int fd = STDERR_FILENO;  // Not closed; may be one that blocks, or not.
  // Lines that wait to be written. What does not fit is dropped, and counted:
  // a line says how many once there is room. At least kMinQueueBytes; twice
  // that is taken, as it is used.
  size_t max_bytes = 2u << 20;
  static constexpr size_t kMinQueueBytes = 2 * kMaxLogLine;
  // Each line begins with LogPriority(): for a descriptor that is systemd's
  // journal. Lines are longer by that.
  bool priorities = false;
  // Makes a line of an event, with a newline and of at most kMaxLogLine bytes.
  // Null: FormatLogLine(), without the fields. Thread-safe.
  std::function<std::string(absl::Time now, const LogEvent& event)> format;
  // Takes a line, without its newline, in place of `fd`; false where it cannot.
  // It may block: that is when `fd` is not writable. Async-signal-safe, and for
  // a child of fork(), too. Null: lines are written to `fd`.
  bool (*deliver)(absl::string_view line) = nullptr;
  // Events that repeat one of so long ago or less are counted (RepeatedEvents).
  // A crash leaves out what was counted and not told. Zero: all are written.
  absl::Duration repeat_window = absl::ZeroDuration();
};

// What the journal takes for the level of a line that begins with it, as
// sd-daemon(3) has it: "<3>" for an error.
absl::string_view LogPriority(LogLevel level);

// Writes lines to a descriptor from a thread of its own: whoever logs never
// waits for the one who reads. Thread-safe.
//
// In a child of fork(), which has no such thread, lines are written at once
// where that does not block; what the parent had queued is the parent's.
class QueuedLog {
 public:
  // Starts the thread. The descriptor stays the caller's.
  explicit QueuedLog(const QueuedLogOptions& options);
  QueuedLog(const QueuedLog&) = delete;
  QueuedLog& operator=(const QueuedLog&) = delete;
  // Leaves behind what a stuck descriptor has not taken: Flush() first.
  ~QueuedLog();

  // Queues one line, and never waits. What does not fit is dropped and counted.
  void Write(const LogEvent& event);
  // The same without fields.
  void Write(LogLevel level, absl::string_view message) {
    Write({level, message, {}});
  }
  // Waits until all that was logged before is written, but no longer than
  // `timeout`. False if some of it is not. Repeated events are told early.
  bool Flush(absl::Duration timeout);
  // For what is at least as grave as `level`: a LogEventSink. May be called for
  // as long as it exists, also when the log is gone: then it is silent.
  LogSink Sink(LogLevel level);
  // Lines that were dropped so far, or could not be written.
  uint64_t dropped() const;

  // From now on, a signal that ends the process with a core (SIGSEGV, SIGABRT,
  // ...) writes what is still queued first, as far as that is possible without
  // waiting for long, and then does what it did before. One log of a process.
  void WriteOnFatalSignals();

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LOG_QUEUED_LOG_H_
