#ifndef SKIFF_TOOLS_COMMON_TRACE_SWITCH_H_
#define SKIFF_TOOLS_COMMON_TRACE_SWITCH_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/common/trace_file.h"
#include "transport/trace/pcapng.h"

namespace skiff::tools {

// A capture that begins and ends while connections are there. Thread-safe.
class TraceSwitch {
 public:
  TraceSwitch() = default;
  TraceSwitch(const TraceSwitch&) = delete;
  TraceSwitch& operator=(const TraceSwitch&) = delete;

  // Begins a file, as TraceFile::Create() does. FailedPrecondition: there is
  // one already. May wait for the file system.
  absl::Status Start(const std::string& path, TraceFile::Mode mode,
                     TraceFile::Warn warn);
  // Ends it, and returns its path. FailedPrecondition: there is none. DataLoss:
  // it has ended before, and is not complete. May wait for the file system.
  absl::StatusOr<std::string> Stop();
  // Empty: there is none.
  std::string path() const;

  // Refers to this.
  transport::CaptureSink Sink() {
    return {[this](absl::string_view blocks) { Write(blocks); }, on_};
  }

 private:
  void Write(absl::string_view blocks);

  const std::shared_ptr<std::atomic<bool>> on_ =
      std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;  // Of the file, also while it is written.
  std::unique_ptr<TraceFile> file_;
  mutable std::mutex state_mutex_;  // Of what follows; taken last.
  std::string path_;
  std::string broken_;  // Why it is not complete.
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_TRACE_SWITCH_H_
