#ifndef SKIFF_TOOLS_SKIFF_BASE_TEXT_H_
#define SKIFF_TOOLS_SKIFF_BASE_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/skiff/base/report.h"
#include "tools/skiff/base/transports_report.h"

namespace skiff::tools {

// Reports for people. Every line ends with a newline.
std::string ToText(const DiscoveryReport& report);
std::string ToText(const ListReport& report);
std::string ToText(const FactsReport& report);
std::string ToText(const CopyReport& report);
std::string ToText(const PerfReport& report);
std::string ToText(const PingReport& report);
std::string ToText(const TransportsReport& report);
std::string ToText(const SessionReport& report);

// Rows of cells as columns, two spaces apart. Columns whose cells, apart from
// the first row's, are numbers are aligned to the right.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// The first 16 of them, for an error: "a, b and 3 more (ls lists them)", where
// `who` is "ls lists". "none" without any.
std::string FirstFew(std::vector<std::string> names, absl::string_view who);

// 1234567 as "1,234,567".
std::string WithCommas(uint64_t number);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_TEXT_H_
