#ifndef SKIFF_TOOLS_SKIFF_BASE_JSON_H_
#define SKIFF_TOOLS_SKIFF_BASE_JSON_H_

#include <string>

#include "tools/skiff/base/report.h"
#include "tools/skiff/base/transports_report.h"

namespace skiff::tools {

// Reports for programs: one JSON object. Sizes are in bytes, times say their
// unit in their key.
std::string ToJson(const DiscoveryReport& report);
std::string ToJson(const ListReport& report);
std::string ToJson(const FactsReport& report);
std::string ToJson(const CopyReport& report);
std::string ToJson(const PerfReport& report);
std::string ToJson(const PingReport& report);
std::string ToJson(const TransportsReport& report);
std::string ToJson(const ErrorReport& report);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_JSON_H_
