#include "tools/skiff/base/choice_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skiff::tools {
namespace {

using transport::ChoiceEntry;
using transport::ChoiceOutcome;
using transport::ChoiceReport;

// What was tried says more than what was left out.
const ChoiceEntry& MoreTelling(const ChoiceEntry& a, const ChoiceEntry& b) {
  return a.outcome == ChoiceOutcome::kSkipped &&
                 b.outcome != ChoiceOutcome::kSkipped
             ? b
             : a;
}

// Of each transport that was asked for one entry, in the report's order.
std::vector<ChoiceEntry> OneEach(const ChoiceReport& report) {
  const bool rdma_only = report.policy == transport::RdmaPolicy::kRequire;
  std::vector<ChoiceEntry> out;
  for (const ChoiceEntry& entry : report.entries) {
    if (rdma_only && !entry.rdma) continue;
    const auto known = std::find_if(
        out.begin(), out.end(),
        [&](const ChoiceEntry& other) { return other.scheme == entry.scheme; });
    if (known == out.end()) {
      out.push_back(entry);
    } else {
      *known = MoreTelling(*known, entry);
    }
  }
  return out;
}

}  // namespace

std::string BriefFailure(const ChoiceReport& report) {
  if (report.listening || report.chosen() != nullptr) return "";
  std::vector<std::string> reasons;
  for (const ChoiceEntry& entry : OneEach(report)) {
    reasons.push_back(absl::StrCat(entry.scheme, ": ", entry.reason));
  }
  return absl::StrCat(
      "cannot connect to ", report.address,
      report.policy == transport::RdmaPolicy::kRequire ? " by RDMA" : "", ": ",
      reasons.empty() ? "there is no transport for it"
                      : absl::StrJoin(reasons, "; "),
      ". `skiff transports` tells of each device, -v of each attempt");
}

}  // namespace skiff::tools
