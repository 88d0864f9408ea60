#include "tools/skiff/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/units.h"

namespace skiff::tools {

std::string ProgressLine(const std::string& verb, uint64_t done,
                         std::optional<uint64_t> total,
                         absl::Duration elapsed) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line = verb;
  if (total.has_value() && *total > 0) {
    const double share =
        static_cast<double>(done) / static_cast<double>(*total);
    absl::StrAppendFormat(&line, " %3.0f %%", share * 100);
  }
  absl::StrAppend(&line, "  ", FormatSize(done));
  if (total.has_value()) absl::StrAppend(&line, " of ", FormatSize(*total));
  absl::StrAppendFormat(&line, "  %.0f MB/s", rate / 1e6);
  if (total.has_value() && rate > 0) {
    const double left =
        static_cast<double>(*total - std::min(done, *total)) / rate;
    absl::StrAppend(&line, "  ", ShortDuration(absl::Seconds(left)), " left");
  }
  return line;
}

Progress::Progress(bool quiet)
    : enabled_(!quiet && isatty(STDERR_FILENO) != 0) {}

void Progress::Show(const std::string& line) {
  // Back to the line's start, and to its end what was there before is erased.
  if (enabled_) std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
}

void Progress::Clear() {
  if (enabled_) std::fprintf(stderr, "\r\x1b[K");
}

}  // namespace skiff::tools
