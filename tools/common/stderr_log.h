#ifndef SKIFF_TOOLS_COMMON_STDERR_LOG_H_
#define SKIFF_TOOLS_COMMON_STDERR_LOG_H_

#include "absl/strings/string_view.h"
#include "protocol/driver/target_server.h"

namespace skiff::tools {

// Writes one line to standard error:
//   2026-11-21T09:00:35.123456Z info  10.0.0.2:41234: logged in
// Thread-safe; lines of threads never mix.
void LogToStderr(protocol::LogLevel level, absl::string_view message);

// A sink for what is at least as grave as `level`.
protocol::LogSink StderrSink(protocol::LogLevel level);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_STDERR_LOG_H_
