#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tools/common/process.h"
#include "tools/common/units.h"
#include "tools/common/usage.h"
#include "tools/common/version.h"
#include "tools/management/default_socket.h"
#include "tools/skiffctl/client.h"
#include "tools/skiffctl/commands.h"

namespace skiff::tools::skiffctl {
namespace {

constexpr char kFooter[] = R"(
Exit codes: 0 done, 1 skiffd said no or output is lost, 2 bad command line or
file, 3 no answer in time, 4 sessions use what would go, 5 (of diff) there are
changes.)";

// The option, which reads a duration.
void AddDuration(CLI::App* app, const std::string& name, absl::Duration* out,
                 const std::string& help) {
  app->add_option_function<std::string>(
         name,
         [name, out](const std::string& text) {
           const auto duration = ParseDuration(text);
           if (!duration.ok()) {
             throw CLI::ValidationError(
                 name, std::string(duration.status().message()));
           }
           *out = *duration;
         },
         absl::StrCat(help, " (default ", WriteDuration(*out), ")"))
      ->type_name("DURATION");
}

// The command line.
class CommandLine {
 public:
  CommandLine() : app_("Changes and shows a running skiffd.", "skiffctl") {
    app_.set_version_flag("--version", absl::StrCat("skiffctl ", kVersion),
                          "Print the version and end");
    app_.footer(kFooter);
    app_.fallthrough();
    app_.require_subcommand(1);
    app_.add_option("--socket", socket_,
                    absl::StrCat("Where skiffd is managed (default ",
                                 management::kDefaultSocket, ")"))
        ->type_name("PATH");
    app_.add_flag("--json", common_.json, "Print JSON, for programs");
    AddDuration(&app_, "--timeout", &timeout_, "What each call may take");
    AddConfiguration();
    AddLists();
    AddSessions();
    AddTrace();
  }

  // The exit code.
  int Run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return ReportParseError(app_, error) ? kExitOk : kExitUsage;
    }
    Client client(socket_, timeout_);
    common_.client = &client;
    return command_();
  }

 private:
  CLI::App* Add(const std::string& name, const std::string& help,
                std::function<int()> command, CLI::App* to = nullptr) {
    CLI::App* const app =
        (to == nullptr ? &app_ : to)->add_subcommand(name, help);
    app->callback([this, command = std::move(command)] { command_ = command; });
    return app;
  }

  void AddConfiguration() {
    CLI::App* app =
        Add("apply", "Make what runs what a configuration file says",
            [this] { return Apply(common_, apply_); });
    app->add_option("-f,--file", apply_.file, "The file; -: standard input")
        ->required()
        ->type_name("FILE");
    app->add_flag("--force", apply_.force,
                  "Take LUNs and targets away from sessions that use them");
    AddDuration(app, "--wait", &apply_.wait,
                "Wait for sessions to end that use what would go");
    app = Add("diff", "Show what apply would change, and change nothing",
              [this] { return Diff(common_, diff_); });
    app->add_option("-f,--file", diff_.file, "The file; -: standard input")
        ->required()
        ->type_name("FILE");
    app->add_flag("--force", diff_.force, "Show what apply --force would do");
    Add("get", "Print the configuration that runs",
        [this] { return Get(common_); });
  }

  void AddLists() {
    Add("status", "Show the process and its memory",
        [this] { return Status(common_); });
    CLI::App* const list = app_.add_subcommand("list", "Show what there is");
    list->require_subcommand(1);
    for (const char* what :
         {"sessions", "targets", "luns", "portals", "devices"}) {
      Add(
          what, absl::StrCat("The ", what),
          [this, what] { return List(common_, what); }, list);
    }
    CLI::App* const top = Add("top", "Show what LUNs do, again and again",
                              [this] { return Top(common_, top_); });
    AddDuration(top, "--interval", &top_.interval, "Time between two looks");
    top->add_option("-n,--count", top_.count,
                    "How many times (default: until it is interrupted)")
        ->type_name("N");
    top->add_option("--rows", top_.rows, "LUNs to show (default 20)")
        ->type_name("N");
  }

  void AddSessions() {
    CLI::App* app =
        Add("drop", "End sessions", [this] { return Drop(common_, drop_); });
    app->add_option("id", drop_.ids, "Sessions, as 'list sessions' shows them")
        ->type_name("");
    app->add_option("--initiator", drop_.initiator, "Those of an initiator")
        ->type_name("NAME");
    app->add_option("--target", drop_.target, "Those of a target")
        ->type_name("NAME");
    app->add_flag("--all", drop_.all, "All of them");
    AddDuration(app, "--grace", &drop_.grace,
                "What initiators have to log out by themselves");
    app = Add("drain",
              "Admit nobody to a target, or to all, and ask who is there to "
              "log out",
              [this] { return Drain(common_, drain_); });
    app->add_option("target", drain_.target, "The target (default: all)")
        ->type_name("");
    app->add_flag("--end", drain_.end, "Admit initiators again");
    drain_.grace = absl::Seconds(10);
    AddDuration(app, "--grace", &drain_.grace,
                "What initiators have to log out by themselves");
  }

  void AddTrace() {
    CLI::App* app = Add("log-level", "Change how much is logged",
                        [this] { return SetLogLevel(common_, level_); });
    app->add_option("level", level_, "error, warning, info or debug")
        ->required()
        ->type_name("");
    CLI::App* const trace = app_.add_subcommand(
        "trace", "Capture what connections carry, for Wireshark");
    trace->require_subcommand(1);
    app = Add(
        "start", "Begin a file",
        [this] { return StartTrace(common_, trace_file_); }, trace);
    app->add_option("file", trace_file_,
                    "Its whole path, on the machine of skiffd")
        ->required()
        ->type_name("");
    Add(
        "stop", "End it", [this] { return StopTrace(common_); }, trace);
  }

  CLI::App app_;
  Common common_;
  std::string socket_ = management::kDefaultSocket;
  absl::Duration timeout_ = absl::Seconds(30);
  std::function<int()> command_;
  ApplyOptions apply_;
  ApplyOptions diff_;
  DropOptions drop_;
  DrainOptions drain_;
  TopOptions top_;
  std::string level_;
  std::string trace_file_;
};

// Whether all that was printed has gone where it should.
bool WroteAll() {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return true;
  std::fprintf(stderr, "skiffctl: cannot write to standard output: %s\n",
               flushed ? "some of it is lost" : std::strerror(errno));
  return false;
}

int Main(int argc, char** argv) {
  if (!PrepareProcess()) return kExitFailed;
  const int code = CommandLine().Run(argc, argv);
  return WroteAll() ? code : kExitFailed;
}

}  // namespace
}  // namespace skiff::tools::skiffctl

int main(int argc, char** argv) {
  return skiff::tools::skiffctl::Main(argc, argv);
}
