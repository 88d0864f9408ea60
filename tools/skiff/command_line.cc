#include "tools/skiff/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tools/common/spin.h"
#include "tools/common/units.h"
#include "tools/common/usage.h"
#include "tools/common/version.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr char kFooter[] = R"(
A URL names a portal, a target and a logical unit, and how to get there:
  iscsi://host[:port][/target-name[/lun]]    over TCP
  iser://...                                 over RDMA
  auto://...                                 over RDMA if it can be had, or TCP

Exit codes: 0 done, 1 I/O or SCSI error, 2 bad flags, URLs or files,
3 connection or login failed, 4 data were not what they should be, 128+N ended
by signal N.)";

// Helps end with the default, which is what `*out` has before.
std::string WithDefault(absl::string_view help, absl::string_view value) {
  return absl::StrCat(help, " (", value, ")");
}

template <typename T>
CLI::Option* AddValue(CLI::App* app, const char* name, T* out, const char* help,
                      const char* type) {
  return app->add_option(name, *out, WithDefault(help, absl::StrCat(*out)))
      ->type_name(type);
}

template <typename T>
CLI::Option* AddSize(CLI::App* app, const char* name, T* out,
                     const char* help) {
  using Value = std::conditional_t<std::is_integral_v<T>, T, uint64_t>;
  std::string description = help;
  if constexpr (std::is_integral_v<T>) {
    description = WithDefault(help, WriteSize(*out));
  }
  return app
      ->add_option_function<std::string>(
          name,
          [out, name](const std::string& text) {
            const absl::StatusOr<uint64_t> size = ParseSize(text);
            if (!size.ok()) {
              throw CLI::ValidationError(name,
                                         std::string(size.status().message()));
            }
            if (*size > std::numeric_limits<Value>::max()) {
              throw CLI::ValidationError(name,
                                         absl::StrCat(text, " is too large"));
            }
            *out = static_cast<Value>(*size);
          },
          description)
      ->type_name("SIZE");
}

// None at all is no default worth telling.
CLI::Option* AddDuration(CLI::App* app, const char* name, absl::Duration* out,
                         const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [out, name](const std::string& text) {
            const absl::StatusOr<absl::Duration> value = ParseDuration(text);
            if (!value.ok()) {
              throw CLI::ValidationError(name,
                                         std::string(value.status().message()));
            }
            *out = *value;
          },
          *out == absl::ZeroDuration() ? help
                                       : WithDefault(help, WriteDuration(*out)))
      ->type_name("DURATION");
}

void AddUrl(CLI::App* app, std::string* url, const char* shape) {
  app->add_option("url", *url, shape)->required()->type_name("");
}

// Empty: the default.
void AddName(CLI::App* app, std::string* name) {
  app->add_option_function<std::string>(
         "--initiator-name",
         [name](const std::string& text) {
           if (!text.empty()) *name = text;
         },
         WithDefault("The iSCSI name of this initiator", *name))
      ->type_name("NAME");
}

void AddDigests(CLI::App* app, const char* name, std::string* list,
                const char* help) {
  app->add_option(name, *list, help)
      ->check([](const std::string& text) {
        return text.empty() ? std::string(
                                  "it is empty; write none, crc32c, or both in "
                                  "order of preference, such as crc32c,none")
                            : std::string();
      })
      ->type_name("LIST");
}

void AddJson(CLI::App* app, CommonOptions* o) {
  app->add_flag("--json", o->json, "Print one JSON object");
}

// Of all subcommands that have sessions.
void AddCommon(CLI::App* app, CommonOptions* o) {
  AddJson(app, o);
  app->add_flag("-v,--verbose", o->verbose,
                "Tell the events of sessions on standard error");
  protocol::InitiatorOptions* i = &o->initiator;
  AddName(app, &i->initiator_name);
  AddDigests(app, "--header-digest", &o->header_digest,
             "none, crc32c, or both in order of preference");
  AddDigests(app, "--data-digest", &o->data_digest, "As --header-digest");
  AddDuration(app, "--timeout", &i->timeouts.login_timeout,
              "For connecting and logging in");
  AddDuration(app, "--command-timeout", &i->timeouts.command_timeout,
              "For each command, before it is aborted and, where that does no "
              "harm, sent again once; 0: none");
  AddDuration(app, "--reconnect-timeout", &i->reconnect.replacement_timeout,
              "To restore a lost session before commands fail");
  AddDuration(app, "--rdma-retry-interval", &i->rdma_retry_interval,
              "With auto://, how often a session over TCP tries RDMA; 0: "
              "never");
  AddDuration(
      app, "--coalesce", &i->coalesce.max_delay,
      absl::StrCat(
          "How long an answer may wait for others with many commands in "
          "flight, to save wake-ups; 0: not at all; at most ",
          WriteDuration(protocol::CoalesceOptions::kMaxDelay)));
  app->add_flag("--lasting-keys", i->rdma.lasting_keys,
                "Leave the buffers open to an iSER target, where keys that end "
                "with a command cost a registration");
  app->add_flag("--unsolicited-data-out", i->offer.iser.unsolicited_data_out,
                "Offer InitialR2T=No over iSER, too, and send writes up to "
                "FirstBurstLength unasked");
  app->add_option("--password-file", o->password_file,
                  "What the user that a URL names has for CHAP")
      ->type_name("FILE");
  app->add_option("--target-password-file", o->target_password_file,
                  "Have the target authenticate itself, too, by this password")
      ->type_name("FILE");
  app->add_option("--target-user", o->target_user,
                  "The name that the target has to use for that")
      ->type_name("NAME");
  app->add_option("--trace", o->trace_file,
                  "Capture what connections carry, for Wireshark and dump")
      ->type_name("FILE");
  app->add_option_function<std::string>(
         "--spin",
         [o](const std::string& text) {
           const absl::Status status = ParseSpin(text, &o->reactor);
           if (!status.ok()) {
             throw CLI::ValidationError("--spin",
                                        std::string(status.message()));
           }
         },
         "Poll so long before sleeping: auto (default), auto:100us, never, "
         "always, or a duration")
      ->type_name("DURATION");
}

