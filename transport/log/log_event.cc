#include "transport/log/log_event.h"

namespace skiff::transport {

absl::string_view ValueOf(const LogEvent& event, absl::string_view name) {
  for (const LogField& field : event.fields) {
    if (field.name == name) return field.value;
  }
  return "";
}

void LogTo(const LogSink& sink, const LogEvent& event) {
  if (const auto* const events = sink.target<LogEventSink>()) {
    return (*events)(event);
  }
  sink(event.level, event.message);
}

}  // namespace skiff::transport
