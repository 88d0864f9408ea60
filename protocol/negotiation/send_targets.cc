#include "protocol/negotiation/send_targets.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/names.h"
#include "protocol/negotiation/portal.h"

namespace skiff::protocol {
namespace {

// `domainname[:port][,portal-group-tag]` (section 13.8). The tag is mandatory
// in this place, but nothing depends on it.
absl::Status CheckAddress(absl::string_view address) {
  const size_t comma = address.find(',');
  absl::Status portal = ParsePortal(address.substr(0, comma)).status();
  if (!portal.ok() || comma == absl::string_view::npos) return portal;
  const absl::optional<uint64_t> tag = ParseNumber(address.substr(comma + 1));
  if (tag.has_value() && *tag <= 0xffff) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TargetAddress=", Quoted(address),
                   " has no portal group tag from 0 to 65535 after its comma"));
}

}  // namespace

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
      absl::Status address = CheckAddress(pair.value);
      if (!address.ok()) return address;
      targets.back().portals.emplace_back(pair.value);
    }
  }
  return targets;
}

}  // namespace skiff::protocol
