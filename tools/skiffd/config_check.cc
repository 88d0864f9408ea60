#include <arpa/inet.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/names.h"
#include "tools/skiffd/account_check.h"
#include "tools/skiffd/allow_check.h"
#include "tools/skiffd/checker.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config.pb.h"
#include "tools/skiffd/lun_check.h"
#include "tools/skiffd/management_check.h"

namespace skiff::tools::skiffd {
namespace {

constexpr uint64_t kPage = 4096;

// What the table cannot say: the settings that have to go together.

void CheckReactors(const Reactors& reactors, Checker* checker,
                   transport::ReactorThreadsOptions* out) {
  out->cpus.assign(reactors.cpu().begin(), reactors.cpu().end());
  const auto count = static_cast<size_t>(out->count);
  if (!out->cpus.empty() && out->cpus.size() != count) {
    checker->Problem(reactors, Reactors::kCpuFieldNumber,
                     absl::StrCat(out->cpus.size(), " cpu for ", count,
                                  " reactors; give one for each, or none"),
                     0);
  }
}

void CheckBuffers(const Limits& limits, Checker* checker,
                  const scsi::WorkerOptions& worker) {
  if (worker.buffer_bytes % kPage != 0) {
    checker->Problem(limits, Limits::kBufferSizeFieldNumber,
                     absl::StrCat("buffer_size must be a multiple of ", kPage));
  }
  // A quarter of the pool is for small buffers.
  if (worker.buffer_pool_bytes - worker.buffer_pool_bytes / 4 <
      worker.buffer_bytes) {
    checker->Problem(limits, Limits::kBufferPoolFieldNumber,
                     "buffer_pool must hold one buffer (buffer_size) and a "
                     "third more, for small ones");
  }
}

void CheckIser(const Iser& iser, Checker* checker,
               const protocol::TargetServerOptions& server) {
  const bool unsolicited = server.offer.iser.unsolicited_data_out;
  if (unsolicited && server.offer.initial_r2t) {
    checker->Problem(iser, Iser::kUnsolicitedDataOutFieldNumber,
                     "unsolicited_data_out does nothing with initial_r2t: "
                     "true; take out one of them");
  }
  const uint64_t session = protocol::IserMemoryOfSession(server);
  if (server.rdma.message_memory < session) {
    checker->Problem(
        iser, Iser::kMessageMemoryFieldNumber,
        absl::StrCat("message_memory must hold one session, which takes ",
                     (session + 1023) / 1024, " KiB with queue_depth ",
                     server.limits.session.queue_depth,
                     unsolicited ? " and unsolicited_data_out; a shorter "
                                   "first_burst_length makes it less"
                                 : ""));
  }
}

absl::Status CheckAddress(const transport::Registry& registry,
                          const transport::Address& address) {
  const absl::StatusOr<transport::Transport*> transport =
      registry.Find(address.scheme);
  if (!transport.ok()) return transport.status();
  absl::Status status = (*transport)->CheckAddress(address);
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

// An IP address, as Prometheus's library resolves no names, and takes lists
// and options where it wants one address.
MetricsConfig CheckMetrics(const Config& config, Checker* checker) {
  MetricsConfig out;
  if (!config.has_metrics()) return out;
  out.where = checker->Where(config.metrics());
  const std::string text = config.metrics().has_listen()
                               ? config.metrics().listen()
                               : kDefaultMetrics;
  const auto address = transport::Address::Parse(absl::StrCat("tcp://", text),
                                                 kDefaultMetricsPort);
  in6_addr ignored;
  if (!address.ok() || !address->options.empty() ||
      (inet_pton(AF_INET, address->host.c_str(), &ignored) != 1 &&
       inet_pton(AF_INET6, address->host.c_str(), &ignored) != 1)) {
    checker->Problem(config.metrics(), Metrics::kListenFieldNumber,
                     absl::StrCat("'", text,
                                  "' is not an IP address and a port: write "
                                  "such as ",
                                  kDefaultMetrics, " or [::1]:9464"));
    return out;
  }
  out.address = address->HostPort();
  return out;
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
    checker->Read(target, SettingsOf(&to));
    to.accounts = CheckAccounts(target.account(), to.name, checker);
    to.luns = luns.Check(target);
    CheckAllow(target, checker, &to);
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
  checker.Read(config, SettingsOf(&out));
  out.log.level = out.log_level;
  CheckReactors(config.reactors(), &checker, &out.reactors);
  CheckBuffers(config.limits(), &checker, out.server.worker);
  out.fit_connections = !config.limits().has_max_connections();
  const absl::Status offer =
      protocol::Validate(out.server.offer, protocol::Role::kTarget);
  if (!offer.ok()) checker.Problem(config.negotiation(), 0, offer.message());
  CheckIser(config.iser(), &checker, out.server);
  CheckPortals(config, registry, &checker, &out.portals);
  CheckTargets(config, &checker, &out.targets);
  CheckOpen(out, config, &checker);
  out.chap_algorithms = CheckAlgorithms(config.chap(), &checker);
  out.metrics = CheckMetrics(config, &checker);
  out.management = CheckManagement(config, &checker);
  out.discovery_accounts =
      CheckAccounts(config.discovery_account(), "discovery", &checker);
  std::vector<AccountConfig> accounts = out.discovery_accounts;
  for (const TargetConfig& target : out.targets) {
    accounts.insert(accounts.end(), target.accounts.begin(),
                    target.accounts.end());
  }
  CheckDirections(accounts, problems);
  for (TargetConfig& target : out.targets) {
    for (LunConfig& lun : target.luns) {
      auto* file = std::get_if<scsi::FileBackendOptions>(&lun.medium);
      if (file != nullptr) file->state_directory = out.state_directory;
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
