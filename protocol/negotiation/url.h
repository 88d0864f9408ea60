#ifndef SKIFF_PROTOCOL_NEGOTIATION_URL_H_
#define SKIFF_PROTOCOL_NEGOTIATION_URL_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protocol/negotiation/portal.h"

namespace skiff::protocol {

// The largest number of flat space addressing (SAM-5 section 4.7.7.3).
inline constexpr uint32_t kMaxLunNumber = 16383;

// A URL as libiscsi and the tools around it write them:
//
//   iscsi://[user[%password]@]host[:port][/target-name[/lun]][?key=value[&...]]
//
// The scheme is "iscsi", "iser" or "auto"; what they ask for is the caller's
// business. Without a target it names a portal, without a LUN a target. A "/"
// at the end says nothing. A link-local address has its zone:
// [fe80::1%25eth0] (RFC 6874), or [fe80::1%eth0].
struct Url {
  std::string scheme;
  std::string user;      // Empty: no authentication.
  std::string password;  // Not for logs.
  Portal portal;
  std::string target;  // Normalized (NormalizeName()), or empty.
  uint32_t lun = 0;    // At most kMaxLunNumber.
  bool has_lun = false;
  std::map<std::string, std::string> options;

  bool operator==(const Url&) const = default;
};

// Password, target name and options may be percent-encoded (RFC 3986
// section 2.1); the user name may not, since its first "%" starts the password.
// Errors never show a password; where there is one, they do not quote what they
// could not parse.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// The URL without passwords, for logs.
std::string FormatUrl(const Url& url);

// The same of text that may be no URL at all: what could be a password is left
// out, in case of doubt more.
std::string WithoutPasswords(absl::string_view text);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_URL_H_
