#include "protocol/negotiation/names.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/text.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

bool IsDigit(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c));
}

bool IsNameCharacter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || absl::ascii_isalnum(byte) || c == '-' || c == '.' ||
         c == ':' || c == '_';
}

absl::Status Bad(absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("not an iSCSI name: ", Quoted(name), ": ", why));
}

// "yyyy-mm." and something after it.
bool HasDateAndAuthority(absl::string_view rest) {
  if (rest.size() < 9 || rest[4] != '-' || rest[7] != '.') return false;
  for (const size_t i : {0, 1, 2, 3, 5, 6}) {
    if (!IsDigit(rest[i])) return false;
  }
  const int month = (rest[5] - '0') * 10 + (rest[6] - '0');
  return month >= 1 && month <= 12 && rest[8] != ':' && rest[8] != '.';
}

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
}

}  // namespace

absl::StatusOr<std::string> NormalizeName(absl::string_view name) {
  if (name.empty()) return Bad(name, "it is empty");
  if (name.size() > kMaxNameLength) {
    return Bad(name, absl::StrCat("it has ", name.size(), " bytes, more than ",
                                  kMaxNameLength));
  }
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter) ||
      !IsPrintableUtf8(name)) {
    return Bad(
        name,
        "only letters, digits, \"-\", \".\", \":\" and \"_\" may be used");
  }
  std::string lower = absl::AsciiStrToLower(name);
  const absl::string_view rest =
      absl::string_view(lower).substr(std::min<size_t>(4, lower.size()));
  if (absl::StartsWith(lower, "iqn.")) {
    if (HasDateAndAuthority(rest)) return lower;
    return Bad(name,
               "after \"iqn.\" comes a date as yyyy-mm, a dot and a "
               "reversed domain name");
  }
  if (absl::StartsWith(lower, "eui.")) {
    if (rest.size() == 16 && IsHex(rest)) return lower;
    return Bad(name, "after \"eui.\" come 16 hexadecimal digits");
  }
  if (absl::StartsWith(lower, "naa.")) {
    if ((rest.size() == 16 || rest.size() == 32) && IsHex(rest)) return lower;
    return Bad(name, "after \"naa.\" come 16 or 32 hexadecimal digits");
  }
  return Bad(name, "it starts with neither \"iqn.\", \"eui.\" nor \"naa.\"");
}

}  // namespace skiff::protocol
