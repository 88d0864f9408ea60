#ifndef SKIFF_TOOLS_SKIFFCTL_COMMANDS_H_
#define SKIFF_TOOLS_SKIFFCTL_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/skiffctl/client.h"

namespace skiff::tools::skiffctl {

// Exit codes; docs/skiffctl.md explains them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;       // skiffd said no; output is lost.
inline constexpr int kExitUsage = 2;        // A bad command line, or file.
inline constexpr int kExitUnreachable = 3;  // No answer in time.
inline constexpr int kExitInUse = 4;        // Sessions use what would go.
inline constexpr int kExitDiffers = 5;      // Of diff: there are changes.

// What all commands have.
struct Common {
  Client* client = nullptr;
  bool json = false;
};

struct ApplyOptions {
  std::string file;  // "-": standard input.
  bool force = false;
  absl::Duration wait = absl::ZeroDuration();
};

struct DropOptions {
  std::vector<uint64_t> ids;
  std::string initiator;
  std::string target;
  bool all = false;
  absl::Duration grace = absl::ZeroDuration();
};

struct DrainOptions {
  std::string target;  // Empty: all.
  bool end = false;
  absl::Duration grace = absl::ZeroDuration();
};

struct TopOptions {
  absl::Duration interval = absl::Seconds(1);
  uint64_t count = 0;  // 0: without end.
  uint64_t rows = 20;
};

// Each does what it is called, prints what came of it, and returns the exit
// code.
int Apply(const Common& common, const ApplyOptions& options);
// Without `wait`.
int Diff(const Common& common, const ApplyOptions& options);
int Get(const Common& common);
int Status(const Common& common);
// "sessions", "targets", "luns", "portals" or "devices".
int List(const Common& common, const std::string& what);
int Drop(const Common& common, const DropOptions& options);
int Drain(const Common& common, const DrainOptions& options);
int SetLogLevel(const Common& common, const std::string& level);
int StartTrace(const Common& common, const std::string& file);
int StopTrace(const Common& common);
int Top(const Common& common, const TopOptions& options);

}  // namespace skiff::tools::skiffctl

#endif  // SKIFF_TOOLS_SKIFFCTL_COMMANDS_H_
