#include "tools/skiff/doctor/finding.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "transport/log/printable.h"

namespace skiff::tools {
namespace {

using Json = nlohmann::ordered_json;

size_t Count(const DoctorReport& report, Severity severity) {
  return std::count_if(
      report.findings.begin(), report.findings.end(),
      [severity](const Finding& one) { return one.severity == severity; });
}

}  // namespace

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kFine:
      return "fine";
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

Severity DoctorReport::worst() const {
  Severity worst = Severity::kFine;
  for (const Finding& one : findings) worst = std::max(worst, one.severity);
  return worst;
}

std::string ToText(const DoctorReport& report) {
  std::string text;
  for (const Finding& one : report.findings) {
    absl::StrAppendFormat(&text, "%-8s %s\n", SeverityName(one.severity),
                          one.seen);
    if (!one.why.empty()) absl::StrAppend(&text, "    why: ", one.why, "\n");
    if (!one.fix.empty()) absl::StrAppend(&text, "    do:  ", one.fix, "\n");
  }
  absl::StrAppend(&text, "errors: ", Count(report, Severity::kError),
                  ", warnings: ", Count(report, Severity::kWarning),
                  ", notes: ", Count(report, Severity::kNote), "\n");
  return text;
}

std::string ToJson(const DoctorReport& report) {
  Json findings = Json::array();
  for (const Finding& one : report.findings) {
    findings.push_back({{"severity", SeverityName(one.severity)},
                        {"check", one.check},
                        {"seen", one.seen},
                        {"why", one.why},
                        {"fix", one.fix}});
  }
  const Json json = {{"worst", SeverityName(report.worst())},
                     {"findings", findings}};
  // What a target says need not be UTF-8.
  return transport::PrintableJson(
      json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace skiff::tools
