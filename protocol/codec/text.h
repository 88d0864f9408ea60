#ifndef SKIFF_PROTOCOL_CODEC_TEXT_H_
#define SKIFF_PROTOCOL_CODEC_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

// The text of Login and Text PDUs (RFC 7143 section 6.1): key=value pairs, each
// closed by a null, in a data segment that may continue over several PDUs (the
// C bit). Keys and values come from the peer: everything is checked and
// bounded, and errors quote it with Quoted() only.

namespace skiff::protocol {

// A standard-label does not exceed 63 characters.
inline constexpr size_t kMaxKeyLength = 63;
// A simple-value's length, where its key doesn't say otherwise.
inline constexpr size_t kMaxValueLength = 255;

struct TextPair {
  absl::string_view key;
  absl::string_view value;
};

// Splits one complete logical text data segment into `pairs`, which is cleared
// first and points into `text`. Errors: a pair without a terminating null,
// without "=", with an empty or over-long key, or with a key that is no label.
absl::Status ParseText(absl::string_view text, std::vector<TextPair>* pairs);

// Whether `key` can name a key: a letter, then letters, digits, ".", "-", "+",
// "@", "_" or "#", 63 at most. Section 6.1 wants a capital letter and no "#",
// but iSCSIProtocolLevel (RFC 7144) and X#NodeArchitecture (RFC 7143 section
// 13.26) are keys.
bool IsKeyName(absl::string_view key);

// `text` in quotes, escaped to printable ASCII and shortened, for logs.
std::string Quoted(absl::string_view text);

// Puts together the data segments of one key set, which ends with the first PDU
// that has the C bit clear. A pair may be split at any byte.
class TextCollector {
 public:
  // Accepts at most `max_bytes` in one key set.
  explicit TextCollector(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Adds a data segment. Errors: ResourceExhausted above the limit;
  // InvalidArgument for a continued segment without data, which would never
  // end. The collector is unusable after an error.
  absl::Status Add(absl::Span<const uint8_t> data, bool continued);

  // The last Add() ended the key set.
  bool complete() const { return complete_; }
  // The complete text. Refers to the data of the last Add() when there was only
  // one, so it lives as long as that data and until the next Add().
  absl::string_view text() const { return text_; }

 private:
  const size_t max_bytes_;
  std::string buffer_;
  absl::string_view text_;
  bool complete_ = true;
};

// Builds a key set and hands it out in data segments.
class TextWriter {
 public:
  // The key must be a key name and the value free of nulls; both are ours.
  void Add(absl::string_view key, absl::string_view value);

  // Nothing is left to send.
  bool empty() const { return sent_ == text_.size(); }

  // What is left to send.
  size_t size() const { return text_.size() - sent_; }

  // The next data segment, of at most `max_bytes` (> 0). `*more` is its C bit.
  std::string Next(size_t max_bytes, bool* more);

 private:
  std::string text_;
  size_t sent_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_TEXT_H_
