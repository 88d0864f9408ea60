#ifndef SKIFF_TOOLS_SKIFFD_CONFIG_H_
#define SKIFF_TOOLS_SKIFFD_CONFIG_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "protocol/auth/chap.h"
#include "protocol/target/target_server.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/target/access_list.h"
#include "scsi/target/target.h"
#include "tools/common/stderr_log.h"
#include "tools/skiffd/parsed_config.h"
#include "transport/address.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"

namespace skiff::tools::skiffd {

// `where` says where a part was written, for messages about it.

// What is at the path of a file or a block device.
struct FileFacts {
  std::string identity;  // Equal for the same; empty: there is nothing.
  uint64_t bytes = 0;
};

// Nothing where nobody may look, either.
FileFacts LookAtFile(const std::string& path);

struct LunConfig {
  std::string where;
  FileFacts file;  // When it was checked; of other media, nothing.
  scsi::LogicalUnitOptions options;
  std::variant<scsi::RamBackendOptions, scsi::FileBackendOptions> medium;
};

struct AccountConfig {
  std::string where;
  std::string name;
  std::string own_name;        // Empty: what the target is called.
  std::string initiator_name;  // Who alone may use it; empty: everybody.
  protocol::ChapAccount chap;
};

struct TargetConfig {
  std::string where;
  std::string name;
  std::string alias;
  std::vector<AccountConfig> accounts;  // None: nobody has to be one.
  // Who may use it, and what he sees. Where the configuration has none, one
  // that fits everybody.
  std::vector<scsi::AccessRule> rules;
  bool anybody = false;  // Has neither accounts nor rules of its own.
  bool open = false;     // And is meant to be so.
  std::vector<LunConfig> luns;
};

struct PortalConfig {
  std::string where;
  transport::Address address;

  // Whether only this machine reaches it, as far as the address tells.
  bool loopback() const;
};

struct MetricsConfig {
  std::string where;
  std::string address;  // "HOST:PORT"; empty: no metrics are served.
};

struct ManagementConfig {
  std::string where;
  std::string socket;  // Empty: nobody can manage it.
  uint32_t mode = 0600;
  // As they are written; empty: as the socket comes.
  std::string user;
  std::string group;
  // The same, as numbers; -1: as it comes.
  int64_t uid = -1;
  int64_t gid = -1;
};

// A configuration that was checked, with every default filled in.
struct DaemonConfig {
  DaemonConfig() {
    reactors.name = "skiffd";
    reactors.reactor.adaptive_spin = true;
  }

  protocol::LogLevel log_level = protocol::LogLevel::kInfo;
  StderrLog::Options log;
  transport::ReactorThreadsOptions reactors;
  protocol::TargetServerOptions server;
  // As many connections as there are descriptors for, in place of its limit.
  bool fit_connections = true;
  absl::Duration shutdown_grace = absl::Seconds(10);
  // HandOverOptions' grace and patience.
  absl::Duration restart_grace = absl::Seconds(2);
  absl::Duration restart_patience = absl::Seconds(5);
  std::string state_directory = "/var/lib/skiff";
  MetricsConfig metrics;
  ManagementConfig management;
  std::vector<PortalConfig> portals;
  std::vector<TargetConfig> targets;
  std::vector<AccountConfig> discovery_accounts;  // None: as for a target.
  std::vector<protocol::ChapAlgorithm> chap_algorithms = {
      protocol::AllChapAlgorithms().begin(),
      protocol::AllChapAlgorithms().end()};
};

// Checks what was parsed. Each mistake appends a line "WHERE: what is wrong;
// what to do" to `problems`; the result is usable when there is none. Looks at
// the files of LUNs, and changes nothing.
DaemonConfig CheckConfig(const ParsedConfig& parsed,
                         const transport::Registry& registry,
                         std::vector<std::string>* problems);

// Marks the LUNs ("TARGET/LUN") whose data loss is to be cleared. Mistakes as
// with CheckConfig().
void ClearDataLoss(const std::vector<std::string>& luns, DaemonConfig* config,
                   std::vector<std::string>* problems);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_CONFIG_H_
