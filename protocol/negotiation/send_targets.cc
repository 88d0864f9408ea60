#include "protocol/negotiation/send_targets.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/names.h"

namespace skiff::protocol {

void AppendTarget(const DiscoveredTarget& target, TextWriter* out) {
  out->Add("TargetName", target.name);
  for (const std::string& portal : target.portals)
    out->Add("TargetAddress", portal);
}

absl::StatusOr<std::vector<DiscoveredTarget>> ParseTargets(
    absl::Span<const TextPair> pairs, size_t max_targets, size_t max_portals) {
  std::vector<DiscoveredTarget> targets;
  for (const TextPair& pair : pairs) {
    if (pair.key == "TargetName") {
      if (targets.size() == max_targets) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "the target names more than ", max_targets, " targets"));
      }
      absl::StatusOr<std::string> name = NormalizeName(pair.value);
      if (!name.ok()) return name.status();
      targets.push_back({*std::move(name), {}});
    } else if (pair.key == "TargetAddress") {
      if (targets.empty()) {
        return absl::InvalidArgumentError(
            "TargetAddress before any TargetName");
      }
      if (targets.back().portals.size() == max_portals) {
        return absl::ResourceExhaustedError(absl::StrCat(
            targets.back().name, " has more than ", max_portals, " portals"));
      }
      targets.back().portals.emplace_back(pair.value);
    }
  }
  return targets;
}

}  // namespace skiff::protocol
