#ifndef SKIFF_TOOLS_SKIFFD_CONTROLS_H_
#define SKIFF_TOOLS_SKIFFD_CONTROLS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "tools/common/stderr_log.h"
#include "tools/common/trace_switch.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/daemon.h"
#include "tools/skiffd/flags.h"
#include "tools/skiffd/parsed_config.h"
#include "transport/registry.h"

namespace skiff::tools::skiffd {

// What a command line and its file say.
struct Configuration {
  ParsedConfig parsed;
  DaemonConfig checked;
};

// Usable if there are no problems.
Configuration ReadConfiguration(const Flags& flags,
                                const transport::Registry& registry,
                                std::vector<std::string>* problems);

// Loads what the portals need, which takes time.
void LoadLibraries(const DaemonConfig& config);

// What an operator changes of the whole process while it runs, by signals and
// by calls. Used by the daemon's own thread.
class Controls {
 public:
  // All are used for as long as this is there. `running` is what the daemon was
  // started with.
  Controls(Daemon* daemon, const transport::Registry& registry, StderrLog* log,
           TraceSwitch* trace, const Flags& flags, Configuration running);
  Controls(const Controls&) = delete;
  Controls& operator=(const Controls&) = delete;

  // Daemon::Apply() of the configuration file, and of all that is not the
  // daemon's. The log says what was changed, or why nothing was.
  Daemon::Applied ApplyFile();
  // The same with a text, which messages call `name`.
  Daemon::Applied ApplyText(const std::string& text, const std::string& name,
                            const Daemon::ApplyOptions& options);
  // What runs, as a configuration file. What was written in the command line is
  // in it, too.
  std::string ConfigText() const;

  Daemon* daemon() const { return daemon_; }
  const transport::Registry& registry() const { return registry_; }
  TraceSwitch* trace() const { return trace_; }
  absl::Duration grace() const { return grace_; }
  protocol::LogLevel log_level() const { return log_level_; }
  // Until a configuration that says another is applied.
  void SetLogLevel(protocol::LogLevel level);
  // Into a file that is not there yet.
  absl::Status StartTrace(const std::string& path);
  // No changes any more: the daemon ends.
  void SetEnding() { ending_ = true; }
  bool ending() const { return ending_; }

 private:
  // The text, and the flags that win over it.
  Configuration ReadText(const std::string& text, const std::string& name,
                         std::vector<std::string>* problems) const;
  // `may_ask_again`: that sessions are in the way is for the caller alone, who
  // may wait for them and ask every moment.
  Daemon::Applied Apply(Configuration wanted, std::vector<std::string> problems,
                        const std::string& name,
                        const Daemon::ApplyOptions& options,
                        bool may_ask_again);

  Daemon* const daemon_;
  const transport::Registry& registry_;
  StderrLog* const log_;
  TraceSwitch* const trace_;
  const Flags& flags_;
  ParsedConfig running_;
  absl::Duration grace_;
  protocol::LogLevel log_level_;
  bool ending_ = false;
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_CONTROLS_H_
