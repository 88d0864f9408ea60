#include "tools/skiffd/flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/common/usage.h"
#include "tools/common/version.h"
#include "tools/skiffd/settings.h"

namespace skiff::tools::skiffd {
namespace {

constexpr char kFooter[] = R"(
The quick form describes targets by flags. Order counts: each --lun belongs to
the --target before it, and LUNs are numbered from 0.

  skiffd --listen tcp://127.0.0.1:3260 \
    --target iqn.2026-11.com.example:disks --lun ram:1GiB \
    --lun file:/srv/disk.img,size=10GiB,block_size=4096,direct

Signals: SIGTERM and SIGINT end gracefully, a second one at once; so does SIGHUP
in the quick form (unless it is ignored, as with nohup), while with --config it
takes over what was changed in the file. SIGUSR1 prints LUNs, sessions and memory to the log.
Exit codes: 0 ended gracefully, 1 could not start, 2 bad flags or
configuration, 3 a second signal cut the end short, or a disk blocked it.)";

// The flags that describe targets, whose order counts.
class QuickForm {
 public:
  // They exclude `config`.
  QuickForm(CLI::App* app, CLI::Option* config) : app_(app), config_(config) {
    Add("--listen", QuickFlag::Kind::kListen, &listen_, "ADDRESS",
        WithDefault("A portal, such as tcp://[::]:3260; port 0: any free one",
                    "", "portal"));
    Add("--target", QuickFlag::Kind::kTarget, &target_, "NAME",
        "A target, by its iSCSI name");
    Add("--lun", QuickFlag::Kind::kLun, &lun_, "MEDIUM",
        "A LUN of the target before: ram:SIZE or file:PATH, then options "
        ",size=SIZE ,block_size=N ,read_only ,direct ,huge_pages=on|off "
        ",thin=on|off ,lun=N ,serial=TEXT ,vendor=TEXT ,product=TEXT "
        ",revision=TEXT");
    app->add_flag("--open", open_,
                  "Everybody who reaches a portal may use the targets; without "
                  "it, portals have to be on the loopback interface")
        ->excludes(config_);
  }
  QuickForm(const QuickForm&) = delete;
  QuickForm& operator=(const QuickForm&) = delete;

  // After parsing. What CLI11 keeps for each option by itself is put back in
  // order.
  std::vector<QuickFlag> InOrder() const {
    std::vector<QuickFlag> flags;
    std::map<const CLI::Option*, size_t> taken;
    for (const CLI::Option* option : app_->parse_order()) {
      const auto it = kinds_.find(option);
      if (it == kinds_.end()) continue;
      const auto& [kind, values] = it->second;
      flags.push_back({kind, values->at(taken[option]++)});
    }
    if (open_) flags.push_back({QuickFlag::Kind::kOpen, ""});
    return flags;
  }

 private:
  void Add(const char* name, QuickFlag::Kind kind,
           std::vector<std::string>* values, const char* type,
           const std::string& help) {
    CLI::Option* option = app_->add_option(name, *values, help);
    option->type_name(type)->excludes(config_)->allow_extra_args(false);
    kinds_[option] = {kind, values};
  }

  CLI::App* const app_;
  CLI::Option* const config_;
  std::vector<std::string> listen_;
  std::vector<std::string> target_;
  std::vector<std::string> lun_;
  bool open_ = false;
  std::map<const CLI::Option*,
           std::pair<QuickFlag::Kind, const std::vector<std::string>*>>
      kinds_;
};

// Those that go with either form.
void AddOthers(CLI::App* app, Flags* flags) {
  app->add_flag("--check", flags->check,
                "Check the configuration and end, without listening");
  app->add_option("--reactors", flags->reactors,
                  WithDefault("Threads that serve", "reactors", "count"))
      ->type_name("N");
  app->add_option(
         "--spin", flags->spin,
         WithDefault("How long a reactor polls before it sleeps: auto, "
                     "auto:100us, never, always, or a duration such as 50us",
                     "reactors", "spin"))
      ->type_name("DURATION");
  app->add_option("--queue-depth", flags->queue_depth,
                  WithDefault("Commands per session", "limits", "queue_depth"))
      ->type_name("N");
  app->add_option("--log-level", flags->log_level,
                  WithDefault("error, warning, info or debug", "", "log_level"))
      ->type_name("LEVEL");

  app->add_option("--clear-data-loss", flags->clear_data_loss,
                  "Serve a LUN again, although a flush of it failed and data "
                  "that were acknowledged may be lost")
      ->type_name("TARGET/LUN")
      ->allow_extra_args(false);
  app->add_option(
         "--trace", flags->trace_file,
         "Capture what connections carry, for Wireshark and skiff dump")
      ->type_name("FILE");
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, Flags* flags) {
  CLI::App app("Serves disks over iSCSI and iSER.", "skiffd");
  app.footer(kFooter);
  app.set_version_flag("--version", absl::StrCat("skiffd ", kVersion),
                       "Print the version and end");
  app.get_formatter()->column_width(28);

  CLI::Option* config = app.add_option("--config", flags->config_file,
                                       "Read the configuration from FILE")
                            ->type_name("FILE");
  const QuickForm quick(&app, config);
  AddOthers(&app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error) ? kExitOk : kExitUsage;
  }
  flags->quick = quick.InOrder();
  return std::nullopt;
}

}  // namespace skiff::tools::skiffd
