#include "protocol/negotiation/names.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

struct Range {
  char32_t first;
  char32_t last;
};

// What names must not contain beside ASCII and control characters: tables C.1.2
// to C.9 of RFC 3454, by RFC 3722 section 6, and section 6.1. Also what section
// 4 maps to nothing (table B.1), which is left in no name. In order;
// IsProhibited() has the rest.
constexpr Range kProhibited[] = {
    {0xa0, 0xa0},        {0xad, 0xad},       {0x340, 0x341},
    {0x34f, 0x34f},      {0x6dd, 0x6dd},     {0x70f, 0x70f},
    {0x1680, 0x1680},    {0x1806, 0x1806},   {0x180b, 0x180e},
    {0x2000, 0x200f},    {0x2028, 0x202f},   {0x205f, 0x2063},
    {0x2066, 0x206f},    {0x2ff0, 0x2ffb},   {0x3000, 0x3000},
    {0x3002, 0x3002},    {0xe000, 0xf8ff},   {0xfdd0, 0xfdef},
    {0xfe00, 0xfe0f},    {0xfeff, 0xfeff},   {0xfff9, 0xffff},
    {0x1d173, 0x1d17a},  {0xe0001, 0xe0001}, {0xe0020, 0xe007f},
    {0xf0000, 0x10ffff},
};

bool IsProhibited(char32_t code) {
  if ((code & 0xfffe) == 0xfffe) return true;  // No characters (table C.4).
  const Range* const range = std::lower_bound(
      std::begin(kProhibited), std::end(kProhibited), code,
      [](const Range& one, char32_t wanted) { return one.last < wanted; });
  return range != std::end(kProhibited) && range->first <= code;
}

// The first such character of `name`, which is valid UTF-8; 0: there is none.
char32_t ProhibitedIn(absl::string_view name) {
  for (size_t i = 0; i < name.size();) {
    const auto lead = static_cast<uint8_t>(name[i]);
    const size_t bytes = lead < 0x80   ? 1
                         : lead < 0xe0 ? 2
                         : lead < 0xf0 ? 3
                                       : 4;
    char32_t code = bytes == 1 ? lead : lead & (0x7f >> bytes);
    for (size_t j = 1; j < bytes; ++j) code = code << 6 | (name[i + j] & 0x3f);
    if (IsProhibited(code)) return code;
    i += bytes;
  }
  return 0;
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
  if (const char32_t code = ProhibitedIn(name); code != 0) {
    return Bad(name, absl::StrFormat("U+%04X must not be used (RFC 3722 "
                                     "section 6)",
                                     static_cast<uint32_t>(code)));
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
