#ifndef SKIFF_TOOLS_SKIFFD_DAEMON_H_
#define SKIFF_TOOLS_SKIFFD_DAEMON_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "scsi/backend/backend.h"
#include "scsi/target/access_list.h"
#include "scsi/target/target.h"
#include "tools/skiffd/accounts.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/config_index.h"
#include "tools/skiffd/descriptors.h"
#include "tools/skiffd/handover.h"
#include "tools/skiffd/metrics_service.h"
#include "tools/skiffd/parsed_config.h"
#include "tools/skiffd/plan.h"
#include "tools/skiffd/turn_check.h"
#include "transport/address.h"
#include "transport/reactor/epoll_reactor.h"
#include "transport/reactor/reactor_threads.h"
#include "transport/registry.h"

namespace skiff::tools::skiffd {

// What a configuration describes, running on threads of its own. Used from one
// thread.
class Daemon {
 public:
  // Opens the media, starts the reactors and listens. Errors start with where
  // the part at fault was configured. `registry` must outlive the daemon.
  // `on_all_reactors_turn` answers CheckReactors(), on a thread of the daemon;
  // it must not block. It goes on with what was `inherited`, which may be
  // nothing.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const DaemonConfig& config, const transport::Registry& registry,
      absl::AnyInvocable<void()> on_all_reactors_turn, Inherited* inherited);

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  // Ends at once if Shutdown() was not called; otherwise only after it called
  // back.
  ~Daemon();

  // One line for whoever waits for it: "ready portal=URI ... target=NAME ...",
  // with the ports that were really bound.
  std::string ReadyLine() const;

  // TargetServer::Shutdown; `done` runs on a thread of the daemon. If a disk
  // blocks all of them, the process ends without it, with kExitImmediate.
  void Shutdown(absl::Duration grace, absl::AnyInvocable<void()> done);
  // TargetServer::HandOver, in its place: without the sessions of targets whose
  // disks are memory of this process.
  void HandOver(absl::AnyInvocable<void(protocol::ServerHandover)> done);
  // What became of Apply().
  struct Applied {
    std::vector<std::string> changes;   // What was done, for people.
    std::vector<std::string> notes;     // Plan::notes.
    std::vector<std::string> problems;  // "WHERE: why; what to do".
    bool in_use = false;      // All problems are that sessions use something.
    bool bad_config = false;  // They are mistakes of the configuration.
  };
  struct ApplyOptions {
    // Changes nothing, and says what it would. Media are not opened for that,
    // nor portals.
    bool dry_run = false;
    bool force = false;  // Takes away what sessions use.
  };
  // Makes what runs what `wanted` says, which `parsed` became: all of it, or
  // nothing, if there are problems. What does not change goes on untouched.
  // Initiators are told of what they can see (unit attentions). A LUN or target
  // that open sessions use is not taken away without force.
  //
  // The log level, and the grace of Shutdown(), are the caller's. Waits for
  // reactors: a few seconds at most. Not after Shutdown().
  Applied Apply(DaemonConfig wanted, const ParsedConfig& parsed,
                const ApplyOptions& options);
  // Writes tables of the LUNs, sessions and memory to the log, soon.
  void PrintSessions();

  // What is served now. Unavailable: a reactor is blocked.
  absl::StatusOr<std::vector<protocol::SessionInfo>> Sessions() const;
  absl::StatusOr<protocol::ServerMemory> Memory() const;
  struct ServedLun {
    std::string target;
    scsi::LogicalUnitStatus status;
    uint32_t block_size = 0;
    bool read_only = false;  // The medium.
  };
  std::vector<ServedLun> Luns() const;
  struct ServedPortal {
    std::string configured;
    std::string bound;
  };
  std::vector<ServedPortal> ServedPortals() const;
  const DaemonConfig& config() const { return config_; }
  // Since it was made.
  absl::Duration uptime() const;

  // TargetServer::DropSession of those that are still there. Does not wait.
  void Drop(const std::vector<uint64_t>& sessions, absl::Duration grace);
  // Whether the target, or all if `target` is empty, turns logins away for a
  // while (0301, service unavailable). Who is in stays. Returns their names.
  absl::StatusOr<std::vector<std::string>> SetDraining(
      const std::string& target, bool draining);
  bool IsDraining(const std::string& target) const {
    return draining_.count(target) > 0;
  }
  // Runs `on_all_reactors_turn` of Start() once all of them have turned. Does
  // nothing while they have not done so since the last call.
  void CheckReactors() { turn_check_->Ask(); }

 private:
  class EndLimit;

  Daemon();
  // A portal, as it is configured and as it is bound.
  struct Portal {
    transport::Address configured;
    transport::Address bound;
  };
  struct Prepared;
  class Leaving;

