#include "tools/common/journal.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
// Which line of this file calls is of no use to anybody.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "transport/log/log.h"
#include "transport/log/printable.h"

namespace skiff::tools {
namespace {

// More than events have.
constexpr size_t kMaxFields = 32;

// syslog(3)'s, which the journal has, too.
int PriorityOf(transport::LogLevel level) {
  switch (level) {
    case transport::LogLevel::kError:
      return 3;
    case transport::LogLevel::kWarning:
      return 4;
    case transport::LogLevel::kInfo:
      return 6;
    case transport::LogLevel::kDebug:
      break;
  }
  return 7;
}

void AddField(absl::string_view name, absl::string_view value, size_t max,
              std::string* record) {
  absl::StrAppend(record, name, "=", value.substr(0, max),
                  value.size() > max ? " ... (cut)" : "");
  record->push_back('\0');
}

// QueuedLogOptions::deliver. sd_journal_sendv() is async-signal-safe.
bool SendToJournal(absl::string_view record) {
  // It calls a journal that is gone a success.
  if (access(kJournalSocket, F_OK) != 0) return false;
  iovec fields[kMaxFields];
  int count = 0;
  while (!record.empty() && count < static_cast<int>(kMaxFields)) {
    const size_t end = record.find('\0');
    const absl::string_view field = record.substr(0, end);
    fields[count++] = {const_cast<char*>(field.data()), field.size()};
    record.remove_prefix(end == absl::string_view::npos ? record.size()
                                                        : end + 1);
  }
  int result = 0;
  do {
    result = sd_journal_sendv(fields, count);
  } while (result == -EINTR);
  return result == 0;
}

// Says by poll(2) whether the journal takes more.
absl::StatusOr<int> Connect() {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static_assert(sizeof(kJournalSocket) <= sizeof(address.sun_path));
  std::memcpy(address.sun_path, kJournalSocket, sizeof(kJournalSocket));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot connect to ", kJournalSocket));
}

}  // namespace

std::string FormatJournalRecord(absl::string_view program, absl::Time now,
                                const transport::LogEvent& event) {
  std::vector<std::pair<std::string, std::string>> fields;
  fields.emplace_back("MESSAGE", transport::Printable(event.message));
  fields.emplace_back("PRIORITY", absl::StrCat(PriorityOf(event.level)));
  fields.emplace_back("SYSLOG_IDENTIFIER", program);
  fields.emplace_back("SKIFF_TIME", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ",
                                                     now, absl::UTCTimeZone()));
  for (const transport::LogField& field : event.fields) {
    fields.emplace_back(
        absl::StrCat("SKIFF_", absl::AsciiStrToUpper(field.name)),
        transport::Printable(field.value));
  }
  // Without values, a record is short.
  for (size_t max = transport::kMaxLogLine;; max /= 2) {
    std::string record;
    for (const auto& [name, value] : fields) {
      AddField(name, value, max, &record);
    }
    record.push_back('\n');
    if (record.size() <= transport::kMaxLogLine || max == 0) return record;
  }
}

absl::Status LogToJournal(absl::string_view program,
                          StderrLog::Options* options) {
  const absl::StatusOr<int> fd = Connect();
  if (!fd.ok()) return fd.status();
  options->format = LogFormat::kJournal;
  options->queue.fd = *fd;
  options->queue.deliver = SendToJournal;
  options->queue.format = [program = std::string(program)](
                              absl::Time now,
                              const transport::LogEvent& event) {
    return FormatJournalRecord(program, now, event);
  };
  return absl::OkStatus();
}

}  // namespace skiff::tools
