#include "tools/common/trace_switch.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::tools {

absl::Status TraceSwitch::Start(const std::string& path, TraceFile::Warn warn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a trace is written to ", path_, " already; stop it first"));
  }
  auto file = TraceFile::Create(path, std::move(warn));
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  path_ = path;
  *on_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::string> TraceSwitch::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ == nullptr) {
    return absl::FailedPreconditionError("no trace is written");
  }
  *on_ = false;
  file_.reset();
  return std::exchange(path_, "");
}

std::string TraceSwitch::path() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return path_;
}

void TraceSwitch::Write(absl::string_view blocks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ != nullptr) file_->Write(blocks);
}

}  // namespace skiff::tools
