#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/target/target_server.h"
#include "tools/common/journal.h"
#include "tools/common/log_format.h"
#include "tools/common/process.h"
#include "tools/common/service_manager.h"
#include "tools/common/stderr_log.h"
#include "tools/common/trace_switch.h"
#include "tools/common/transports.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/controls.h"
#include "tools/skiffd/daemon.h"
#include "tools/skiffd/flags.h"
#include "tools/skiffd/handover.h"
#include "tools/skiffd/management_service.h"
#include "transport/log/printable.h"
#include "transport/net/scoped_fd.h"
#include "transport/registry.h"

namespace skiff::tools::skiffd {
namespace {

void Log(protocol::LogLevel level, absl::string_view message) {
  LogToStderr(level, message);
}

enum class Event { kStopped, kReactorsTurn, kCheckReactors, kAsked, kSignal };

// What the main thread waits for. Takes over the signals that skiffd answers.
// To be made before any thread, so that all threads block them.
class Events {
 public:
  // `watchdog`: how often someone waits to hear that the reactors turn. Zero:
  // nobody does.
  explicit Events(absl::Duration watchdog) {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGUSR1, SIGUSR2})
      sigaddset(&set, number);
    for (const int number : {SIGINT, SIGHUP}) {
      if (!StartedIgnoring(number)) sigaddset(&set, number);
    }
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
    stopped_fd_ = eventfd(0, EFD_CLOEXEC);
    turned_fd_ = eventfd(0, EFD_CLOEXEC);
    asked_fd_ = eventfd(0, EFD_CLOEXEC);
    timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    // At half of it, which leaves the other half for the answer.
    const timespec period = absl::ToTimespec(watchdog / 2);
    const itimerspec spec = {period, period};
    if (timer_fd_ >= 0) timerfd_settime(timer_fd_, 0, &spec, nullptr);
  }

  bool ok() const {
    return signal_fd_ >= 0 && stopped_fd_ >= 0 && turned_fd_ >= 0 &&
           asked_fd_ >= 0 && timer_fd_ >= 0;
  }

  // Thread-safe: makes Wait() return kStopped, from now on.
  void NotifyStopped() const { Notify(stopped_fd_); }
  // Thread-safe: makes it return kReactorsTurn once.
  void NotifyReactorsTurn() const { Notify(turned_fd_); }
  // Thread-safe: makes it return kAsked once.
  void NotifyAsked() const { Notify(asked_fd_); }

  // The next one. kStopped comes again and again.
  Event Wait() {
    while (true) {
      pollfd fds[] = {{stopped_fd_, POLLIN, 0},
                      {turned_fd_, POLLIN, 0},
                      {timer_fd_, POLLIN, 0},
                      {signal_fd_, POLLIN, 0},
                      {asked_fd_, POLLIN, 0}};
      if (poll(fds, 5, -1) < 0) continue;
      if (fds[0].revents != 0) return Event::kStopped;
      if (fds[1].revents != 0 && Clear(turned_fd_)) {
        return Event::kReactorsTurn;
      }
      if (fds[2].revents != 0 && Clear(timer_fd_)) {
        return Event::kCheckReactors;
      }
      signalfd_siginfo info;
      if (fds[3].revents != 0 &&
          read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
        signal_ = static_cast<int>(info.ssi_signo);
        return Event::kSignal;
      }
      if (fds[4].revents != 0 && Clear(asked_fd_)) return Event::kAsked;
    }
  }
  // That of the last kSignal.
  int signal() const { return signal_; }

 private:
  static void Notify(int fd) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
  }
  static bool Clear(int fd) {
    uint64_t count = 0;
    return read(fd, &count, sizeof(count)) == sizeof(count);
  }

  int signal_fd_;
  int stopped_fd_;
  int turned_fd_;
  int asked_fd_;
  int timer_fd_;
  int signal_ = 0;
};

void WarnIfFailed(const absl::Status& told) {
  if (told.ok()) return;
  Log(protocol::LogLevel::kWarning, told.message());
}

// Takes no part in what is served: only changes, ends, prints and tells.
class MainLoop {
 public:
  MainLoop(Events* events, Controls* controls, ManagementService* management,
           const ServiceManager& manager, const Flags& flags)
      : events_(events),
        controls_(controls),
        management_(management),
        manager_(manager),
        flags_(flags) {}

