#include "tools/common/units.h"

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace skiff::tools {
namespace {

constexpr absl::string_view kUnitLetters = "KMGTP";

// The factor of a unit; zero when it is none.
uint64_t UnitFactor(absl::string_view unit) {
  if (unit.empty() || absl::EqualsIgnoreCase(unit, "B")) return 1;
  const size_t power = kUnitLetters.find(absl::ascii_toupper(unit[0]));
  if (power == absl::string_view::npos) return 0;
  const absl::string_view rest = unit.substr(1);
  uint64_t base = 0;
  if (rest.empty() || absl::EqualsIgnoreCase(rest, "iB")) base = 1024;
  if (absl::EqualsIgnoreCase(rest, "B")) base = 1000;
  if (base == 0) return 0;
  uint64_t factor = base;
  for (size_t i = 0; i < power; ++i) factor *= base;
  return factor;
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(absl::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[digits])) ++digits;
  const absl::string_view unit =
      absl::StripLeadingAsciiWhitespace(text.substr(digits));
  const uint64_t factor = UnitFactor(unit);
  if (digits == 0 || factor == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text,
        "' is not a size: write a whole number of bytes, or one with KiB, MiB, "
        "GiB, TiB or PiB (4k and 4KiB are 4096 bytes, 4KB are 4000)"));
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &number) ||
      number > std::numeric_limits<uint64_t>::max() / factor) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is too large: sizes end at 16384 PiB"));
  }
  return number * factor;
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      duration == absl::InfiniteDuration() || duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is not a duration: write a number with its unit, such "
                     "as 50us, 20ms, 1.5s, 2m or 1h"));
  }
  return duration;
}

std::string FormatSize(uint64_t bytes) {
  uint64_t unit = 1;
  int power = -1;
  while (power < 4 && bytes / unit >= 1024) {
    unit *= 1024;
    ++power;
  }
  if (power < 0) return absl::StrCat(bytes, " B");
  const char letter = kUnitLetters[power];
  if (bytes % unit == 0)
    return absl::StrFormat("%d %ciB", bytes / unit, letter);
  return absl::StrFormat("%.1f %ciB",
                         static_cast<double>(bytes) / static_cast<double>(unit),
                         letter);
}

std::string WriteSize(uint64_t bytes) {
  for (size_t power = kUnitLetters.size(); power > 0; --power) {
    const uint64_t unit = uint64_t{1} << (10 * power);
    if (bytes >= unit && bytes % unit == 0) {
      return absl::StrFormat("%d%ciB", bytes / unit, kUnitLetters[power - 1]);
    }
  }
  return absl::StrCat(bytes);
}

std::string WriteDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  return duration == absl::Seconds(seconds) ? absl::StrCat(seconds, "s")
                                            : absl::FormatDuration(duration);
}

std::string ShortDuration(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  if (seconds < 60) return absl::StrFormat("%.3g s", seconds);
  const int64_t whole = absl::ToInt64Seconds(duration);
  if (whole < 3600) {
    return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  }
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

}  // namespace skiff::tools
