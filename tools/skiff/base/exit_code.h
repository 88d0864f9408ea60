#ifndef SKIFF_TOOLS_SKIFF_BASE_EXIT_CODE_H_
#define SKIFF_TOOLS_SKIFF_BASE_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace skiff::tools {

// What skiff exits with; docs/skiff-cli.md explains it.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,        // An I/O or SCSI error.
  kUsage = 2,         // Flags, URLs, files that cannot be what was meant.
  kNoSession = 3,     // The connection or the login failed.
  kVerifyFailed = 4,  // Data were not what they should be.
};

// A status remembers the code that the program is to exit with; kFailed when
// nothing was said.
absl::Status WithExitCode(absl::Status status, ExitCode code);
ExitCode ExitCodeOf(const absl::Status& status);

absl::Status UsageError(absl::string_view message);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_EXIT_CODE_H_
