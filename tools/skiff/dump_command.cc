// dump: the PDUs of a capture.

#include <string>

#include "absl/strings/str_cat.h"
#include "tools/common/read_file.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/commands.h"
#include "tools/skiff/pdu_dump.h"

namespace skiff::tools {
namespace {

// All of it is read into memory.
constexpr size_t kMaxCaptureBytes = size_t{1} << 30;

}  // namespace

absl::StatusOr<std::string> DumpCapture(const DumpOptions& options) {
  const absl::StatusOr<std::string> capture =
      ReadFile(options.file, kMaxCaptureBytes);
  if (!capture.ok()) return UsageError(capture.status().message());
  absl::StatusOr<std::string> text = DumpPdus(*capture);
  if (text.ok()) return text;
  return absl::Status(
      text.status().code(),
      absl::StrCat(options.file, ": ", text.status().message()));
}

}  // namespace skiff::tools
