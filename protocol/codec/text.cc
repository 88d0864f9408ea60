#include "protocol/codec/text.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace skiff::protocol {
namespace {

constexpr size_t kMaxQuoted = 64;

bool IsKeyCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '-' || c == '+' || c == '@' || c == '_' || c == '#';
}

absl::Status ParsePair(absl::string_view text, TextPair* pair) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("no \"=\" in the text ", Quoted(text)));
  }
  pair->key = text.substr(0, equals);
  pair->value = text.substr(equals + 1);
  if (pair->key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no key before the value ", Quoted(pair->value)));
  }
  if (pair->key.size() > kMaxKeyLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", pair->key.size(), " characters, more than ",
                     kMaxKeyLength, ": ", Quoted(pair->key)));
  }
  if (!IsKeyName(pair->key)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a key name: ", Quoted(pair->key)));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsKeyName(absl::string_view key) {
  return !key.empty() && key.size() <= kMaxKeyLength &&
         absl::ascii_isalpha(static_cast<unsigned char>(key[0])) &&
         std::all_of(key.begin(), key.end(), IsKeyCharacter);
}

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxQuoted)),
                      cut ? "...\"" : "\"");
}

absl::Status ParseText(absl::string_view text, std::vector<TextPair>* pairs) {
  pairs->clear();
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("no null ends the text ", Quoted(text)));
    }
    TextPair pair;
    absl::Status status = ParsePair(text.substr(0, end), &pair);
    if (!status.ok()) return status;
    pairs->push_back(pair);
    text.remove_prefix(end + 1);
  }
  return absl::OkStatus();
}

absl::Status TextCollector::Add(absl::Span<const uint8_t> data,
                                bool continued) {
  if (complete_) buffer_.clear();
  complete_ = !continued;
  if (continued && data.empty()) {
    return absl::InvalidArgumentError(
        "a PDU with the C bit set and no data to continue");
  }
  if (data.size() > max_bytes_ - buffer_.size()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a key set of more than ", max_bytes_, " bytes, which is the limit"));
  }
  const absl::string_view text(reinterpret_cast<const char*>(data.data()),
                               data.size());
  if (complete_ && buffer_.empty()) {
    text_ = text;
  } else {
    buffer_.append(text.data(), text.size());
    text_ = buffer_;
  }
  return absl::OkStatus();
}

void TextWriter::Add(absl::string_view key, absl::string_view value) {
  assert(IsKeyName(key));
  assert(value.find('\0') == absl::string_view::npos);
  if (empty()) {
    text_.clear();
    sent_ = 0;
  }
  absl::StrAppend(&text_, key, "=", value, absl::string_view("\0", 1));
}

std::string TextWriter::Next(size_t max_bytes, bool* more) {
  assert(max_bytes > 0);
  const size_t size = std::min(max_bytes, text_.size() - sent_);
  std::string segment = text_.substr(sent_, size);
  sent_ += size;
  *more = !empty();
  return segment;
}

}  // namespace skiff::protocol
