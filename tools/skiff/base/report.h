#ifndef SKIFF_TOOLS_SKIFF_BASE_REPORT_H_
#define SKIFF_TOOLS_SKIFF_BASE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// What subcommands find out. Each report can be printed for people (text.h) and
// for programs (json.h).

namespace skiff::tools {

struct DiscoveryReport {
  struct Target {
    std::string name;
    std::vector<std::string> portals;  // "192.0.2.1:3260,1", as discovered.
  };
  std::vector<Target> targets;
};

struct LunReport {
  uint32_t lun = 0;
  uint64_t size_bytes = 0;
  uint32_t block_size = 0;
  std::string vendor;
  std::string product;
  std::string revision;
  std::string serial;
  uint8_t device_type = 0;  // Of others than disks, which have no size here.
  std::string problem;      // When there is no more to tell.
};

// A session with a target, and what its connections have done so far.
struct SessionReport {
  std::string target;
  std::string peer;
  std::string transport;
  std::string data_model;
  std::string dialect;  // Of iSER, and what it means; empty without.
  std::string device;   // Of RDMA; empty without.
  bool remote_invalidation = false;
  std::vector<std::string>
      fallbacks;  // What is slower than it could be, and why.
  std::vector<std::pair<std::string, std::string>> keys;  // As negotiated.
  uint64_t commands = 0;
  uint64_t retries = 0;
  uint64_t reconnects = 0;
  // In the order in which they are told.
  std::vector<std::pair<std::string, uint64_t>> counters;
};

struct ListReport {
  struct Target {
    std::string name;
    std::string problem;  // Why there are no LUNs.
    std::vector<LunReport> luns;
    // None if nobody could log in.
    std::optional<SessionReport> session = std::nullopt;
  };
  std::vector<Target> targets;

  // Whether something could not be looked at.
  bool incomplete() const;
};

// Facts in the order in which they are told.
struct FactsReport {
  using Value =
      std::variant<bool, uint64_t, std::string, std::vector<std::string>>;
  struct Fact {
    std::string key;    // "max_transfer_length", for programs.
    std::string label;  // "maximum transfer length", for people.
    Value value;
    std::string unit;  // For people.
  };
  struct Section {
    std::string key;
    std::string title;
    std::vector<Fact> facts;
  };
  std::vector<Section> sections;
  std::optional<SessionReport> session;  // Not in ToText().
};

struct CopyReport {
  std::string source;
  std::string destination;
  uint64_t bytes = 0;
  double seconds = 0;
  std::optional<double> verify_seconds;  // Verified, and found equal.
  bool cut_short = false;                // By a signal.
};

struct LatencyReport {
  uint64_t ios = 0;
  double iops = 0;
  double megabytes_per_second = 0;  // Of 10^6 bytes.
  double mean_us = 0;
  double min_us = 0;
  double max_us = 0;
  std::vector<std::pair<std::string, double>> percentiles_us;  // "p99.9".
};

struct PerfReport {
  std::string url;
  std::string transport;
  std::string data_model;
  std::string rw;
  uint32_t io_bytes = 0;
  uint32_t depth = 0;
  uint32_t jobs = 0;
  double seconds = 0;
  LatencyReport read;
  LatencyReport write;
  // Of this process, for one command.
  double cpu_user_us = 0;
  double cpu_system_us = 0;
  bool verify = false;
  uint64_t verified_blocks = 0;
  // How often commands of all passes were sent again: as something else, such
  // as a reset, kept the target from carrying them out, or for want of an
  // answer.
  uint64_t interrupted = 0;
  uint64_t unanswered = 0;
  // Commands of all passes that ended well, but with RECOVERED ERROR.
  uint64_t recovered = 0;
  bool cut_short = false;               // By a signal.
  std::vector<SessionReport> sessions;  // One for each job.
};

struct PingReport {
  std::string peer;
  uint32_t sent = 0;
  std::vector<double> round_trips_us;
  bool cut_short = false;  // By a signal.
  std::optional<SessionReport> session;
};

// What went wrong, when that is all there is.
struct ErrorReport {
  int exit_code = 0;
  std::string message;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_REPORT_H_