  // Serves until told to end. Returns the exit code.
  int Run() {
    for (Event event; (event = events_->Wait()) != Event::kStopped;) {
      switch (event) {
        case Event::kCheckReactors:
          controls_->daemon()->CheckReactors();
          break;
        case Event::kReactorsTurn:
          WarnIfFailed(manager_.Alive());
          break;
        case Event::kAsked:
          management_->Answer(controls_);
          break;
        default:
          OnSignal(events_->signal());
      }
    }
    if (handover_.has_value()) Leave(*std::move(handover_));
    Log(protocol::LogLevel::kInfo, "ended");
    return kExitOk;
  }

 private:
  void OnSignal(int number) {
    if (number == SIGUSR1) return controls_->daemon()->PrintSessions();
    // A terminal that goes away takes the quick form with it. Whoever tells a
    // daemon to reload its configuration does not mean to end it.
    if (number == SIGHUP && !flags_.config_file.empty()) {
      // READY=1 would take back that it ends.
      if (!controls_->ending()) Reload();
      return;
    }
    if (controls_->ending()) {
      if (number == SIGUSR2) return;
      Log(protocol::LogLevel::kWarning, "second signal: ending at once");
      FlushStderrLog();
      // Destructors would wait for what is still in flight.
      _exit(kExitImmediate);
    }
    controls_->SetEnding();
    if (number == SIGUSR2 && manager_.there()) return HandOver();
    const std::string ending =
        absl::StrCat("ending; initiators have ",
                     absl::FormatDuration(controls_->grace()), " to log out");
    Log(protocol::LogLevel::kInfo,
        absl::StrCat(strsignal(number), ": ", ending,
                     ", a second signal ends at once"));
    controls_->daemon()->Shutdown(
        controls_->grace(), [events = events_] { events->NotifyStopped(); });
    WarnIfFailed(manager_.Stopping(ending));
  }

  // Who is started next goes on with the sessions.
  void HandOver() {
    const std::string ending = "ending; another process goes on";
    Log(protocol::LogLevel::kInfo,
        absl::StrCat(strsignal(SIGUSR2), ": ", ending));
    WarnIfFailed(manager_.Stopping(ending));
    controls_->daemon()->HandOver([this](protocol::ServerHandover handover) {
      handover_.emplace(std::move(handover));
      events_->NotifyStopped();
    });
  }

  void Leave(protocol::ServerHandover handover) {
    const absl::StatusOr<PackedHandover> packed =
        PackHandover(std::move(handover));
    if (!packed.ok()) return WarnIfFailed(packed.status());
    for (const std::string& initiator : packed->left_out) {
      Log(protocol::LogLevel::kWarning,
          absl::StrCat(initiator,
                       " has to log in again: it has sent too much "
                       "ahead of what could be served"));
    }
    std::vector<int> descriptors;
    for (const transport::ScopedFd& one : packed->descriptors) {
      descriptors.push_back(one.get());
    }
    const absl::Status kept = manager_.Keep(descriptors);
    WarnIfFailed(kept);
    if (!kept.ok()) return;
    Log(protocol::LogLevel::kInfo,
        absl::StrCat("the next process gets ", packed->sessions, " sessions"));
  }

  // A service manager that asked for this waits for the second message.
  void Reload() {
    WarnIfFailed(manager_.Reloading());
    controls_->ApplyFile();
    WarnIfFailed(manager_.Ready(controls_->daemon()->ReadyLine()));
  }

  Events* const events_;
  Controls* const controls_;
  ManagementService* const management_;  // Null: nobody asks.
  const ServiceManager& manager_;
  const Flags& flags_;
  std::optional<protocol::ServerHandover> handover_;  // Once it has ended.
};

bool Report(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    std::fprintf(stderr, "%s\n", transport::Printable(problem).c_str());
  }
  return !problems.empty();
}

int Fail(absl::string_view why) {
  std::fprintf(stderr, "skiffd: %s\n", transport::Printable(why).c_str());
  return kExitFailure;
}

// Null: what is wrong was told.
std::optional<Configuration> ConfigureFirst(
    const Flags& flags, const transport::Registry& registry) {
  std::vector<std::string> problems;
  Configuration config = ReadConfiguration(flags, registry, &problems);
  if (problems.empty()) {
    ClearDataLoss(flags.clear_data_loss, &config.checked, &problems);
  }
  if (Report(problems)) return std::nullopt;
  return config;
}

absl::Status StartTrace(const Flags& flags, TraceSwitch* trace) {
  if (flags.trace_file.empty() || flags.check) return absl::OkStatus();
  return trace->Start(flags.trace_file, TraceFile::Mode::kReplace,
                      [](absl::string_view warning) {
                        Log(protocol::LogLevel::kWarning, warning);
                      });
}

