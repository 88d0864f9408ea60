#ifndef SKIFF_TOOLS_COMMON_UNITS_H_
#define SKIFF_TOOLS_COMMON_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace skiff::tools {

// What people write for sizes and durations. Errors quote the text and say what
// is accepted.

// A number of bytes: "4096", "4k", "64KiB", "10GiB", "1GB". As with dd and fio,
// K, M, G, T, P and KiB ... PiB count in 1024s, KB ... PB in 1000s; case does
// not matter.
absl::StatusOr<uint64_t> ParseSize(absl::string_view text);

// "50us", "1.5s", "2m30s": not negative, finite.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// Exact where it can be, in the largest unit that divides: "10 GiB", "512 B".
// Otherwise with one digit after the point: "1.5 GiB".
std::string FormatSize(uint64_t bytes);

// As the parsers above read them: "10GiB", "4097"; "60s", "50us".
std::string WriteSize(uint64_t bytes);
std::string WriteDuration(absl::Duration duration);

// Short, for a person: "850 us", "12.3 s", "1 h 02 min".
std::string ShortDuration(absl::Duration duration);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_UNITS_H_
