#ifndef SKIFF_TOOLS_SKIFFD_FLAGS_H_
#define SKIFF_TOOLS_SKIFFD_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/skiffd/parsed_config.h"

namespace skiff::tools::skiffd {

// Exit codes; docs/skiffd.md explains them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // Could not start.
inline constexpr int kExitUsage = 2;    // Bad flags or configuration.
// A second signal, or a blocked disk, cut the end short.
inline constexpr int kExitImmediate = 3;

struct Flags {
  std::string config_file;       // Empty: the quick form.
  std::vector<QuickFlag> quick;  // In the order of the command line.
  bool check = false;
  // These win over the configuration file.
  std::optional<uint32_t> reactors;
  std::optional<uint32_t> queue_depth;
  std::string spin;
  std::string log_level;
  std::string trace_file;                    // Empty: no capture.
  std::vector<std::string> clear_data_loss;  // TARGET/LUN each.
};

// Parses a command line. When there is nothing to run (--help, or a mistake,
// already told to the user) returns the code to exit with.
std::optional<int> ParseFlags(int argc, const char* const* argv, Flags* flags);

// Reads the configuration file, or takes the quick form, and applies the flags
// that win over it.
ParsedConfig ReadConfig(const Flags& flags, std::vector<std::string>* problems);

// Those that win over a configuration, whatever it was read from.
void ApplyFlags(const Flags& flags, ParsedConfig* parsed);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_FLAGS_H_
