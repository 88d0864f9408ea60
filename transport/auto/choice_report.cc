#include "transport/auto/choice_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skiff::transport {
namespace {

std::string NameOf(const ChoiceEntry& entry) {
  if (entry.devices.empty()) return entry.scheme;
  return absl::StrCat(entry.scheme, " (", entry.devices, ")");
}

std::string ToLine(const ChoiceEntry& entry) {
  std::string line = absl::StrCat(
      "  ", entry.rank == 0 ? std::string("-") : absl::StrCat(entry.rank), " ",
      NameOf(entry), ": ", ChoiceOutcomeName(entry.outcome));
  if (entry.outcome != ChoiceOutcome::kSkipped) {
    absl::StrAppend(&line, " after ", absl::FormatDuration(entry.took));
  }
  if (!entry.reason.empty()) absl::StrAppend(&line, ": ", entry.reason);
  return line;
}

}  // namespace

absl::string_view RdmaPolicyName(RdmaPolicy policy) {
  switch (policy) {
    case RdmaPolicy::kRequire:
      return "RDMA is required";
    case RdmaPolicy::kPrefer:
      return "RDMA is preferred";
    case RdmaPolicy::kTcpOnly:
      break;
  }
  return "TCP only";
}

absl::string_view ChoiceOutcomeName(ChoiceOutcome outcome) {
  switch (outcome) {
    case ChoiceOutcome::kSucceeded:
      return "succeeded";
    case ChoiceOutcome::kFailed:
      return "failed";
    case ChoiceOutcome::kTried:
      return "tried";
    case ChoiceOutcome::kSkipped:
      break;
  }
  return "skipped";
}

const ChoiceEntry* ChoiceReport::chosen() const {
  for (const ChoiceEntry& entry : entries) {
    if (entry.outcome == ChoiceOutcome::kSucceeded) return &entry;
  }
  return nullptr;
}

bool ChoiceReport::fell_back() const {
  if (policy != RdmaPolicy::kPrefer || chosen() == nullptr) return false;
  for (const ChoiceEntry& entry : entries) {
    if (entry.rdma && entry.outcome == ChoiceOutcome::kSucceeded) return false;
  }
  return true;
}

std::string ChoiceReport::WhyNoRdma() const {
  if (!fell_back()) return "";
  std::vector<std::string> reasons;
  for (const ChoiceEntry& entry : entries) {
    if (!entry.rdma) continue;
    reasons.push_back(absl::StrCat(NameOf(entry), " ",
                                   ChoiceOutcomeName(entry.outcome), ": ",
                                   entry.reason));
  }
  if (reasons.empty()) return "this program has no RDMA transport";
  return absl::StrJoin(reasons, "; ");
}

std::string ChoiceReport::ToString() const {
  const ChoiceEntry* winner = chosen();
  std::string text = absl::StrCat(
      listening ? "listen on " : "connect ", address, " (",
      RdmaPolicyName(policy), "): ",
      winner == nullptr ? std::string("nothing succeeded") : NameOf(*winner),
      fell_back() ? ", falling back from RDMA" : "", ", after ",
      absl::FormatDuration(took));
  for (const ChoiceEntry& entry : entries) {
    absl::StrAppend(&text, "\n", ToLine(entry));
  }
  return text;
}

}  // namespace skiff::transport
