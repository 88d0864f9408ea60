#include "tools/skiffd/settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/management/default_socket.h"

namespace skiff::tools::skiffd {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;
constexpr uint64_t kTiB = 1024 * kGiB;
constexpr uint32_t kMany = 1000000;
constexpr uint64_t kMaxMedium = 1024 * 1024 * kTiB;
constexpr uint64_t kMaxLength = (1u << 24) - 1;  // RFC 7143 section 13.

using protocol::TargetServerOptions;

std::vector<Setting> FailedLoginSettings(protocol::FailedLoginLimits* failed) {
  return {
      {"limits", "failed_logins", Number{&failed->max_failures, 0, kMany}},
      {"limits", "failed_logins_per_address",
       Number{&failed->max_failures_per_address, 0, kMany}},
      {"limits", "failed_login_window", Time{&failed->window, nullptr}},
      {"limits", "failed_login_delay", Time{&failed->max_delay, "not at all"}},
      {"limits", "failed_login_entries",
       Number{&failed->max_entries, 1, kMany}},
  };
}

std::vector<Setting> LimitSettings(TargetServerOptions* server) {
  protocol::TargetServerLimits& limits = server->limits;
  protocol::ConnectionLimits& connections = limits.connections;
  protocol::TargetSessionOptions& session = limits.session;
  return {
      {"limits", "max_connections",
       Number{&connections.max_connections, 1, kMany},
       "as many as the limit on open files has room for, at most 65,000"},
      {"limits", "max_connections_in_login",
       Number{&connections.max_connections_in_login, 1, kMany}},
      {"limits", "max_discovery_sessions",
       Number{&connections.max_discovery_sessions, 1, kMany}},
      {"limits", "max_logins_per_peer",
       Number{&connections.max_logins_per_peer, 1, kMany},
       "half of `max_connections_in_login`"},
      {"limits", "max_discovery_per_peer",
       Number{&connections.max_discovery_per_peer, 1, kMany},
       "half of `max_discovery_sessions`"},
      {"limits", "max_sessions_per_peer",
       Number{&connections.max_sessions_per_peer, 1, kMany},
       "half of `max_connections`, at most 1024"},
      {"limits", "memory_budget", Size{&limits.memory_budget, kMiB, kTiB},
       "a sixteenth of the memory that the process may use, from `\"16MiB\"` "
       "to `\"512MiB\"`"},
      {"limits", "buffer_pool",
       Size{&server->worker.buffer_pool_bytes, 64 * kKiB, 64 * kGiB}},
      {"limits", "buffer_size",
       Size{&server->worker.buffer_bytes, 256 * kKiB, kGiB}},
      {"limits", "spare_buffers",
       Size{&limits.memory.max_spare_buffer_bytes, 0, 64 * kGiB}},
      {"limits", "max_send_queue",
       Size{&limits.memory.max_send_queue_bytes, 64 * kKiB, kGiB}},
      {"limits", "queue_depth",
       Number{&session.queue_depth, 1,
              protocol::TargetSessionOptions::kMaxQueueDepth}},
      {"limits", "data_patience", Time{&server->worker.data_patience, nullptr}},
      {"limits", "min_read_rate", Size{&server->worker.min_read_rate, 1, kGiB}},
      {"limits", "coalesce_delay",
       Time{&limits.coalesce_delay, "not at all", absl::ZeroDuration(),
            protocol::TargetServerLimits::kMaxCoalesceDelay}},
      {"limits", "login_timeout", Time{&limits.login_timeout, nullptr}},
      {"limits", "nop_interval", Time{&session.nop_interval, "never"}},
      {"limits", "nop_timeout", Time{&session.nop_timeout, nullptr}},
      {"limits", "send_timeout", Time{&limits.send_timeout, nullptr}},
      {"limits", "data_out_timeout", Time{&session.data_out_timeout, "never"}},
      {"limits", "discovery_idle_timeout",
       Time{&limits.discovery_idle_timeout, "never"}},
      {"limits", "listen_retry_interval",
       Time{&limits.listen_retry_interval, "never",
            protocol::TargetServerLimits::kMinListenRetryInterval}},
      {"limits", "backend_patience", Time{&limits.backend_patience}},
  };
}

std::vector<Setting> NegotiationSettings(protocol::Offer* offer) {
  return {
      {"negotiation", "header_digest", Digests{&offer->header_digest}},
      {"negotiation", "data_digest", Digests{&offer->data_digest}},
      {"negotiation", "initial_r2t", Flag{&offer->initial_r2t}},
      {"negotiation", "immediate_data", Flag{&offer->immediate_data}},
      {"negotiation", "max_recv_data_segment_length",
       Size{&offer->max_recv_data_segment_length, 512, kMaxLength}},
      {"negotiation", "max_burst_length",
       Size{&offer->max_burst_length, 512, kMaxLength}},
      {"negotiation", "first_burst_length",
       Size{&offer->first_burst_length, 512, kMaxLength}},
      {"negotiation", "default_time2wait",
       Number{&offer->default_time2wait, 0, 3600}},
      {"negotiation", "default_time2retain",
       Number{&offer->default_time2retain, 0, 3600}},
      {"negotiation", "max_outstanding_r2t",
       Number{&offer->max_outstanding_r2t, 1, 65535}},
      {"negotiation", "data_pdu_in_order", Flag{&offer->data_pdu_in_order}},
      {"negotiation", "data_sequence_in_order",
       Flag{&offer->data_sequence_in_order}},
  };
}

std::vector<Setting> TransportSettings(TargetServerOptions* server) {
  return {
      {"transport", "backlog", Number{&server->listen.backlog, 1, 65535}},
      {"transport", "keepalive_idle",
       Time{&server->accept.keepalive_idle, "off"}},
      {"transport", "keepalive_interval",
       Time{&server->accept.keepalive_interval, "off"}},
      {"transport", "keepalive_probes",
       Number{&server->accept.keepalive_probes, 1, 127}},
      {"transport", "user_timeout", Time{&server->accept.user_timeout, "off"}},

      {"iser", "lasting_keys", Flag{&server->rdma.lasting_keys}},
      {"iser", "message_memory",
       Size{&server->rdma.message_memory, kMiB, kTiB}},
      {"iser", "unsolicited_data_out",
       Flag{&server->offer.iser.unsolicited_data_out}},
  };
}

std::vector<Setting> LogSettings(DaemonConfig* config) {
  transport::LogLimits& limits = config->server.log_limits;
  return {
      {"log", "format", Format{&config->log.format}},
      {"log", "repeat_window",
       Time{&config->log.queue.repeat_window, "each is a line",
            absl::Seconds(1), absl::Hours(1)}},
      {"log", "queue",
       Size{&config->log.queue.max_bytes,
            transport::QueuedLogOptions::kMinQueueBytes, kGiB}},
      {"log", "flush_timeout", Time{&config->log.flush_timeout}},
      {"log", "burst", Number{&limits.burst, 1, kMany}},
      {"log", "interval", Time{&limits.interval, "no limits"}},
      {"log", "total_burst", Number{&limits.total_burst, 1, kMany}},
      {"log", "peers", Number{&limits.peers, 1, kMany}},
  };
}

}  // namespace

