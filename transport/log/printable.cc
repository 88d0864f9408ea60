#include "transport/log/printable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_format.h"

namespace skiff::transport {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// The general categories Cc, Cf, Zl and Zp of Unicode 15, in order.
constexpr Range kEscaped[] = {
    {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},
    {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},
    {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
    {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x2064},   {0x2066, 0x206f},   {0xfeff, 0xfeff},
    {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
    {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0001, 0xe0001}, {0xe0020, 0xe007f},
};

struct Character {
  size_t bytes = 1;
  bool valid = false;  // Else it is one byte.
  char32_t code = 0;
};

// What is at the front of `text`, which is not empty (RFC 3629 section 4).
Character FirstOf(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true, lead};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes)
    return {1, false, lead};
  char32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {1, false, lead};
    code = code << 6 | (byte(i) & 0x3f);
  }
  // Over-long forms, surrogates, and what lies above the last.
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || (code >= 0xd800 && code <= 0xdfff) ||
      code > 0x10ffff) {
    return {1, false, lead};
  }
  return {bytes, true, code};
}

void AppendJsonEscape(char32_t code, std::string* out) {
  if (code <= 0xffff) {
    absl::StrAppendFormat(out, "\\u%04x", code);
    return;
  }
  const char32_t beyond = code - 0x10000;
  absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xd800 + (beyond >> 10),
                        0xdc00 + (beyond & 0x3ff));
}

}  // namespace

bool IsEscaped(char32_t character) {
  const Range* const range = std::lower_bound(
      std::begin(kEscaped), std::end(kEscaped), character,
      [](const Range& one, char32_t code) { return one.last < code; });
  return range != std::end(kEscaped) && range->first <= character;
}

void MovePrintable(absl::string_view* text, std::string* out) {
  const Character first = FirstOf(*text);
  if (!first.valid || (first.code < 0x80 && IsEscaped(first.code))) {
    absl::StrAppendFormat(out, "\\x%02x", first.code);
  } else if (!IsEscaped(first.code)) {
    out->append(text->data(), first.bytes);
  } else if (first.code <= 0xffff) {
    absl::StrAppendFormat(out, "\\u%04x", first.code);
  } else {
    absl::StrAppendFormat(out, "\\U%08x", first.code);
  }
  text->remove_prefix(first.bytes);
}

std::string Printable(absl::string_view text, absl::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (kept.find(text[0]) == absl::string_view::npos) {
      MovePrintable(&text, &out);
    } else {
      out.push_back(text[0]);
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string PrintableJson(absl::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Character first = FirstOf(json);
    // JSON itself escapes those before U+0020 in strings.
    if (first.valid && first.code >= 0x20 && IsEscaped(first.code)) {
      AppendJsonEscape(first.code, &out);
    } else {
      out.append(json.data(), first.bytes);
    }
    json.remove_prefix(first.bytes);
  }
  return out;
}

}  // namespace skiff::transport