void AddTransfer(CLI::App* app, CopyOptions* o) {
  AddSize(app, "--length", &o->length, "How much (default: all)");
  AddValue(app, "--depth", &o->depth, "Transfers in flight", "N");
  AddSize(app, "--transfer-size", &o->piece_bytes, "Of each command");
  app->add_flag("-q,--quiet", o->quiet, "No progress and no summary");
}

// Builds the subcommands, and remembers which options each fills.
class Builder {
 public:
  Builder(CLI::App* app, CommandLine* line) : app_(app), line_(line) {}

  template <typename Options>
  Options* Add(const char* name, const char* help, CLI::App** subcommand) {
    Options* options = AddBare<Options>(name, help, subcommand);
    AddCommon(*subcommand, &line_->common);
    return options;
  }
  // Without the options that are about sessions.
  template <typename Options>
  Options* AddLocal(const char* name, const char* help, CLI::App** subcommand) {
    Options* options = AddBare<Options>(name, help, subcommand);
    AddJson(*subcommand, &line_->common);
    return options;
  }

  template <typename Options>
  Options* AddBare(const char* name, const char* help, CLI::App** subcommand) {
    auto options = std::make_shared<Options>();
    *subcommand = app_->add_subcommand(name, help);
    CommandLine* line = line_;
    (*subcommand)->callback([options, line] { line->command = *options; });
    kept_.push_back(options);
    return options.get();
  }

 private:
  CLI::App* app_;
  CommandLine* line_;
  std::vector<std::shared_ptr<void>> kept_;
};

void AddQueries(Builder* builder) {
  CLI::App* app = nullptr;
  auto* discover = builder->Add<DiscoverOptions>(
      "discover", "List the targets of a portal", &app);
  AddUrl(app, &discover->url, "iscsi://host[:port]");

  auto* list =
      builder->Add<ListOptions>("ls", "List targets and their LUNs", &app);
  AddUrl(app, &list->url, "iscsi://host[:port][/target]");

  auto* inquiry = builder->Add<InquiryOptions>(
      "inquiry", "Show what a logical unit says of itself", &app);
  AddUrl(app, &inquiry->url, "iscsi://host[:port]/target/lun");
  app->add_option("--vpd", inquiry->pages,
                  "Vital product data: a page code such as 83, or all")
      ->type_name("PAGE")
      ->allow_extra_args(false);

  auto* capacity = builder->Add<CapacityOptions>(
      "capacity", "Show the size of a logical unit", &app);
  AddUrl(app, &capacity->url, "iscsi://host[:port]/target/lun");
}

void AddCopies(Builder* builder) {
  CLI::App* app = nullptr;
  auto* read = builder->Add<CopyOptions>(
      "read", "Read from a logical unit to standard output or a file", &app);
  read->destination = "-";
  AddUrl(app, &read->source, "iscsi://host[:port]/target/lun");
  app->add_option("-o,--output", read->destination, "Write to FILE")
      ->type_name("FILE");
  AddSize(app, "--offset", &read->source_offset, "Where to start");
  AddTransfer(app, read);

  auto* write = builder->Add<CopyOptions>(
      "write", "Write standard input or a file to a logical unit", &app);
  write->source = "-";
  AddUrl(app, &write->destination, "iscsi://host[:port]/target/lun");
  app->add_option("-i,--input", write->source, "Read from FILE")
      ->type_name("FILE");
  AddSize(app, "--offset", &write->destination_offset, "Where to start");
  app->add_flag("--pad", write->pad, "Fill the last block with zeroes");
  app->add_flag("--verify", write->verify, "Read back and compare");
  AddTransfer(app, write);

  auto* copy = builder->Add<CopyOptions>(
      "copy", "Copy between logical units, files, devices and pipes", &app);
  app->add_option("source", copy->source, "A URL, a path, or -")
      ->required()
      ->type_name("");
  app->add_option("destination", copy->destination, "A URL, a path, or -")
      ->required()
      ->type_name("");
  AddSize(app, "--source-offset", &copy->source_offset,
          "Where to start to read");
  AddSize(app, "--destination-offset", &copy->destination_offset,
          "Where to start to write");
  app->add_flag("--pad", copy->pad, "Fill the last block with zeroes");
  app->add_flag("--sparse", copy->sparse,
                "Do not send zeroes: unmap, or leave holes");
  app->add_flag("--verify", copy->verify,
                "Read the destination back and compare");
  AddTransfer(app, copy);
}

