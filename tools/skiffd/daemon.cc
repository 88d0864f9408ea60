#include "tools/skiffd/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/memory_limit.h"
#include "scsi/backend/ram_backend.h"
#include "tools/common/stderr_log.h"
#include "tools/common/units.h"
#include "tools/skiffd/descriptors.h"
#include "tools/skiffd/flags.h"
#include "tools/skiffd/tables.h"
#include "transport/reactor/adaptive_spin.h"

namespace skiff::tools::skiffd {
namespace {

// After Shutdown() has called back.
constexpr absl::Duration kThreadsToEnd = absl::Seconds(4);

// Descriptors for those who manage it: two for each of their connections.
constexpr uint64_t kManagement = 160;

absl::Status At(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

absl::StatusOr<std::unique_ptr<scsi::Backend>> OpenMedium(
    const LunConfig& config, const protocol::LogSink& log) {
  if (const auto* ram = std::get_if<scsi::RamBackendOptions>(&config.medium)) {
    return scsi::MakeRamBackend(*ram);
  }
  auto file = std::get<scsi::FileBackendOptions>(config.medium);
  file.log = log;
  return scsi::MakeFileBackend(file);
}

uint64_t LunsOf(const DaemonConfig& config) {
  uint64_t luns = 0;
  for (const TargetConfig& target : config.targets) luns += target.luns.size();
  return luns;
}

}  // namespace

// A thread that ends the process when the daemon does not end in time: the
// threads that could are blocked then.
class Daemon::EndLimit {
 public:
  EndLimit(absl::Duration limit, protocol::LogSink log)
      : log_(std::move(log)), thread_([this, limit] { Watch(limit); }) {}
  ~EndLimit() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void Watch(absl::Duration limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (changed_.wait_for(lock, absl::ToChronoNanoseconds(limit),
                          [this] { return ended_; })) {
      return;
    }
    if (log_ != nullptr) {
      log_(protocol::LogLevel::kError,
           "a reactor is blocked, by a disk perhaps: ending without it");
    }
    FlushStderrLog();
    _exit(kExitImmediate);
  }

