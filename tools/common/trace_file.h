#ifndef SKIFF_TOOLS_COMMON_TRACE_FILE_H_
#define SKIFF_TOOLS_COMMON_TRACE_FILE_H_

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/trace/tracing_backend.h"

namespace skiff::tools {

// The file of --trace: a capture of what connections carry, for Wireshark.
class TraceFile {
 public:
  // Replaces a file that is there. Errors name the path.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Create(
      const std::string& path);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  // Tells on standard error when not everything could be written.
  ~TraceFile();

  // Thread-safe. After an error nothing more is written, so that what is there
  // stays readable.
  void Write(absl::string_view blocks);

  // Refers to this.
  transport::CaptureSink Sink() {
    return [this](absl::string_view blocks) { Write(blocks); };
  }

 private:
  TraceFile(std::string path, std::FILE* file)
      : path_(std::move(path)), file_(file) {}

  const std::string path_;
  std::FILE* const file_;
  std::mutex mutex_;
  int error_ = 0;  // An errno.
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_TRACE_FILE_H_
