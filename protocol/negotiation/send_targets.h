#ifndef SKIFF_PROTOCOL_NEGOTIATION_SEND_TARGETS_H_
#define SKIFF_PROTOCOL_NEGOTIATION_SEND_TARGETS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protocol/codec/text.h"

// SendTargets answers (RFC 7143 appendix C): for each target a TargetName,
// followed by a TargetAddress for each of its portals.

namespace skiff::protocol {

// A target that a discovery names.
struct DiscoveredTarget {
  std::string name;
  // `address:port,portal-group-tag`; IPv6 addresses in brackets. Empty:
  // reachable where the question was asked.
  std::vector<std::string> portals;
};

// Writes a target to an answer.
void AppendTarget(const DiscoveredTarget& target, TextWriter* out);

// Reads an answer. What a peer sent is bounded: at most `max_targets` targets
// with `max_portals` portals each, names of 223 bytes. Keys of no meaning here
// are skipped; an address before the first name is an error, as are bad names
// and addresses.
absl::StatusOr<std::vector<DiscoveredTarget>> ParseTargets(
    absl::Span<const TextPair> pairs, size_t max_targets = 4096,
    size_t max_portals = 64);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_SEND_TARGETS_H_
