#include "tools/common/trace_file.h"

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/log/log.h"
#include "transport/trace/pcapng.h"

namespace skiff::tools {

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(
    const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot write a trace to ", path));
  }
  std::unique_ptr<TraceFile> trace(new TraceFile(path, file));
  trace->Write(transport::PcapngHeader());
  return trace;
}

TraceFile::~TraceFile() {
  if (std::fclose(file_) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0) return;
  transport::LogToProcess(
      transport::LogLevel::kError,
      absl::StrCat("the trace in ", path_,
                   " is not complete: ", std::strerror(error_)));
}

void TraceFile::Write(absl::string_view blocks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (error_ != 0) return;
  if (std::fwrite(blocks.data(), 1, blocks.size(), file_) != blocks.size()) {
    error_ = errno;
  }
}

}  // namespace skiff::tools