// Null: nobody is to manage it.
absl::StatusOr<std::unique_ptr<ManagementService>> StartManagement(
    const ManagementConfig& config, const Events& events,
    const protocol::LogSink& log) {
  if (config.socket.empty()) return nullptr;
  auto service = ManagementService::Start(
      config, [&events] { events.NotifyAsked(); }, log);
  if (service.ok()) {
    Log(protocol::LogLevel::kInfo,
        absl::StrCat("is managed at ", config.socket));
    return service;
  }
  return absl::Status(
      service.status().code(),
      absl::StrCat(config.where, ": ", service.status().message()));
}

// Where the log is to go there.
absl::Status ReachJournal(StderrLog::Options* log) {
  if (log->format != LogFormat::kJournal) return absl::OkStatus();
  const absl::Status reached = LogToJournal("skiffd", log);
  if (reached.ok()) return absl::OkStatus();
  return absl::Status(
      reached.code(),
      absl::StrCat("log.format is \"journal\", but systemd's journal is not "
                   "there: ",
                   reached.message(),
                   "; start systemd-journald, or write \"text\" or \"json\""));
}

// Tells whoever has started it.
void SayReady(const Daemon& daemon) {
  std::printf("%s\n", daemon.ReadyLine().c_str());
  if (std::fflush(stdout) == 0) return;
  Log(protocol::LogLevel::kWarning,
      absl::ErrnoToStatus(errno,
                          "cannot write the line to standard output that says "
                          "that it is ready")
          .message());
}

int Main(int argc, char** argv) {
  if (!PrepareProcess()) return kExitFailure;
  // Before there are others that could be taken for them.
  const std::vector<int> kept = ServiceManager::TakeKept();
  Flags flags;
  if (const std::optional<int> code = ParseFlags(argc, argv, &flags)) {
    return *code;
  }
  TraceSwitch trace;  // Outlives all that writes to it.
  if (const absl::Status status = StartTrace(flags, &trace); !status.ok()) {
    return Fail(status.message());
  }
  protocol::LogSink log;  // Once the level is known, and before any thread.
  transport::Registry registry;
  const absl::Status added = AddTransportsAndAuto(
      &registry, [&log](protocol::LogLevel level, absl::string_view message) {
        if (log) log(level, message);
      });
  if (!added.ok()) return Fail(added.ToString());
  std::optional<Configuration> configured = ConfigureFirst(flags, registry);
  if (!configured.has_value()) return kExitUsage;
  DaemonConfig* const config = &configured->checked;
  if (flags.check) {
    std::printf("%s: ok\n", flags.config_file.empty()
                                ? "command line"
                                : flags.config_file.c_str());
    return kExitOk;
  }

  LoadLibraries(*config);
  const absl::StatusOr<ServiceManager> manager =
      ServiceManager::FromEnvironment();
  if (!manager.ok()) return Fail(manager.status().message());
  Events events(manager->watchdog());
  if (!events.ok()) {
    std::perror("skiffd: cannot watch signals");
    return kExitFailure;
  }
  const absl::Status reached = ReachJournal(&config->log);
  if (!reached.ok()) return Fail(reached.message());
  StderrLog stderr_log(config->log);  // Outlives all that logs.
  log = stderr_log.Sink();
  config->server.log = log;
  // Nobody else begins a trace while it runs.
  if (!trace.path().empty() || !config->management.socket.empty()) {
    config->server.capture = trace.Sink();
  }
  // Before anybody logs in, as it may fail. The main loop answers calls.
  auto management = StartManagement(config->management, events, log);
  if (!management.ok()) {
    FlushStderrLog();
    return Fail(management.status().message());
  }
  // Where it fails, the next one finds it all as this one did.
  Inherited inherited(
      kept, [&manager] { return manager->Forget(); }, log);
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(
      *config, registry, [&events] { events.NotifyReactorsTurn(); },
      &inherited);
  if (!daemon.ok()) {
    FlushStderrLog();
    return Fail(daemon.status().message());
  }
  SayReady(**daemon);
  WarnIfFailed(manager->Ready((*daemon)->ReadyLine()));
  Controls controls(daemon->get(), registry, &stderr_log, &trace, flags,
                    *std::move(configured));
  return MainLoop(&events, &controls, management->get(), *manager, flags).Run();
}

}  // namespace
}  // namespace skiff::tools::skiffd

int main(int argc, char** argv) {
  return skiff::tools::skiffd::Main(argc, argv);
}
