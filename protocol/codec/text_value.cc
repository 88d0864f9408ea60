#include "protocol/codec/text_value.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/text.h"

namespace skiff::protocol {
namespace {

// Removes "0x" or "0X" (or another letter) from the front.
bool ConsumeBase(char letter, absl::string_view* value) {
  if (value->size() < 2 || (*value)[0] != '0' ||
      absl::ascii_tolower(static_cast<unsigned char>((*value)[1])) != letter) {
    return false;
  }
  value->remove_prefix(2);
  return true;
}

// The value of a digit in base 16, or 16 for anything else.
unsigned HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return 16;
}

absl::optional<uint64_t> ParseDigits(absl::string_view digits, unsigned base) {
  if (digits.empty()) return absl::nullopt;
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  uint64_t number = 0;
  for (const char c : digits) {
    const unsigned digit = HexDigit(c);
    if (digit >= base) return absl::nullopt;
    if (number > (kMax - digit) / base) return absl::nullopt;
    number = number * base + digit;
  }
  return number;
}

bool ParseHexBinary(absl::string_view digits, size_t max_bytes,
                    std::vector<uint8_t>* bytes) {
  const size_t size = digits.size() / 2 + digits.size() % 2;
  if (size == 0 || size > max_bytes) return false;
  bytes->reserve(size);
  unsigned high = 0;
  bool have_high = digits.size() % 2 != 0;
  for (const char c : digits) {
    const unsigned digit = HexDigit(c);
    if (digit >= 16) return false;
    if (have_high) {
      bytes->push_back(static_cast<uint8_t>(high << 4 | digit));
    } else {
      high = digit;
    }
    have_high = !have_high;
  }
  return true;
}

// The value of a base64 character, or 64 for anything else.
unsigned Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a') + 26;
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0') + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return 64;
}

// RFC 4648 section 4, with its padding and with zero bits before it. absl's
// decoder takes white space and leaves out what is missing.
bool ParseBase64(absl::string_view text, size_t max_bytes,
                 std::vector<uint8_t>* bytes) {
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  const size_t size = (text.size() + padding) / 4 * 3 - padding;
  if (size > max_bytes) return false;
  bytes->reserve(size);
  uint32_t pending = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const unsigned digit = Base64Digit(c);
    if (digit >= 64) return false;
    pending = pending << 6 | digit;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes->push_back(static_cast<uint8_t>(pending >> bits));
    }
  }
  return (pending & ((1u << bits) - 1)) == 0;
}

// The length of the UTF-8 sequence at the front of `text` (RFC 3629 section 4),
// or 0 if it is malformed.
size_t Utf8SequenceLength(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Over-long forms, surrogates, and what lies above U+10FFFF.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

absl::optional<bool> ParseBoolean(absl::string_view value) {
  if (value == "Yes") return true;
  if (value == "No") return false;
  return absl::nullopt;
}

absl::string_view EncodeBoolean(bool value) { return value ? "Yes" : "No"; }

absl::optional<uint64_t> ParseNumber(absl::string_view value) {
  if (ConsumeBase('x', &value)) return ParseDigits(value, 16);
  if (value.size() > 1 && value[0] == '0') return absl::nullopt;
  return ParseDigits(value, 10);
}

absl::optional<NumberRange> ParseRange(absl::string_view value) {
  const size_t tilde = value.find('~');
  if (tilde == absl::string_view::npos) return absl::nullopt;
  const absl::optional<uint64_t> low = ParseNumber(value.substr(0, tilde));
  const absl::optional<uint64_t> high = ParseNumber(value.substr(tilde + 1));
  if (!low || !high || *high < *low) return absl::nullopt;
  return NumberRange{*low, *high};
}

std::string EncodeRange(const NumberRange& range) {
  return absl::StrCat(range.low, "~", range.high);
}

bool IsTextValue(absl::string_view value) {
  constexpr absl::string_view kOthers = ".-+@_/[]:#";
  return std::all_of(value.begin(), value.end(), [kOthers](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kOthers.find(c) != absl::string_view::npos;
  });
}

bool ParseList(absl::string_view value, std::vector<absl::string_view>* items) {
  items->clear();
  while (true) {
    const size_t comma = value.find(',');
    const absl::string_view item = value.substr(0, comma);
    if (item.empty() || item.size() > kMaxValueLength || !IsTextValue(item)) {
      return false;
    }
    items->push_back(item);
    if (comma == absl::string_view::npos) return true;
    value.remove_prefix(comma + 1);
  }
}

bool ParseBinary(absl::string_view value, size_t max_bytes,
                 std::vector<uint8_t>* bytes) {
  bytes->clear();
  if (ConsumeBase('x', &value)) return ParseHexBinary(value, max_bytes, bytes);
  if (ConsumeBase('b', &value)) return ParseBase64(value, max_bytes, bytes);
  return false;
}

std::string EncodeHex(absl::Span<const uint8_t> bytes) {
  return absl::StrCat(
      "0x", absl::BytesToHexString(absl::string_view(
                reinterpret_cast<const char*>(bytes.data()), bytes.size())));
}

std::string EncodeBase64(absl::Span<const uint8_t> bytes) {
  return absl::StrCat(
      "0b", absl::Base64Escape(absl::string_view(
                reinterpret_cast<const char*>(bytes.data()), bytes.size())));
}

bool IsPrintableUtf8(absl::string_view value) {
  while (!value.empty()) {
    const size_t length = Utf8SequenceLength(value);
    if (length == 0) return false;
    if (length == 1 &&
        absl::ascii_iscntrl(static_cast<unsigned char>(value[0]))) {
      return false;
    }
    // U+0080 to U+009F.
    if (value[0] == '\xc2' && value[1] < '\xa0') return false;
    value.remove_prefix(length);
  }
  return true;
}

}  // namespace skiff::protocol
