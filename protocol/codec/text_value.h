#ifndef SKIFF_PROTOCOL_CODEC_TEXT_VALUE_H_
#define SKIFF_PROTOCOL_CODEC_TEXT_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

// The kinds of values of RFC 7143 section 6.1. Parsing is exact: no spaces, no
// signs, case as written there.

namespace skiff::protocol {

// Values with a meaning of their own in every negotiation (section 6.2).
inline constexpr absl::string_view kValueNone = "None";
inline constexpr absl::string_view kValueReject = "Reject";
inline constexpr absl::string_view kValueIrrelevant = "Irrelevant";
inline constexpr absl::string_view kValueNotUnderstood = "NotUnderstood";

// "Yes" or "No".
absl::optional<bool> ParseBoolean(absl::string_view value);
absl::string_view EncodeBoolean(bool value);

// A numerical-value: decimal without leading zeros, or hexadecimal after "0x".
absl::optional<uint64_t> ParseNumber(absl::string_view value);

// A numerical-range: "low~high".
struct NumberRange {
  uint64_t low;
  uint64_t high;
};
absl::optional<NumberRange> ParseRange(absl::string_view value);
std::string EncodeRange(const NumberRange& range);

// A text-value: letters, digits and ".-+@_/[]:", possibly none. "#" is let
// through too: names of private extensions used to contain it.
bool IsTextValue(absl::string_view value);

// A list-of-values: text-values between commas, none empty, none longer than
// 255 bytes. False if `value` is no such list. `items` points into `value`.
bool ParseList(absl::string_view value, std::vector<absl::string_view>* items);

// A binary-value with an implicit length: hexadecimal after "0x" (an odd number
// of digits starts with half a byte) or base64 after "0b", of at most
// `max_bytes` bytes and at least one.
bool ParseBinary(absl::string_view value, size_t max_bytes,
                 std::vector<uint8_t>* bytes);
std::string EncodeHex(absl::Span<const uint8_t> bytes);
std::string EncodeBase64(absl::Span<const uint8_t> bytes);

// Well-formed UTF-8 without control characters: what a local name may be.
bool IsPrintableUtf8(absl::string_view value);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_TEXT_VALUE_H_
