#ifndef SKIFF_TRANSPORT_LOG_LOG_EVENT_H_
#define SKIFF_TRANSPORT_LOG_LOG_EVENT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/log/log.h"

namespace skiff::transport {

// The names of fields: the same for every event. Lower case and underscores.
inline constexpr absl::string_view kLogTarget = "target";        // Its name.
inline constexpr absl::string_view kLogInitiator = "initiator";  // Its name.
inline constexpr absl::string_view kLogAddress = "address";      // "host:port".
inline constexpr absl::string_view kLogPortal = "portal";  // As configured.
inline constexpr absl::string_view kLogLun = "lun";        // In decimal.
inline constexpr absl::string_view kLogReason = "reason";  // Why it happened.
// Which library said it.
inline constexpr absl::string_view kLogLibrary = "library";

// One of the things that an event is about.
struct LogField {
  absl::string_view name;  // One of those above.
  // May be what a peer has sent: any bytes.
  std::string value;
};

// What an event says: for people, and what programs look for. The message has
// all that people need, also of what is in the fields.
struct LogText {
  std::string message;
  std::vector<LogField> fields;
};

// One event, for as long as the call that it is given to.
struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  absl::string_view message;
  absl::Span<const LogField> fields;
  // It tells how many others like it there were.
  bool tells_count = false;
};

// The value of a field, or empty.
absl::string_view ValueOf(const LogEvent& event, absl::string_view name);

// A LogSink that gets events with their fields, from whoever gives them by
// LogTo(); the rules for a LogSink are its rules. Other lines come without
// fields.
class LogEventSink {
 public:
  // Gets each event; it is only valid during the call.
  using Function = std::function<void(const LogEvent& event)>;
  // `function` is not null.
  explicit LogEventSink(Function function) : function_(std::move(function)) {}

  void operator()(const LogEvent& event) const { function_(event); }
  // As a LogSink.
  void operator()(LogLevel level, absl::string_view message) const {
    function_({level, message, {}});
  }

 private:
  Function function_;
};

// Gives the event to `sink`, which is not null: with its fields, if it was made
// of a LogEventSink, and otherwise its message.
void LogTo(const LogSink& sink, const LogEvent& event);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LOG_LOG_EVENT_H_
