#include "tools/common/log_format.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "transport/log/printable.h"

namespace skiff::tools {
namespace {

using transport::LogLevel;

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "unknown";
}

std::string Cut(absl::string_view value, size_t max) {
  if (value.size() <= max) return std::string(value);
  return absl::StrCat(value.substr(0, max), " ... (cut)");
}

std::string Format(absl::Time now, const transport::LogEvent& event,
                   size_t max_value) {
  nlohmann::ordered_json json;
  json["time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", now, absl::UTCTimeZone());
  json["level"] = NameOf(event.level);
  json["message"] = Cut(event.message, max_value);
  for (const transport::LogField& field : event.fields) {
    const std::string name(field.name);
    uint64_t number = 0;
    if (field.name == transport::kLogLun &&
        absl::SimpleAtoi(field.value, &number)) {
      json[name] = number;
    } else {
      json[name] = Cut(field.value, max_value);
    }
  }
  return transport::PrintableJson(
             json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                       nlohmann::ordered_json::error_handler_t::replace)) +
         "\n";
}

}  // namespace

std::string FormatJsonLine(absl::Time now, const transport::LogEvent& event) {
  // Escapes make values longer. Without values, a line is short.
  for (size_t max = transport::kMaxLogLine;; max /= 2) {
    std::string line = Format(now, event, max);
    if (line.size() <= transport::kMaxLogLine || max == 0) return line;
  }
}

}  // namespace skiff::tools
