#include "tools/common/trace_switch.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::tools {

absl::Status TraceSwitch::Start(const std::string& path, TraceFile::Mode mode,
                                TraceFile::Warn warn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a trace is written to ", this->path(), " already; stop it first"));
  }
  auto file = TraceFile::Create(
      path,
      [this, warn = std::move(warn)](absl::string_view why) mutable {
        *on_ = false;
        {
          const std::lock_guard<std::mutex> state(state_mutex_);
          broken_ = std::string(why);
        }
        warn(why);
      },
      mode);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  const std::lock_guard<std::mutex> state(state_mutex_);
  path_ = path;
  *on_ = broken_.empty();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TraceSwitch::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ == nullptr) {
    return absl::FailedPreconditionError("no trace is written");
  }
  *on_ = false;
  file_.reset();
  const std::lock_guard<std::mutex> state(state_mutex_);
  std::string path = std::exchange(path_, "");
  const std::string broken = std::exchange(broken_, "");
  if (!broken.empty()) return absl::DataLossError(broken);
  return path;
}

std::string TraceSwitch::path() const {
  const std::lock_guard<std::mutex> state(state_mutex_);
  return path_;
}

void TraceSwitch::Write(absl::string_view blocks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ != nullptr) file_->Write(blocks);
}

}  // namespace skiff::tools
