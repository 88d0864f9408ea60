#ifndef SKIFF_TOOLS_LIBRARY_LOG_HOOK_H_
#define SKIFF_TOOLS_LIBRARY_LOG_HOOK_H_

#include <skiff/common.h>

#include <atomic>
#include <memory>

#include "absl/strings/string_view.h"
#include "transport/log/log.h"

namespace skiff::library {

// A context's log: passes lines to its user's function. Also those that belong
// to no context, such as what a transport finds out about the machine: each
// context that has a log gets them. Thread-safe.
class LogHook : public std::enable_shared_from_this<LogHook> {
 public:
  static std::shared_ptr<LogHook> Create(const skiff_context_options& options);
  LogHook(const LogHook&) = delete;
  LogHook& operator=(const LogHook&) = delete;
  ~LogHook();

  void Write(transport::LogLevel level, absl::string_view message) const;
  // Keeps this.
  transport::LogSink Sink() const;
  // From this skiff_log_level on, lines are passed.
  void SetLevel(int level) { level_ = level; }

 private:
  explicit LogHook(const skiff_context_options& options);
  static void WriteToAll(transport::LogLevel level, absl::string_view message);

  const skiff_log_fn function_;
  void* const user_;
  std::atomic<int> level_;
  // In the list of all.
  LogHook* previous_ = nullptr;
  LogHook* next_ = nullptr;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_LOG_HOOK_H_