void AddPerf(Builder* builder) {
  CLI::App* app = nullptr;
  auto* perf = builder->Add<PerfOptions>(
      "perf", "Measure a logical unit (writing destroys its data)", &app);
  AddUrl(app, &perf->url, "iscsi://host[:port]/target/lun");
  AddValue(app, "--rw", &perf->rw,
           "read, write, rw, randread, randwrite or randrw", "KIND");
  AddValue(app, "--rwmixread", &perf->read_percent,
           "Reads of a mixed workload, in percent", "N");
  AddSize(app, "--bs", &perf->io_bytes, "Of each command");
  AddValue(app, "--iodepth", &perf->depth, "Commands in flight, per job", "N");
  AddValue(app, "--numjobs", &perf->jobs,
           "Threads, each with a session and a part of the range", "N");
  AddSize(app, "--offset", &perf->offset, "Where the range starts");
  AddSize(app, "--size", &perf->size, "Of the range (to the end)");
  AddDuration(app, "--runtime", &perf->runtime,
              "Go on for so long (default: once over the range)");
  AddValue(app, "--seed", &perf->seed, "Of the random order", "N");
  // A flag, so that it does not take the URL for its value.
  app->add_flag("--verify{crc32c}", perf->verify,
                "Write blocks that prove themselves, and check what is read; "
                "--verify=crc32c is the same")
      ->check(CLI::IsMember({"crc32c"}));
}

void AddSession(Builder* builder) {
  CLI::App* app = nullptr;
  auto* ping = builder->Add<PingOptions>(
      "ping", "Measure the round trip of iSCSI NOP-Out", &app);
  AddUrl(app, &ping->url, "iscsi://host[:port]/target");
  AddValue(app, "-c,--count", &ping->count, "How many", "N");
  AddDuration(app, "--interval", &ping->interval, "Between them");

  auto* reset = builder->Add<ResetOptions>(
      "reset", "Reset a logical unit; aborts everybody's commands", &app);
  AddUrl(app, &reset->url, "iscsi://host[:port]/target/lun");
  app->add_flag("--target", reset->target,
                "Reset the whole target; the URL then has no LUN");
}

void AddMachine(Builder* builder) {
  CLI::App* app = nullptr;
  builder->AddLocal<TransportsOptions>(
      "transports", "List the transports and RDMA devices of this machine",
      &app);
  auto* doctor = builder->Add<DoctorOptions>(
      "doctor", "Look for what keeps this machine, or a target, from RDMA",
      &app);
  app->add_option("url", doctor->url,
                  "auto://host[:port][/target]: the way there, too")
      ->type_name("");
  auto* dump = builder->AddBare<DumpOptions>(
      "dump", "Print the PDUs of a capture that --trace made", &app);
  app->add_option("file", dump->file, "The capture")->required()->type_name("");
}

// What a word is that is in the place of a subcommand, and none; empty
// otherwise.
std::string UnknownSubcommand(const CLI::App& app, int argc,
                              const char* const* argv) {
  std::vector<std::string> known;
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    known.push_back(subcommand->get_name());
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    // The program's own flags take no values.
    if (absl::StartsWith(word, "-")) continue;
    if (absl::c_linear_search(known, word)) return "";
    const std::string problem = Unknown("subcommand", word, known);
    return absl::StrCat(problem, absl::EndsWith(problem, "?") ? "" : ".",
                        " There are ", absl::StrJoin(known, ", "));
  }
  return "";
}

}  // namespace

std::optional<int> ParseCommandLine(int argc, const char* const* argv,
                                    CommandLine* command_line) {
  CLI::App app("An iSCSI initiator for the command line.", "skiff");
  app.footer(kFooter);
  app.set_version_flag("--version", absl::StrCat("skiff ", kVersion),
                       "Print the version and end");
  app.require_subcommand(1);
  app.get_formatter()->column_width(30);
  Builder builder(&app, command_line);
  AddQueries(&builder);
  AddCopies(&builder);
  AddPerf(&builder);
  AddSession(&builder);
  AddMachine(&builder);
  const std::string unknown = UnknownSubcommand(app, argc, argv);
  if (!unknown.empty()) {
    std::fprintf(stderr, "skiff: %s\n", unknown.c_str());
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(ReportParseError(app, error) ? ExitCode::kOk
                                                         : ExitCode::kUsage);
  }
  return std::nullopt;
}

}  // namespace skiff::tools
