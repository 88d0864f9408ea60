#ifndef SKIFF_TRANSPORT_LOG_PRINTABLE_H_
#define SKIFF_TRANSPORT_LOG_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace skiff::transport {

// What peers and files say, for a terminal or a log. Some characters make a
// terminal do something, or make text look like another: control characters,
// those that change the direction of what follows (U+202E) or are not seen
// (U+200B), all others of Unicode's general category Cf, and separators of
// lines and paragraphs. These, and bytes that are no UTF-8, are escaped.

// Whether a character of Unicode is escaped.
bool IsEscaped(char32_t character);

// Moves what comes first in `text`, which is not empty, to the end of `out`:
// one character, or one byte that is no UTF-8 (RFC 3629). As \x1b where it is a
// byte, and else as \u202e or \U000e0001, if it is escaped.
void MovePrintable(absl::string_view* text, std::string* out);

// All of `text` so. Characters of `kept`, which is ASCII, stay as they are.
std::string Printable(absl::string_view text, absl::string_view kept = "");

// JSON that says the same, with the escapes of JSON (RFC 8259 section 7).
// `json` is valid UTF-8, in which only strings have such characters; newlines
// between values stay.
std::string PrintableJson(absl::string_view json);

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LOG_PRINTABLE_H_