  // daemon_apply.cc:
  void CheckLeaving(const Plan& plan, std::vector<std::string>* problems) const;
  void CheckUse(const Plan& plan, Applied* out) const;
  void OpenMedia(const Plan& plan, const ConfigIndex& wanted,
                 Prepared* prepared, std::vector<std::string>* problems);
  void Prepare(const Plan& plan, const DaemonConfig& wanted,
               const ApplyOptions& options, Prepared* prepared, Applied* out);
  void Undo(const Prepared& prepared);
  // Opens portals and does the rest, or nothing, if one cannot be opened.
  void Switch(const Plan& plan, const DaemonConfig& wanted, Prepared* prepared,
              std::vector<std::string>* problems);
  void Commit(const Plan& plan, const DaemonConfig& wanted, Prepared* prepared);
  // On the first reactor.
  bool OpenPortals(const Plan& plan, const DaemonConfig& wanted,
                   std::vector<std::string>* problems);
  void ClosePortals(const Plan& plan);
  // What there is of files that are served.
  void LookAtFiles();
  void ResizeFiles(const Plan& plan, Prepared* prepared,
                   std::vector<std::string>* problems);
  void TellSizes(const Prepared& prepared);
  void CommitRemovals(const Plan& plan);
  void CommitAdditions(const Plan& plan, const ConfigIndex& wanted,
                       Prepared* prepared);
  void ReviewAccess();
  // Within a few seconds.
  bool FirstReactorTurns();
  // The rules of `config` hold for logins from now on, but for targets that
  // are `closed`.
  void SetRules(const DaemonConfig& config,
                const std::set<std::string>& closed = {});
  void Forget(const LunKey& lun);

  // On the first reactor.
  absl::StatusOr<transport::Address> Listen(const PortalConfig& portal);
  absl::StatusOr<std::shared_ptr<scsi::Backend>> Open(const std::string& target,
                                                      const LunConfig& lun);
  absl::Status Serve(scsi::Target* target, const LunConfig& lun,
                     std::shared_ptr<scsi::Backend> medium);
  std::shared_ptr<scsi::Target> MakeTarget(const TargetConfig& config);
  // By their names, which they have.
  using TargetsByName = absl::flat_hash_map<absl::string_view, scsi::Target*>;
  TargetsByName NamedTargets() const;
  std::vector<std::shared_ptr<scsi::Target>> Targets() const {
    const std::lock_guard<std::mutex> lock(targets_mutex_);
    return targets_;
  }
  void Log(protocol::LogLevel level, absl::string_view message) const {
    if (log_ != nullptr) log_(level, message);
  }
  void WarnOfOpen(const DaemonConfig& config);
  void WarnOfMemory(const DaemonConfig& config);
  absl::Status AddTarget(const TargetConfig& config);
  void WarnOfSameIdentity(const LunKey& key, const LunConfig& lun,
                          const scsi::BackendInfo& medium);
  // Takes the descriptors that the system allows, and says what fits.
  void FitConnections(const DaemonConfig& config,
                      protocol::TargetServerLimits* limits);
  // Says when LUNs that came have taken the room of connections.
  void ReviewConnections();
  void LogSpin(const transport::EpollReactorOptions& reactor);
  // Null: none are wanted.
  absl::StatusOr<std::unique_ptr<MetricsService>> StartMetrics(
      const MetricsConfig& config);

  // Destroyed from the last to the first: the server before its reactors.
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::unique_ptr<TurnCheck> turn_check_;
  protocol::LogSink log_;
  DaemonConfig config_;  // What runs.
  // Changed by the daemon's own thread, and read by others.
  mutable std::mutex targets_mutex_;
  std::vector<std::shared_ptr<scsi::Target>> targets_;
  absl::flat_hash_map<LunKey, std::shared_ptr<scsi::Backend>> media_;
  // What was taken away, and still comes to its end.
  std::shared_ptr<Leaving> leaving_;
  std::shared_ptr<Accounts> accounts_;
  // By the targets' names.
  std::map<std::string, std::shared_ptr<scsi::AccessList>> access_;
  std::set<std::string> draining_;
  std::unique_ptr<protocol::TargetServer> server_;
  // What media that are written to say they are, and the LUNs.
  std::map<std::string, LunKey> identities_;
  std::unique_ptr<MetricsService> metrics_;
  std::shared_ptr<Inherited*> inherited_;  // While it starts.
  absl::Time started_;                     // Before its reactors.
  bool shut_down_ = false;
  // As it was at start, but for the LUNs; without a limit, it is not known.
  DescriptorNeeds needs_;
  uint32_t max_connections_ = 0;
  absl::Duration end_limit_;  // Beyond the grace.
  std::unique_ptr<EndLimit> watch_;
  std::vector<Portal> portals_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_DAEMON_H_
