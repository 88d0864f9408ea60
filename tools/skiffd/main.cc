#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
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
#include "tools/common/process.h"
#include "tools/common/stderr_log.h"
#include "tools/common/trace_file.h"
#include "tools/common/transports.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/daemon.h"
#include "tools/skiffd/flags.h"
#include "transport/registry.h"

namespace skiff::tools::skiffd {
namespace {

void Log(protocol::LogLevel level, absl::string_view message) {
  LogToStderr(level, message);
}

// Takes over the signals that skiffd answers. To be made before any thread, so
// that all threads block them.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGUSR1}) sigaddset(&set, number);
    for (const int number : {SIGINT, SIGHUP}) {
      if (!StartedIgnoring(number)) sigaddset(&set, number);
    }
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
    stopped_fd_ = eventfd(0, EFD_CLOEXEC);
  }

  bool ok() const { return signal_fd_ >= 0 && stopped_fd_ >= 0; }

  // Thread-safe: makes Wait() return nothing, from now on.
  void NotifyStopped() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written =
        write(stopped_fd_, &one, sizeof(one));
  }

  // The next signal, or nothing once NotifyStopped() was called.
  std::optional<int> Wait() const {
    while (true) {
      pollfd fds[] = {{stopped_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) continue;
      if (fds[0].revents != 0) return std::nullopt;
      signalfd_siginfo info;
      if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
        return static_cast<int>(info.ssi_signo);
      }
    }
  }

 private:
  int signal_fd_;
  int stopped_fd_;
};

// Serves until told to end. Returns the exit code.
int Serve(const Signals& signals, Daemon* daemon, const Flags& flags,
          absl::Duration grace) {
  bool stopping = false;
  while (const std::optional<int> number = signals.Wait()) {
    if (*number == SIGUSR1) {
      daemon->PrintSessions();
      continue;
    }
    // A terminal that goes away takes the quick form with it. Whoever tells a
    // daemon to reload its configuration does not mean to end it.
    if (*number == SIGHUP && !flags.config_file.empty()) {
      Log(protocol::LogLevel::kWarning,
          absl::StrCat(strsignal(*number), ": nothing changes; ",
                       flags.config_file,
                       " is read at start only, so restart skiffd to use what "
                       "was changed there"));
      continue;
    }
    if (stopping) {
      Log(protocol::LogLevel::kWarning, "second signal: ending at once");
      FlushStderrLog();
      // Destructors would wait for what is still in flight.
      _exit(kExitImmediate);
    }
    stopping = true;
    Log(protocol::LogLevel::kInfo,
        absl::StrCat(strsignal(*number), ": ending; initiators have ",
                     absl::FormatDuration(grace),
                     " to log out, a second signal ends at once"));
    daemon->Shutdown(grace, [&signals] { signals.NotifyStopped(); });
  }
  Log(protocol::LogLevel::kInfo, "ended");
  return kExitOk;
}

bool Report(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    std::fprintf(stderr, "%s\n", problem.c_str());
  }
  return !problems.empty();
}

int Fail(absl::string_view why) {
  std::fprintf(stderr, "skiffd: %s\n", std::string(why).c_str());
  return kExitFailure;
}

// Null: none is wanted.
absl::StatusOr<std::unique_ptr<TraceFile>> OpenTrace(const Flags& flags) {
  if (flags.trace_file.empty() || flags.check) return nullptr;
  return TraceFile::Create(flags.trace_file, [](absl::string_view warning) {
    Log(protocol::LogLevel::kWarning, warning);
  });
}

// Null: what is wrong was told.
std::optional<DaemonConfig> Configure(const Flags& flags,
                                      const transport::Registry& registry) {
  std::vector<std::string> problems;
  const ParsedConfig parsed = ReadConfig(flags, &problems);
  if (Report(problems)) return std::nullopt;
  DaemonConfig config = CheckConfig(parsed, registry, &problems);
  if (problems.empty()) {
    ClearDataLoss(flags.clear_data_loss, &config, &problems);
  }
  if (Report(problems)) return std::nullopt;
  return config;
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
  Flags flags;
  if (const std::optional<int> code = ParseFlags(argc, argv, &flags)) {
    return *code;
  }
  // Outlives all that writes to it.
  const absl::StatusOr<std::unique_ptr<TraceFile>> trace = OpenTrace(flags);
  if (!trace.ok()) return Fail(trace.status().message());
  protocol::LogSink log;  // Once the level is known, and before any thread.
  transport::Registry registry;
  const absl::Status added = AddTransportsAndAuto(
      &registry, [&log](protocol::LogLevel level, absl::string_view message) {
        if (log) log(level, message);
      });
  if (!added.ok()) return Fail(added.ToString());
  std::optional<DaemonConfig> config = Configure(flags, registry);
  if (!config.has_value()) return kExitUsage;
  if (flags.check) {
    std::printf("%s: ok\n", flags.config_file.empty()
                                ? "command line"
                                : flags.config_file.c_str());
    return kExitOk;
  }

  for (const PortalConfig& portal : config->portals) {
    LoadLibraryOf(portal.address.scheme);
  }
  const Signals signals;
  if (!signals.ok()) {
    std::perror("skiffd: cannot watch signals");
    return kExitFailure;
  }
  const StderrLog stderr_log(config->log);  // Outlives all that logs.
  log = StderrSink(config->log_level);
  config->server.log = log;
  if (*trace != nullptr) config->server.capture = (*trace)->Sink();
  absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      Daemon::Start(*config, registry);
  if (!daemon.ok()) {
    FlushStderrLog();
    return Fail(daemon.status().message());
  }
  SayReady(**daemon);
  return Serve(signals, daemon->get(), flags, config->shutdown_grace);
}

}  // namespace
}  // namespace skiff::tools::skiffd

int main(int argc, char** argv) {
  return skiff::tools::skiffd::Main(argc, argv);
}
