#ifndef SKIFF_PROTOCOL_NEGOTIATION_NAMES_H_
#define SKIFF_PROTOCOL_NEGOTIATION_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace skiff::protocol {

// In bytes, as UTF-8 (RFC 7143 section 4.2.7.2).
inline constexpr size_t kMaxNameLength = 223;

// Checks an iSCSI name (RFC 7143 section 4.2.7) and returns the form in which
// names are compared byte for byte: ASCII letters in lower case.
//
// Accepted: "iqn." with a date and a naming authority, "eui." with 16
// hexadecimal digits, "naa." with 16 or 32. Characters are those that RFC 3722
// does not prohibit, and "_", which it does and deployed names contain. Names
// in other scripts must arrive normalized: they are compared as they are.
absl::StatusOr<std::string> NormalizeName(absl::string_view name);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_NAMES_H_
