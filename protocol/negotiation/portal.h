#ifndef SKIFF_PROTOCOL_NEGOTIATION_PORTAL_H_
#define SKIFF_PROTOCOL_NEGOTIATION_PORTAL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace skiff::protocol {

// IANA's port for iSCSI (RFC 7143 section 15).
inline constexpr uint16_t kDefaultPort = 3260;

// Where a target listens, as text: `domainname[:port]` of RFC 7143 section
// 13.8. Nothing is resolved here.
struct Portal {
  std::string host;  // A DNS name, an IPv4 or an IPv6 address, no brackets.
  uint16_t port = kDefaultPort;

  bool operator==(const Portal&) const = default;
};

// Parses "host", "host:port", "[v6]" and "[v6]:port".
absl::StatusOr<Portal> ParsePortal(absl::string_view text);

// "host:port" or "[v6]:port".
std::string FormatPortal(const Portal& portal);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_PORTAL_H_
