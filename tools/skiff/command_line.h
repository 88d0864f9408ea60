#ifndef SKIFF_TOOLS_SKIFF_COMMAND_LINE_H_
#define SKIFF_TOOLS_SKIFF_COMMAND_LINE_H_

#include <optional>
#include <variant>

#include "tools/skiff/base/options.h"

namespace skiff::tools {

struct CommandLine {
  CommonOptions common;
  std::variant<DiscoverOptions, ListOptions, InquiryOptions, CapacityOptions,
               CopyOptions, PerfOptions, PingOptions, ResetOptions,
               TransportsOptions, DoctorOptions, DumpOptions>
      command;
};

// Parses a command line. When there is nothing to run (--help, or a mistake,
// already told to the user) returns the code to exit with.
std::optional<int> ParseCommandLine(int argc, const char* const* argv,
                                    CommandLine* command_line);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_COMMAND_LINE_H_
