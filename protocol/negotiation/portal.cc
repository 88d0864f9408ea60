#include "protocol/negotiation/portal.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

// The longest name of the DNS (RFC 1035 section 2.3.4).
constexpr size_t kMaxHostLength = 255;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a portal: ", Quoted(text), ": ", why));
}

bool OnlyHas(absl::string_view text, absl::string_view others) {
  return std::all_of(text.begin(), text.end(), [others](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           others.find(c) != absl::string_view::npos;
  });
}

// An IPv6 address as far as its characters tell, perhaps with a zone.
bool IsIpv6Text(absl::string_view host) {
  return host.find(':') != absl::string_view::npos && OnlyHas(host, ":.%-_");
}

}  // namespace

absl::StatusOr<Portal> ParsePortal(absl::string_view text) {
  Portal portal;
  absl::string_view rest;
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos) {
      return Bad(text, "the bracket is not closed");
    }
    portal.host = std::string(text.substr(1, close - 1));
    rest = text.substr(close + 1);
    if (!IsIpv6Text(portal.host)) {
      return Bad(text, "in brackets comes an IPv6 address");
    }
  } else {
    const size_t colon = text.find(':');
    portal.host = std::string(text.substr(0, colon));
    rest = colon == absl::string_view::npos ? "" : text.substr(colon);
    if (rest.find(':', 1) != absl::string_view::npos) {
      return Bad(text, "an IPv6 address comes in brackets, as in [::1]:3260");
    }
    if (portal.host.empty()) return Bad(text, "there is no host");
    if (!OnlyHas(portal.host, ".-_")) {
      return Bad(text, "a host has letters, digits, \".\" and \"-\" only");
    }
  }
  if (portal.host.size() > kMaxHostLength) {
    return Bad(text, "the host is too long");
  }
  if (rest.empty()) return portal;
  const absl::optional<uint64_t> port = ParseNumber(rest.substr(1));
  if (rest[0] != ':' || !port || *port == 0 || *port > 65535) {
    return Bad(text, "after the host comes \":\" and a port from 1 to 65535");
  }
  portal.port = static_cast<uint16_t>(*port);
  return portal;
}

std::string FormatPortal(const Portal& portal) {
  const bool ipv6 = portal.host.find(':') != std::string::npos;
  return absl::StrCat(ipv6 ? "[" : "", portal.host, ipv6 ? "]:" : ":",
                      portal.port);
}

}  // namespace skiff::protocol