  const protocol::LogSink log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // Under mutex_.
  std::thread thread_;  // The last: it uses the others.
};

Daemon::Daemon() = default;

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(
    const DaemonConfig& config, const transport::Registry& registry,
    absl::AnyInvocable<void()> on_all_reactors_turn, Inherited* inherited) {
  std::unique_ptr<Daemon> self(new Daemon);
  self->config_ = config;
  self->log_ = config.server.log;
  self->started_ = transport::EpollReactor::MonotonicNow();
  self->inherited_ = std::make_shared<Inherited*>(inherited);
  auto threads = transport::ReactorThreads::Start(config.reactors);
  if (!threads.ok()) return threads.status();
  self->threads_ = *std::move(threads);
  self->turn_check_ = std::make_unique<TurnCheck>(
      self->threads_->reactors(), std::move(on_all_reactors_turn));
  self->LogSpin(config.reactors.reactor);
  self->WarnOfMemory(config);
  protocol::TargetServerOptions options = config.server;
  self->WarnOfOpen(config);
  self->accounts_ = std::make_shared<Accounts>(config);
  options.authenticator = self->accounts_;
  self->FitConnections(config, &options.limits);
  self->end_limit_ = options.limits.backend_patience +
                     protocol::TargetServerLimits::kShutdownMargin +
                     kThreadsToEnd;
  // Until it listens, below.
  options.listen.inherited = [sockets =
                                  std::weak_ptr<Inherited*>(self->inherited_)](
                                 const transport::Address& address) {
    const std::shared_ptr<Inherited*> there = sockets.lock();
    return there == nullptr ? -1 : (*there)->TakeSocket(address);
  };
  auto server = protocol::TargetServer::Create(
      &registry, self->threads_->reactors(), options);
  if (!server.ok()) return server.status();
  self->server_ = *std::move(server);

  self->server_->Expect(inherited->sessions());
  for (const TargetConfig& target : config.targets) {
    if (absl::Status status = self->AddTarget(target); !status.ok()) {
      return status;
    }
  }
  self->LookAtFiles();
  for (const PortalConfig& portal : config.portals) {
    absl::StatusOr<transport::Address> bound =
        absl::InternalError("not listening");
    // Portals belong to the first reactor, which turns already.
    self->threads_->RunOn(0, [&] { bound = self->Listen(portal); });
    if (!bound.ok()) return bound.status();
    self->portals_.push_back({portal.address, *std::move(bound)});
  }
  auto metrics = self->StartMetrics(config.metrics);
  if (!metrics.ok()) return metrics.status();
  self->metrics_ = *std::move(metrics);
  self->server_->TakeOver(inherited->TakeRest());
  self->inherited_.reset();
  return self;
}

absl::StatusOr<std::unique_ptr<MetricsService>> Daemon::StartMetrics(
    const MetricsConfig& config) {
  if (config.address.empty()) return nullptr;
  metrics::TargetSnapshots::Options options;
  options.server = server_.get();
  options.targets = [this] { return Targets(); };
  // Called by one thread at a time. Whoever is interrupted between two looks
  // at the clock must not make it less.
  options.reactors = [this, started = started_,
                      last = std::vector<absl::Duration>(
                          threads_->size(), absl::ZeroDuration())]() mutable {
    std::vector<metrics::TargetSnapshot::Reactor> reactors;
    for (int i = 0; i < threads_->size(); ++i) {
      const absl::Duration idle = threads_->reactor(i)->idle_time();
      last[i] = std::max(
          last[i], transport::EpollReactor::MonotonicNow() - started - idle);
      reactors.push_back({idle, last[i]});
    }
    return reactors;
  };
  auto service = MetricsService::Start(config.address, std::move(options));
  if (!service.ok()) return At(config.where, service.status());
  Log(protocol::LogLevel::kInfo,
      absl::StrCat("metrics are served at ", (*service)->url()));
  return service;
}

void Daemon::FitConnections(const DaemonConfig& config,
                            protocol::TargetServerLimits* limits) {
  const absl::StatusOr<uint64_t> limit = RaiseDescriptorLimit();
  if (!limit.ok()) {
    if (log_ != nullptr) {
      log_(protocol::LogLevel::kWarning, limit.status().message());
    }
    return;
  }
  needs_.limit = *limit;
  needs_.open = OpenDescriptors();
  if (!config.management.socket.empty()) needs_.open += kManagement;
  needs_.luns = LunsOf(config);
  needs_.reactors = static_cast<uint64_t>(config.reactors.count);
  needs_.in_login = limits->connections.max_connections_in_login;
  const uint32_t fit = ConnectionsThatFit(needs_);
  if (config.fit_connections) limits->connections.max_connections = fit;
  max_connections_ = limits->connections.max_connections;
  if (log_ == nullptr) return;
  if (config.fit_connections) {
    log_(protocol::LogLevel::kInfo, ChosenConnections(fit, *limit));
  } else if (limits->connections.max_connections > fit) {
    log_(protocol::LogLevel::kWarning,
         TooManyConnections(limits->connections.max_connections, fit, *limit));
  }
}

void Daemon::ReviewConnections() {
  const uint64_t luns = LunsOf(config_);
  if (needs_.limit == 0 || luns <= needs_.luns) return;
  needs_.luns = luns;
  const uint32_t fit = ConnectionsThatFit(needs_);
  if (max_connections_ <= fit) return;
  Log(protocol::LogLevel::kWarning,
      TooManyConnections(max_connections_, fit, needs_.limit));
}

void Daemon::LogSpin(const transport::EpollReactorOptions& reactor) {
  if (log_ == nullptr || !reactor.adaptive_spin) return;
  std::string time = absl::FormatDuration(reactor.spin);
  if (reactor.spin == absl::ZeroDuration()) {
    time = absl::StrCat(absl::FormatDuration(absl::Floor(
                            transport::SpinThatPays(), absl::Microseconds(1))),
                        ", which suits this machine,");
  }
  log_(protocol::LogLevel::kInfo,
       absl::StrCat("reactors poll for up to ", time,
                    " before they sleep, while there is something to do that "
                    "soon"));
}

// Memory is taken as it is written, so that too much of it shows late.
void Daemon::WarnOfMemory(const DaemonConfig& config) {
  const uint64_t usable = scsi::UsableMemory();
  if (log_ == nullptr || usable == 0) return;
  uint64_t wanted = 0;
  for (const TargetConfig& target : config.targets) {
    for (const LunConfig& lun : target.luns) {
      const auto* ram = std::get_if<scsi::RamBackendOptions>(&lun.medium);
      if (ram == nullptr) continue;
      const uint64_t left = std::numeric_limits<uint64_t>::max() - wanted;
      wanted += std::min<uint64_t>(ram->size_bytes, left);
    }
  }
  if (wanted <= usable) return;
  log_(protocol::LogLevel::kWarning,
       absl::StrCat("RAM disks can grow to ", FormatSize(wanted),
                    ", but this process may use ", FormatSize(usable),
                    " of memory: the system will end it when initiators have "
                    "written that much; make the disks smaller, or use files"));
}

void Daemon::WarnOfOpen(const DaemonConfig& config) {
  if (log_ == nullptr) return;
  std::vector<std::string> open;
  for (const TargetConfig& target : config.targets) {
    if (target.anybody) open.push_back(target.name);
  }
  std::vector<std::string> portals;
  for (const PortalConfig& portal : config.portals) {
    if (!portal.loopback()) portals.push_back(portal.where);
  }
  if (open.empty() || portals.empty()) return;
  log_(protocol::LogLevel::kWarning,
       absl::StrCat("everybody who reaches ", absl::StrJoin(portals, ", "),
                    " can read and write the disks of ",
                    absl::StrJoin(open, ", "), ", as the configuration says"));
}

std::shared_ptr<scsi::Target> Daemon::MakeTarget(const TargetConfig& config) {
  auto access = std::make_shared<scsi::AccessList>(config.rules);
  std::shared_ptr<scsi::Target> target =
      scsi::Target::Create(config.name, access);
  access_[config.name] = std::move(access);
  return target;
}

absl::StatusOr<std::shared_ptr<scsi::Backend>> Daemon::Open(
    const std::string& target, const LunConfig& lun) {
  absl::StatusOr<std::unique_ptr<scsi::Backend>> medium = OpenMedium(lun, log_);
  if (!medium.ok()) return At(lun.where, medium.status());
  const scsi::BackendInfo info = (*medium)->info();
  const std::string name = absl::StrCat(target, " LUN ", lun.options.lun);
  Log(protocol::LogLevel::kInfo,
      absl::StrCat(name, ": ", info.description, ", ",
                   FormatSize(info.size_bytes)));
  if (!info.data_loss.empty()) {
    Log(protocol::LogLevel::kError,
        absl::StrCat(name, ": ", info.data_loss,
                     "; reading and writing fail until skiffd is started with "
                     "--clear-data-loss ",
                     target, "/", lun.options.lun));
  }
  return std::shared_ptr<scsi::Backend>(*std::move(medium));
}

absl::Status Daemon::Serve(scsi::Target* target, const LunConfig& lun,
                           std::shared_ptr<scsi::Backend> medium) {
  const LunKey key = {std::string(target->name()), lun.options.lun};
  WarnOfSameIdentity(key, lun, medium->info());
  const absl::Status status = target->AddLogicalUnit(medium, lun.options);
  if (!status.ok()) return At(lun.where, status);
  media_[key] = std::move(medium);
  return absl::OkStatus();
}

absl::Status Daemon::AddTarget(const TargetConfig& config) {
  const std::shared_ptr<scsi::Target> target = MakeTarget(config);
  for (const LunConfig& lun : config.luns) {
    auto medium = Open(config.name, lun);
    if (!medium.ok()) return medium.status();
    if (absl::Status status = Serve(target.get(), lun, *std::move(medium));
        !status.ok()) {
      return status;
    }
  }
  targets_.push_back(target);
  const absl::Status status = server_->AddTarget(target, config.alias);
  if (!status.ok()) return At(config.where, status);
  return absl::OkStatus();
}

absl::StatusOr<transport::Address> Daemon::Listen(const PortalConfig& portal) {
  absl::StatusOr<transport::Address> bound = server_->Listen(portal.address);
  if (!bound.ok()) return At(portal.where, bound.status());
  return bound;
}

// Files are locked, so that two media that are written to are two. Unless they
// are paths to one device: then they are one without its lock.
void Daemon::WarnOfSameIdentity(const LunKey& key, const LunConfig& lun,
                                const scsi::BackendInfo& medium) {
  if (medium.read_only || medium.identity.empty() ||
      !lun.options.serial.empty()) {
    return;
  }
  const auto [other, added] = identities_.emplace(medium.identity, key);
  if (added || other->second == key || log_ == nullptr) return;
  log_(protocol::LogLevel::kWarning,
       absl::StrCat(key.first, " LUN ", key.second, " has the identity of ",
                    other->second.first, " LUN ", other->second.second,
                    ", and initiators take them for one disk: two disks need "
                    "a serial each, and two paths to one disk must not both be "
                    "served"));
}

Daemon::~Daemon() {
  if (server_ != nullptr && !shut_down_) {
    std::promise<void> done;
    Shutdown(absl::ZeroDuration(), [&done] { done.set_value(); });
    done.get_future().wait();
  }
  // Nothing runs on the reactors while what lives on them goes, and what they
  // call: Shutdown() has closed the metrics.
  if (threads_ != nullptr) threads_->Stop();
  metrics_.reset();
}

std::string Daemon::ReadyLine() const {
  std::string line = "ready";
  for (const Portal& portal : portals_) {
    absl::StrAppend(&line, " portal=", portal.bound.ToString());
  }
  for (const std::shared_ptr<scsi::Target>& target : targets_) {
    absl::StrAppend(&line, " target=", target->name());
  }
  if (metrics_ != nullptr) absl::StrAppend(&line, " metrics=", metrics_->url());
  return line;
}

void Daemon::Shutdown(absl::Duration grace, absl::AnyInvocable<void()> done) {
  shut_down_ = true;
  watch_ = std::make_unique<EndLimit>(
      std::min(grace, absl::Hours(24 * 365)) + end_limit_, log_);
  server_->Shutdown(grace, [this, done = std::move(done)]() mutable {
    if (metrics_ != nullptr) metrics_->Close();
    done();
  });
}

void Daemon::HandOver(absl::AnyInvocable<void(protocol::ServerHandover)> done) {
  shut_down_ = true;
  protocol::HandOverOptions how;
  how.grace = config_.restart_grace;
  how.patience = config_.restart_patience;
  std::set<std::string> lasting;  // Their disks outlive the process.
  for (const TargetConfig& target : config_.targets) {
    const bool lasts = std::none_of(
        target.luns.begin(), target.luns.end(), [](const LunConfig& lun) {
          return std::holds_alternative<scsi::RamBackendOptions>(lun.medium);
        });
    if (lasts) lasting.insert(target.name);
  }
  how.wanted = [lasting](const std::string& target) {
    return target.empty() || lasting.count(target) > 0;
  };
  watch_ = std::make_unique<EndLimit>(how.grace + how.patience + 2 * end_limit_,
                                      log_);
  server_->HandOver(how, [this, done = std::move(done)](
                             protocol::ServerHandover handover) mutable {
    if (metrics_ != nullptr) metrics_->Close();
    done(std::move(handover));
  });
}

void Daemon::PrintSessions() {
  for (const std::shared_ptr<scsi::Target>& target : targets_) {
    for (const std::string& line : LunTable(*target)) {
      LogToStderr(protocol::LogLevel::kInfo, line);
    }
  }
  server_->ListSessions([](const std::vector<protocol::SessionInfo>& sessions) {
    for (const std::string& line : SessionTable(sessions)) {
      LogToStderr(protocol::LogLevel::kInfo, line);
    }
  });
  server_->ReportMemory([](const protocol::ServerMemory& memory) {
    for (const std::string& line : MemoryTable(memory)) {
      LogToStderr(protocol::LogLevel::kInfo, line);
    }
  });
}

}  // namespace skiff::tools::skiffd
