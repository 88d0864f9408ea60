#ifndef SKIFF_TOOLS_COMMON_TRACE_FILE_H_
#define SKIFF_TOOLS_COMMON_TRACE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/trace/pcapng.h"

namespace skiff::tools {

// The file of --trace: a capture of what connections carry, for Wireshark. It
// holds what the disks hold, so that nobody but its owner may read it.
class TraceFile {
 public:
  // Is told, once, why a capture has stopped; on the thread that writes.
  using Warn = absl::AnyInvocable<void(absl::string_view)>;

  // What becomes of a file that is there.
  enum class Mode : uint8_t {
    kReplace,
    kNew,  // It is an error, so that nothing is destroyed.
  };

  // kReplace: the contents of a regular file that is there, which gets mode
  // 0600, and is refused where it belongs to somebody else or has another name;
  // symbolic links are not followed. A named pipe or a device is written to as
  // it is, which may wait for whoever reads it. Errors name the path.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Create(
      const std::string& path, Warn warn, Mode mode = Mode::kReplace);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  // Thread-safe. After an error, of which it warns, nothing more is written, so
  // that what is there stays readable.
  void Write(absl::string_view blocks);

  // Refers to this.
  transport::CaptureSink Sink() {
    return [this](absl::string_view blocks) { Write(blocks); };
  }

 private:
  TraceFile(std::string path, std::FILE* file, Warn warn)
      : path_(std::move(path)), file_(file), warn_(std::move(warn)) {}
  void Stopped(int error);

  const std::string path_;
  std::FILE* const file_;
  std::mutex mutex_;
  Warn warn_;
  bool stopped_ = false;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_TRACE_FILE_H_
