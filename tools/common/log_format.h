#ifndef SKIFF_TOOLS_COMMON_LOG_FORMAT_H_
#define SKIFF_TOOLS_COMMON_LOG_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "transport/log/log_event.h"

namespace skiff::tools {

// What lines of the log are.
enum class LogFormat : uint8_t {
  kText,     // FormatLogLine(): for people.
  kJson,     // FormatJsonLine(): for programs.
  kJournal,  // FormatJournalRecord(): for systemd's journal.
};

// One event as a JSON object (RFC 8259) on one line, with a newline:
//   {"time":"2026-11-21T09:00:35.123456Z","level":"info","message":"...",
//    "address":"10.0.0.2:41234","initiator":"iqn...","lun":1,...}
// (it is one line). Fields that an event does not have are left out. Bytes that
// are no UTF-8 become U+FFFD; what could deceive is escaped (PrintableJson()).
// A line has at most kMaxLogLine bytes: where it would be longer, its values
// are cut, and say so. `now` is on the clock of the wall.
std::string FormatJsonLine(absl::Time now, const transport::LogEvent& event);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_LOG_FORMAT_H_
