#ifndef SKIFF_TRANSPORT_LOG_LOG_H_
#define SKIFF_TRANSPORT_LOG_LOG_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::transport {

// How grave a line is, the gravest first.
enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

// Where lines for people go. The rule for whoever provides one:
// - it is called from any reactor's thread, also at the same time from several:
//   it must be thread-safe;
// - it may not block: not on a pipe, a terminal, a disk or a lock that is held
//   while one of these is waited for. A reactor that waits serves nobody;
// - it is never called under a lock, and may not call back into what logs.
// Messages have no newline. QueuedLog is one that keeps the rule.
using LogSink = std::function<void(LogLevel level, absl::string_view message)>;

// The kind of an event: the place in the source that tells of it. Limits go by
// it, so that one kind cannot drown the others. As the default argument of a
// function it is the place of the call.
class LogSite {
 public:
  // The place that names it.
  // NOLINTNEXTLINE(google-explicit-constructor): for default arguments, `{}`.
  constexpr LogSite(const char* file = __builtin_FILE(),
                    int line = __builtin_LINE())
      : file_(file), line_(line) {}
  // By address: equal places in one program have equal names.
  friend auto operator<=>(const LogSite&, const LogSite&) = default;

 private:
  const char* file_;
  int line_;
};

// Where that goes which belongs to no object with a sink of its own, such as
// what a transport finds out about the machine. Null (the start): one line on
// standard error, unless that would block. Call before there are threads.
void SetProcessLog(LogSink sink);
// Gives a line to that sink. Thread-safe.
void LogToProcess(LogLevel level, absl::string_view message);

// Longer lines are cut.
inline constexpr size_t kMaxLogLine = 4096;

// The one form that lines have, with a newline:
//   2026-11-21T09:00:35.123456Z info  10.0.0.2:41234: logged in
// What a peer put into the message cannot make another line of it, nor look
// like another text: it is as Printable() makes it. `now` is on the clock of
// the wall.
std::string FormatLogLine(absl::Time now, LogLevel level,
                          absl::string_view message);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LOG_LOG_H_