std::vector<Setting> SettingsOf(DaemonConfig* config) {
  std::vector<Setting> all = {
      {"", "log_level", Level{&config->log_level}},
      {"", "portal", Other{kDefaultPortal, "", true}},
      {"", "shutdown_grace", Time{&config->shutdown_grace}},
      {"", "restart_grace", Time{&config->restart_grace}},
      {"", "restart_patience", Time{&config->restart_patience}},
      {"", "state_directory", Path{&config->state_directory}},

      {"chap", "algorithm",
       Other{"`\"SHA3-256\"`, `\"SHA-256\"`, `\"SHA1\"`, `\"MD5\"`"}},

      {"metrics", "listen", Other{kDefaultMetrics, "", true}},
      {"management", "socket", Other{management::kDefaultSocket, "", true}},
      {"management", "mode", Other{kDefaultManagementMode, "", true}},
      {"management", "user", Other{"that of skiffd"}},
      {"management", "group", Other{"that of skiffd"}},

      {"reactors", "count",
       Number{&config->reactors.count, 1,
              transport::ReactorThreadsOptions::kMaxCount}},
      {"reactors", "cpu", Other{"", "one for each reactor"}},
      {"reactors", "spin", Spin{&config->reactors.reactor}},
  };
  for (const std::vector<Setting>& some :
       {LimitSettings(&config->server),
        FailedLoginSettings(&config->server.limits.failed_logins),
        NegotiationSettings(&config->server.offer),
        TransportSettings(&config->server), LogSettings(config)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<Setting> SettingsOf(TargetConfig* target) {
  return {
      {"", "name", Other{"", "an iSCSI name"}},
      {"", "alias", Text{&target->alias, 255}, ""},
      {"", "access", Other{"", "`OPEN`"}},
  };
}

std::vector<Setting> SettingsOf(scsi::AccessRule* rule) {
  return {
      {"", "initiator_name", Other{"", "an iSCSI name"}},
      {"", "account", Text{&rule->authenticated_as, 255}, ""},
      {"", "address",
       Other{"",
             "an IP address, or a range such as "
             "`\"10.0.0.0/8\"`"}},
      {"", "read_only", Flag{&rule->read_only}},
  };
}

std::vector<Setting> SettingsOf(scsi::AccessRule::Lun* lun) {
  return {
      {"", "lun", Number{&lun->lun, 0, kMaxLun}},
      {"", "as", Number{&lun->seen, 0, kMaxLun}, "the same as `lun`"},
      {"", "read_only", Flag{&lun->read_only}},
  };
}

std::vector<Setting> SettingsOf(AccountConfig* account) {
  return {
      {"", "name", Text{&account->name, 255}, ""},
      {"", "secret_file", Other{}},
      {"", "secret_credential", Other{}},
      {"", "own_name", Text{&account->own_name, 255}, "the target's name"},
      {"", "own_secret_file", Other{}},
      {"", "own_secret_credential", Other{}},
      {"", "initiator_name", Other{"", "an iSCSI name"}},
  };
}

std::vector<Setting> SettingsOf(LunConfig* lun) {
  scsi::LogicalUnitOptions& options = lun->options;
  return {
      {"", "lun", Number{&options.lun, 0, kMaxLun},
       "one more than the LUN before"},
      {"", "block_size", Other{"512", "512 or 4096"}},
      {"", "read_only", Other{"false"}},
      {"", "vendor", Text{&options.vendor, 8}},
      {"", "product", Text{&options.product, 16}},
      {"", "revision", Text{&options.revision, 4}},
      {"", "serial", Text{&options.serial, 64},
       "the [identity](#know-a-disk-by-its-identity) of the medium"},
      {"", "max_transfer", Size{&options.max_transfer_bytes, 64 * kKiB, kGiB}},
      {"", "max_tasks", Number{&options.max_tasks, 1, 65535}},
  };
}

std::vector<Setting> SettingsOf(scsi::RamBackendOptions* ram) {
  return {
      {"ram", "size", Size{&ram->size_bytes, ram->block_size, kMaxMedium}, ""},
      {"ram", "huge_pages",
       Other{"true for a disk of at most a quarter of the memory that the "
             "process may use: the machine's, or its control group's limit"}},
      {"ram", "thin", Flag{&ram->thin}},
  };
}

std::vector<Setting> SettingsOf(scsi::FileBackendOptions* file) {
  return {
      {"file", "path", Other{}},
      {"file", "size", Size{&file->size_bytes, file->block_size, kMaxMedium},
       ""},
      {"file", "direct", Flag{&file->direct}},
      {"file", "queue_depth", Number{&file->queue_depth, 1, 4096}},
  };
}

std::string WithDefault(absl::string_view help, absl::string_view section,
                        absl::string_view name) {
  DaemonConfig config;
  std::vector<Setting> settings = SettingsOf(&config);
  const auto setting = std::find_if(
      settings.begin(), settings.end(),
      [&](const Setting& s) { return s.section == section && s.name == name; });
  const std::string range = setting->Range();
  return absl::StrReplaceAll(
      absl::StrCat(help, " (", range, range.empty() ? "" : ", ", "default ",
                   setting->Default(), ")"),
      {{"`", ""}, {"\"", ""}});
}

}  // namespace skiff::tools::skiffd
