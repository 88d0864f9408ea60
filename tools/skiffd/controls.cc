#include "tools/skiffd/controls.h"

#include <google/protobuf/text_format.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/common/read_file.h"
#include "tools/common/transports.h"
#include "tools/skiffd/config.pb.h"

namespace skiff::tools::skiffd {

Configuration ReadConfiguration(const Flags& flags,
                                const transport::Registry& registry,
                                std::vector<std::string>* problems) {
  Configuration out;
  out.parsed = ReadConfig(flags, problems);
  if (problems->empty()) {
    out.checked = CheckConfig(out.parsed, registry, problems);
  }
  return out;
}

void LoadLibraries(const DaemonConfig& config) {
  for (const PortalConfig& portal : config.portals) {
    LoadLibraryOf(portal.address.scheme);
  }
}

Controls::Controls(Daemon* daemon, const transport::Registry& registry,
                   StderrLog* log, TraceSwitch* trace, const Flags& flags,
                   Configuration running)
    : daemon_(daemon),
      registry_(registry),
      log_(log),
      trace_(trace),
      flags_(flags),
      running_(std::move(running.parsed)),
      grace_(running.checked.shutdown_grace),
      log_level_(running.checked.log_level) {}

Daemon::Applied Controls::ApplyFile() {
  std::vector<std::string> problems;
  Configuration wanted;
  const std::string& file = flags_.config_file;
  // This thread has signals and calls to answer.
  const absl::StatusOr<std::string> text = ReadRegularFile(file);
  if (text.ok()) {
    wanted = ReadText(*text, file, &problems);
  } else {
    problems.push_back(absl::StrCat("cannot read the configuration: ",
                                    text.status().message()));
  }
  return Apply(std::move(wanted), std::move(problems), file, {},
               /*may_ask_again=*/false);
}

Configuration Controls::ReadText(const std::string& text,
                                 const std::string& name,
                                 std::vector<std::string>* problems) const {
  Configuration out;
  out.parsed = ParseConfigText(text, name, problems);
  if (!problems->empty()) return out;
  ApplyFlags(flags_, &out.parsed);
  out.checked = CheckConfig(out.parsed, registry_, problems);
  return out;
}

Daemon::Applied Controls::ApplyText(const std::string& text,
                                    const std::string& name,
                                    const Daemon::ApplyOptions& options) {
  std::vector<std::string> problems;
  Configuration wanted = ReadText(text, name, &problems);
  return Apply(std::move(wanted), std::move(problems), name, options,
               /*may_ask_again=*/true);
}

Daemon::Applied Controls::Apply(Configuration wanted,
                                std::vector<std::string> problems,
                                const std::string& name,
                                const Daemon::ApplyOptions& options,
                                bool may_ask_again) {
  Daemon::Applied applied;
  const absl::Duration grace = wanted.checked.shutdown_grace;
  const protocol::LogLevel level = wanted.checked.log_level;
  if (problems.empty()) {
    LoadLibraries(wanted.checked);
    applied = daemon_->Apply(std::move(wanted.checked), wanted.parsed, options);
  } else {
    applied.problems = std::move(problems);
    applied.bad_config = true;
  }
  if (options.dry_run || (may_ask_again && applied.in_use)) return applied;
  for (const std::string& note : applied.notes) {
    LogToStderr(protocol::LogLevel::kWarning, note);
  }
  for (const std::string& change : applied.changes) {
    LogToStderr(protocol::LogLevel::kInfo, absl::StrCat("changed: ", change));
  }
  for (const std::string& problem : applied.problems) {
    LogToStderr(protocol::LogLevel::kError, problem);
  }
  if (!applied.problems.empty()) {
    LogToStderr(protocol::LogLevel::kError,
                absl::StrCat(name, " does not hold, and nothing was changed"));
    return applied;
  }
  running_ = std::move(wanted.parsed);
  grace_ = grace;
  SetLogLevel(level);
  LogToStderr(
      protocol::LogLevel::kInfo,
      absl::StrCat(name, " holds: ", applied.changes.size(), " changes"));
  return applied;
}

std::string Controls::ConfigText() const {
  std::string text;
  google::protobuf::TextFormat::PrintToString(*running_.config, &text);
  return text;
}

void Controls::SetLogLevel(protocol::LogLevel level) {
  log_level_ = level;
  log_->set_level(level);
}

absl::Status Controls::StartTrace(const std::string& path) {
  return trace_->Start(path, TraceFile::Mode::kNew,
                       [](absl::string_view warning) {
                         LogToStderr(protocol::LogLevel::kWarning, warning);
                       });
}

}  // namespace skiff::tools::skiffd
