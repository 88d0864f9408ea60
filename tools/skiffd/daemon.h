#ifndef SKIFF_TOOLS_SKIFFD_DAEMON_H_
#define SKIFF_TOOLS_SKIFFD_DAEMON_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "scsi/backend/backend.h"
#include "scsi/target/access_list.h"
#include "scsi/target/target.h"
#include "tools/skiffd/accounts.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/metrics_service.h"
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
  // it must not block.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const DaemonConfig& config, const transport::Registry& registry,
      absl::AnyInvocable<void()> on_all_reactors_turn);

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
  // The accounts of targets and discovery are those of `config` from now on,
  // for the logins that follow. Sessions stay.
  void ReplaceAccounts(const DaemonConfig& config);
  // Who may use a target from now on, in place of what was configured: open
  // sessions are reviewed (scsi::Target::ReviewAccess). NotFound: it has no
  // such target.
  absl::Status ReplaceAccess(absl::string_view target,
                             std::vector<scsi::AccessRule> rules);
  // Writes tables of the LUNs, sessions and memory to the log, soon.
  void PrintSessions();
  // Runs `on_all_reactors_turn` of Start() once all of them have turned. Does
  // nothing while they have not done so since the last call.
  void CheckReactors() { turn_check_->Ask(); }

 private:
  class EndLimit;

  Daemon();
  void WarnOfOpen(const DaemonConfig& config);
  void WarnOfMemory(const DaemonConfig& config);
  absl::Status AddTarget(const TargetConfig& config);
  void WarnOfSameIdentity(const TargetConfig& target, const LunConfig& lun,
                          const scsi::BackendInfo& medium);
  // Takes the descriptors that the system allows, and says what fits.
  void FitConnections(const DaemonConfig& config,
                      protocol::TargetServerLimits* limits);
  void LogSpin(const transport::EpollReactorOptions& reactor);
  absl::Status StartMetrics(const MetricsConfig& config);

  // Destroyed from the last to the first: the server before its reactors.
  std::unique_ptr<transport::ReactorThreads> threads_;
  std::unique_ptr<TurnCheck> turn_check_;
  protocol::LogSink log_;
  std::vector<std::shared_ptr<scsi::Target>> targets_;
  std::shared_ptr<Accounts> accounts_;
  // By the targets' names.
  std::map<std::string, std::shared_ptr<scsi::AccessList>> access_;
  std::unique_ptr<protocol::TargetServer> server_;
  // What media that are written to say they are, and the LUNs.
  std::map<std::string, std::string> identities_;
  std::unique_ptr<MetricsService> metrics_;
  bool shut_down_ = false;
  absl::Duration end_limit_;  // Beyond the grace.
  std::unique_ptr<EndLimit> watch_;
  std::vector<transport::Address> portals_;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_DAEMON_H_
