#include "tools/common/spin.h"

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tools/common/units.h"
#include "transport/reactor/adaptive_spin.h"

namespace skiff::tools {
namespace {

absl::StatusOr<absl::Duration> ParseTime(absl::string_view text,
                                         bool adaptive) {
  if (text == "never" || text == "auto") return absl::ZeroDuration();
  if (text == "always") return absl::InfiniteDuration();
  absl::ConsumePrefix(&text, "auto:");
  absl::StatusOr<absl::Duration> time = ParseDuration(text);
  // Zero would be a time that suits the machine.
  if (time.ok() && adaptive &&
      (*time == absl::ZeroDuration() ||
       *time > transport::AdaptiveSpin::kMaxLimit)) {
    return absl::OutOfRangeError("nothing to adapt, or too long");
  }
  return time;
}

}  // namespace

absl::Status ParseSpin(absl::string_view text,
                       transport::EpollReactorOptions* out) {
  const bool adaptive = text == "auto" || absl::StartsWith(text, "auto:");
  const absl::StatusOr<absl::Duration> time = ParseTime(text, adaptive);
  if (!time.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text,
        "' does not say how long to poll before sleeping: write auto, "
        "auto:100us (at most a minute), never, always, or a duration such as "
        "50us"));
  }
  out->spin = *time;
  out->adaptive_spin = adaptive;
  return absl::OkStatus();
}

}  // namespace skiff::tools
