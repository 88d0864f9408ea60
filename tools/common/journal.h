#ifndef SKIFF_TOOLS_COMMON_JOURNAL_H_
#define SKIFF_TOOLS_COMMON_JOURNAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/common/stderr_log.h"
#include "transport/log/log_event.h"

namespace skiff::tools {

// systemd's journal, with the fields of events. Only programs that offer
// LogFormat::kJournal link this: it brings libsystemd.

// Where the journal takes events.
inline constexpr char kJournalSocket[] = "/run/systemd/journal/socket";

// Makes `options` those of a log that goes to the journal, under the name of a
// program. An error where nobody listens at kJournalSocket. Once in a process,
// as its log: one descriptor stays open until the process ends.
absl::Status LogToJournal(absl::string_view program,
                          StderrLog::Options* options);

// One event as the log queues it: fields of the journal (systemd.journal-fields
// (7)), each with a NUL at its end, and a newline:
//   MESSAGE=logged in PRIORITY=6 SYSLOG_IDENTIFIER=skiffd
//   SKIFF_TIME=2026-11-21T09:00:35.123456Z SKIFF_ADDRESS=10.0.0.2:41234 ...
// (it is one line). The names are those of JSON in capitals. Values are as
// Printable() makes them, so that the journal takes them for text. At most
// kMaxLogLine bytes: where it would be longer, values are cut, and say so.
std::string FormatJournalRecord(absl::string_view program, absl::Time now,
                                const transport::LogEvent& event);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_JOURNAL_H_
