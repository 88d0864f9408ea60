#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/names.h"
#include "tools/skiffd/checker.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/lun_check.h"

namespace skiff::tools::skiffd {
namespace {

constexpr char kDefaultPortal[] = "tcp://127.0.0.1:3260";
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kGiB = 1u << 30;

void CheckLogLevel(const Config& config, Checker* checker,
                   protocol::LogLevel* out) {
  using protocol::LogLevel;
  if (!config.has_log_level()) return;
  for (const auto& [name, level] : {std::pair("error", LogLevel::kError),
                                    std::pair("warning", LogLevel::kWarning),
                                    std::pair("info", LogLevel::kInfo),
                                    std::pair("debug", LogLevel::kDebug)}) {
    if (absl::EqualsIgnoreCase(config.log_level(), name)) {
      *out = level;
      return;
    }
  }
  checker->Problem(config, Config::kLogLevelFieldNumber,
                   absl::StrCat("'", config.log_level(),
                                "' is no log level; write error, warning, info "
                                "or debug"));
}

void CheckLog(const Log& log, Checker* checker, StderrLog::Options* out,
              transport::LogLimits* limits) {
  checker->Size(log, Log::kQueueFieldNumber,
                transport::QueuedLogOptions::kMinQueueBytes, kGiB,
                &out->queue.max_bytes);
  checker->Duration(log, Log::kFlushTimeoutFieldNumber, &out->flush_timeout);
  checker->Number(log, Log::kBurstFieldNumber, 1, 1000000, &limits->burst);
  checker->Duration(log, Log::kIntervalFieldNumber, &limits->interval);
  checker->Number(log, Log::kTotalBurstFieldNumber, 1, 1000000,
                  &limits->total_burst);
  checker->Number(log, Log::kPeersFieldNumber, 1, 1000000, &limits->peers);
}

void CheckReactors(const Reactors& reactors, Checker* checker,
                   transport::ReactorThreadsOptions* out) {
  uint32_t count = 1;
  checker->Number(reactors, Reactors::kCountFieldNumber, 1,
                  transport::ReactorThreadsOptions::kMaxCount, &count);
  out->count = static_cast<int>(count);
  for (const uint32_t cpu : reactors.cpu()) {
    out->cpus.push_back(static_cast<int>(cpu));
  }
  if (!out->cpus.empty() && out->cpus.size() != count) {
    checker->Problem(reactors, Reactors::kCpuFieldNumber,
                     absl::StrCat(out->cpus.size(), " cpu for ", count,
                                  " reactors; give one for each, or none"),
                     0);
  }
  checker->Spin(reactors, Reactors::kSpinFieldNumber, &out->reactor);
}

void CheckConnections(const Limits& limits, Checker* checker,
                      protocol::TargetServerLimits* to) {
  constexpr uint32_t kMost = 1000000;
  for (const auto& [field, out] :
       {std::pair(Limits::kMaxConnectionsFieldNumber,
                  &to->connections.max_connections),
        std::pair(Limits::kMaxConnectionsInLoginFieldNumber,
                  &to->connections.max_connections_in_login),
        std::pair(Limits::kMaxDiscoverySessionsFieldNumber,
                  &to->connections.max_discovery_sessions),
        std::pair(Limits::kMaxLoginsPerPeerFieldNumber,
                  &to->connections.max_logins_per_peer),
        std::pair(Limits::kMaxDiscoveryPerPeerFieldNumber,
                  &to->connections.max_discovery_per_peer),
        std::pair(Limits::kMaxSessionsPerPeerFieldNumber,
                  &to->connections.max_sessions_per_peer)}) {
    checker->Number(limits, field, 1, kMost, out);
  }
  checker->Duration(limits, Limits::kDiscoveryIdleTimeoutFieldNumber,
                    &to->discovery_idle_timeout);
}

void CheckLimits(const Limits& limits, Checker* checker,
                 protocol::TargetServerOptions* out) {
  protocol::TargetServerLimits* to = &out->limits;
  CheckConnections(limits, checker, to);
  checker->Number(limits, Limits::kQueueDepthFieldNumber, 1,
                  protocol::TargetSessionOptions::kMaxQueueDepth,
                  &to->session.queue_depth);
  checker->Size(limits, Limits::kMaxSendQueueFieldNumber, 64 * kKiB, kGiB,
                &to->memory.max_send_queue_bytes);
  checker->Size(limits, Limits::kSpareBuffersFieldNumber, 0, 64 * kGiB,
                &to->memory.max_spare_buffer_bytes);
  checker->Duration(limits, Limits::kBackendPatienceFieldNumber,
                    &to->backend_patience);
  checker->Size(limits, Limits::kMemoryBudgetFieldNumber, kMiB, 1024 * kGiB,
                &to->memory_budget);
  checker->PositiveDuration(limits, Limits::kLoginTimeoutFieldNumber,
                            &to->login_timeout);
  checker->Duration(limits, Limits::kNopIntervalFieldNumber,
                    &to->session.nop_interval);
  checker->PositiveDuration(limits, Limits::kNopTimeoutFieldNumber,
                            &to->session.nop_timeout);
  checker->PositiveDuration(limits, Limits::kSendTimeoutFieldNumber,
                            &to->send_timeout);
  checker->Duration(limits, Limits::kDataOutTimeoutFieldNumber,
                    &to->session.data_out_timeout);
  checker->Duration(limits, Limits::kListenRetryIntervalFieldNumber,
                    &to->listen_retry_interval);
  if (to->listen_retry_interval > absl::ZeroDuration() &&
      to->listen_retry_interval <
          protocol::TargetServerLimits::kMinListenRetryInterval) {
    checker->Problem(
        limits, Limits::kListenRetryIntervalFieldNumber,
        absl::StrCat(
            "listen_retry_interval is ",
            absl::FormatDuration(to->listen_retry_interval),
            "; write 0s for never, or at least ",
            absl::FormatDuration(
                protocol::TargetServerLimits::kMinListenRetryInterval)));
  }
  checker->Duration(limits, Limits::kCoalesceDelayFieldNumber,
                    &to->coalesce_delay,
                    protocol::TargetServerLimits::kMaxCoalesceDelay);
  scsi::WorkerOptions* worker = &out->worker;
  checker->PositiveDuration(limits, Limits::kDataPatienceFieldNumber,
                            &worker->data_patience);
  checker->Size(limits, Limits::kMinReadRateFieldNumber, 1, kGiB,
                &worker->min_read_rate);
  checker->Size(limits, Limits::kBufferSizeFieldNumber, 256 * kKiB, kGiB,
                &worker->buffer_bytes);
  if (worker->buffer_bytes % kPage != 0) {
    checker->Problem(limits, Limits::kBufferSizeFieldNumber,
                     absl::StrCat("buffer_size must be a multiple of ", kPage));
  }
  checker->Size(limits, Limits::kBufferPoolFieldNumber, 64 * kKiB, 64 * kGiB,
                &worker->buffer_pool_bytes);
  // A quarter of the pool is for small buffers.
  if (worker->buffer_pool_bytes - worker->buffer_pool_bytes / 4 <
      worker->buffer_bytes) {
    checker->Problem(limits, Limits::kBufferPoolFieldNumber,
                     "buffer_pool must hold one buffer (buffer_size) and a "
                     "third more, for small ones");
  }
}

void CheckDigests(const Negotiation& negotiation, int field,
                  const google::protobuf::RepeatedPtrField<std::string>& names,
                  Checker* checker, std::vector<protocol::Digest>* out) {
  if (names.empty()) return;
  out->clear();
  for (int i = 0; i < names.size(); ++i) {
    if (absl::EqualsIgnoreCase(names[i], "None")) {
      out->push_back(protocol::Digest::kNone);
    } else if (absl::EqualsIgnoreCase(names[i], "CRC32C")) {
      out->push_back(protocol::Digest::kCrc32c);
    } else {
      checker->Problem(
          negotiation, field,
          absl::StrCat("'", names[i], "' is no digest; write None or CRC32C"),
          i);
    }
  }
}

void CheckNegotiation(const Negotiation& n, Checker* checker,
                      protocol::Offer* out) {
  constexpr uint64_t kMax = (1u << 24) - 1;  // RFC 7143 section 13.
  CheckDigests(n, Negotiation::kHeaderDigestFieldNumber, n.header_digest(),
               checker, &out->header_digest);
  CheckDigests(n, Negotiation::kDataDigestFieldNumber, n.data_digest(), checker,
               &out->data_digest);
  checker->Bool(n, Negotiation::kInitialR2TFieldNumber, &out->initial_r2t);
  checker->Bool(n, Negotiation::kImmediateDataFieldNumber,
                &out->immediate_data);
  checker->Size(n, Negotiation::kMaxRecvDataSegmentLengthFieldNumber, 512, kMax,
                &out->max_recv_data_segment_length);
  checker->Size(n, Negotiation::kMaxBurstLengthFieldNumber, 512, kMax,
                &out->max_burst_length);
  checker->Size(n, Negotiation::kFirstBurstLengthFieldNumber, 512, kMax,
                &out->first_burst_length);
  checker->Number(n, Negotiation::kDefaultTime2WaitFieldNumber, 0, 3600,
                  &out->default_time2wait);
  checker->Number(n, Negotiation::kDefaultTime2RetainFieldNumber, 0, 3600,
                  &out->default_time2retain);
  checker->Number(n, Negotiation::kMaxOutstandingR2TFieldNumber, 1, 65535,
                  &out->max_outstanding_r2t);
  checker->Bool(n, Negotiation::kDataPduInOrderFieldNumber,
                &out->data_pdu_in_order);
  checker->Bool(n, Negotiation::kDataSequenceInOrderFieldNumber,
                &out->data_sequence_in_order);
  const absl::Status status = protocol::Validate(*out, protocol::Role::kTarget);
  if (!status.ok()) {
    checker->Problem(n, 0, status.message());
  }
}

void CheckTransport(const Transport& transport, Checker* checker,
                    protocol::TargetServerOptions* out) {
  uint32_t backlog = static_cast<uint32_t>(out->listen.backlog);
  checker->Number(transport, Transport::kBacklogFieldNumber, 1, 65535,
                  &backlog);
  out->listen.backlog = static_cast<int>(backlog);
  checker->Duration(transport, Transport::kKeepaliveIdleFieldNumber,
                    &out->accept.keepalive_idle);
  checker->Duration(transport, Transport::kKeepaliveIntervalFieldNumber,
                    &out->accept.keepalive_interval);
  uint32_t probes = static_cast<uint32_t>(out->accept.keepalive_probes);
  checker->Number(transport, Transport::kKeepaliveProbesFieldNumber, 1, 127,
                  &probes);
  out->accept.keepalive_probes = static_cast<int>(probes);
  checker->Duration(transport, Transport::kUserTimeoutFieldNumber,
                    &out->accept.user_timeout);
}

void CheckIser(const Iser& iser, Checker* checker,
               protocol::TargetServerOptions* out) {
  checker->Bool(iser, Iser::kLastingKeysFieldNumber, &out->rdma.lasting_keys);
  checker->Bool(iser, Iser::kUnsolicitedDataOutFieldNumber,
                &out->offer.iser.unsolicited_data_out);
  if (out->offer.iser.unsolicited_data_out && out->offer.initial_r2t) {
    checker->Problem(iser, Iser::kUnsolicitedDataOutFieldNumber,
                     "unsolicited_data_out does nothing with initial_r2t: "
                     "true; take out one of them");
  }
  checker->Size(iser, Iser::kMessageMemoryFieldNumber, kMiB, 1024 * kGiB,
                &out->rdma.message_memory);
  const uint64_t session = protocol::IserMemoryOfSession(*out);
  if (out->rdma.message_memory < session) {
    checker->Problem(
        iser, Iser::kMessageMemoryFieldNumber,
        absl::StrCat("message_memory must hold one session, which takes ",
                     (session + kKiB - 1) / kKiB, " KiB with queue_depth ",
                     out->limits.session.queue_depth,
                     out->offer.iser.unsolicited_data_out
                         ? " and unsolicited_data_out; a shorter "
                           "first_burst_length makes it less"
                         : ""));
  }
}

absl::Status CheckAddress(const transport::Registry& registry,
                          const transport::Address& address) {
  const absl::StatusOr<transport::Backend*> backend =
      registry.Find(address.scheme);
  if (!backend.ok()) return backend.status();
  absl::Status status = (*backend)->CheckAddress(address);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(address.ToString(), ": ", status.message()));
}

void CheckPortals(const Config& config, const transport::Registry& registry,
                  Checker* checker, std::vector<PortalConfig>* out) {
  std::vector<std::string> portals(config.portal().begin(),
                                   config.portal().end());
  if (portals.empty()) portals.push_back(kDefaultPortal);
  for (int i = 0; i < static_cast<int>(portals.size()); ++i) {
    const absl::StatusOr<transport::Address> address =
        transport::Address::Parse(portals[i]);
    absl::Status status = address.status();
    if (status.ok()) status = CheckAddress(registry, *address);
    if (!status.ok()) {
      checker->Problem(config, Config::kPortalFieldNumber, status.message(), i);
      continue;
    }
    for (const PortalConfig& other : *out) {
      if (other.address == *address && address->port != 0) {
        checker->Problem(
            config, Config::kPortalFieldNumber,
            absl::StrCat(address->ToString(), " is listened on twice"), i);
      }
    }
    out->push_back({address->ToString(), *address});
  }
}

void CheckTargets(const Config& config, Checker* checker,
                  std::vector<TargetConfig>* out) {
  if (config.target().empty()) {
    checker->Problem(config, 0,
                     "there is no target; add at least one, with a name and a "
                     "LUN");
  }
  LunChecker luns(checker);
  std::map<std::string, std::string> names;
  for (const Target& target : config.target()) {
    TargetConfig to;
    to.where = checker->Where(target);
    const absl::StatusOr<std::string> name =
        protocol::NormalizeName(target.name());
    if (!name.ok()) {
      checker->Problem(target, Target::kNameFieldNumber,
                       name.status().message());
    } else {
      to.name = *name;
      const auto [other, fresh] = names.emplace(*name, to.where);
      if (!fresh) {
        checker->Problem(target, Target::kNameFieldNumber,
                         absl::StrCat("target ", *name,
                                      " is defined already by ", other->second,
                                      "; give each target a name of its own"));
      }
    }
    checker->Text(target, Target::kAliasFieldNumber, 255, &to.alias);
    to.luns = luns.Check(target);
    if (to.luns.empty()) {
      checker->Problem(target, 0,
                       absl::StrCat("target ", target.name(),
                                    " has no LUN; add at least one"));
    }
    out->push_back(std::move(to));
  }
}

}  // namespace

