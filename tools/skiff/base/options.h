#ifndef SKIFF_TOOLS_SKIFF_BASE_OPTIONS_H_
#define SKIFF_TOOLS_SKIFF_BASE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/initiator/initiator.h"
#include "transport/reactor/epoll_reactor.h"

// What the command line says, one struct for each subcommand. Filled by
// command_line.cc.

namespace skiff::tools {

struct CommonOptions {
  // Whoever waits at a terminal gives up sooner.
  CommonOptions() {
    initiator.reconnect.replacement_timeout = absl::Seconds(30);
  }

  bool json = false;
  bool verbose = false;  // Events of the sessions go to standard error.
  // What sessions are made with. Portal, target, and who is told what, are not
  // said here.
  protocol::InitiatorOptions initiator;
  std::string header_digest;  // Empty: as in `initiator`.
  std::string data_digest;
  // Of its reactors: adaptive unless told otherwise.
  transport::EpollReactorOptions reactor = {.adaptive_spin = true};
  std::string password_file;         // Of the URL's user; empty: in the URL.
  std::string target_user;           // As which the target has to show itself,
  std::string target_password_file;  // by this; empty: it does not have to.
  std::string trace_file;            // Empty: no capture.
};

struct DiscoverOptions {
  std::string url;
};

struct ListOptions {
  std::string url;
};

struct InquiryOptions {
  std::string url;
  // Vital product data pages; empty: standard inquiry data. "all" stands for
  // those that the unit has.
  std::vector<std::string> pages;
};

struct CapacityOptions {
  std::string url;
};

struct CopyOptions {
  std::string source;
  std::string destination;
  uint64_t source_offset = 0;
  uint64_t destination_offset = 0;
  std::optional<uint64_t> length;
  uint32_t depth = 16;
  uint32_t piece_bytes = 1u << 20;
  bool verify = false;
  bool pad = false;
  bool sparse = false;
  bool quiet = false;  // No progress, no summary.
};

struct PerfOptions {
  std::string url;
  std::string rw = "randread";
  uint32_t read_percent = 50;  // Of mixed workloads.
  uint32_t io_bytes = 4096;
  uint32_t depth = 1;
  uint32_t jobs = 1;
  uint64_t offset = 0;
  std::optional<uint64_t> size;  // Nothing: to the end of the logical unit.
  absl::Duration runtime = absl::ZeroDuration();  // Zero: once over the range.
  std::string verify;                             // "crc32c", or empty: not.
  uint64_t seed = 1;
};

struct PingOptions {
  std::string url;
  uint32_t count = 4;
  absl::Duration interval = absl::Seconds(1);
};

struct ResetOptions {
  std::string url;
  bool target = false;  // The whole target instead of the logical unit.
};

struct DoctorOptions {
  std::string url;  // Empty: this machine alone.
};

// Of this machine.
struct TransportsOptions {};

// Of a capture.
struct DumpOptions {
  std::string file;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_BASE_OPTIONS_H_