DaemonConfig CheckConfig(const ParsedConfig& parsed,
                         const transport::Registry& registry,
                         std::vector<std::string>* problems) {
  const Config& config = *parsed.config;
  Checker checker(&parsed.locations, problems);
  DaemonConfig out;
  CheckLogLevel(config, &checker, &out.log_level);
  out.log.level = out.log_level;
  CheckLog(config.log(), &checker, &out.log, &out.server.log_limits);
  out.reactors.name = "skiffd";
  out.reactors.reactor.adaptive_spin = true;
  CheckReactors(config.reactors(), &checker, &out.reactors);
  CheckLimits(config.limits(), &checker, &out.server);
  out.fit_connections = !config.limits().has_max_connections();
  CheckNegotiation(config.negotiation(), &checker, &out.server.offer);
  CheckTransport(config.transport(), &checker, &out.server);
  CheckIser(config.iser(), &checker, &out.server);
  checker.Duration(config, Config::kShutdownGraceFieldNumber,
                   &out.shutdown_grace);
  CheckPortals(config, registry, &checker, &out.portals);
  std::string state_directory = "/var/lib/skiff";
  if (config.has_state_directory()) state_directory = config.state_directory();
  CheckTargets(config, &checker, &out.targets);
  for (TargetConfig& target : out.targets) {
    for (LunConfig& lun : target.luns) {
      auto* file = std::get_if<scsi::FileBackendOptions>(&lun.medium);
      if (file != nullptr) file->state_directory = state_directory;
    }
  }
  return out;
}

void ClearDataLoss(const std::vector<std::string>& luns, DaemonConfig* config,
                   std::vector<std::string>* problems) {
  for (const std::string& text : luns) {
    scsi::FileBackendOptions* found = nullptr;
    for (TargetConfig& target : config->targets) {
      for (LunConfig& lun : target.luns) {
        if (text == absl::StrCat(target.name, "/", lun.options.lun)) {
          found = std::get_if<scsi::FileBackendOptions>(&lun.medium);
        }
      }
    }
    if (found != nullptr) {
      found->clear_data_loss = true;
    } else {
      problems->push_back(absl::StrCat(
          "--clear-data-loss: ", text,
          " is no LUN with a file; write TARGET/LUN, such as "
          "iqn.2026-11.com.example:disks/0, of the configuration"));
    }
  }
}

}  // namespace skiff::tools::skiffd
