#include "testing/transport_conformance/conformance_main.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/transport_conformance/child_process.h"
#include "testing/transport_conformance/conformance_pair.h"
#include "testing/transport_conformance/control_link.h"
#include "testing/transport_conformance/remote_host.h"
#include "testing/transport_conformance/report.h"

namespace skiff::testing {
namespace {

struct Options {
  std::string transport;
  std::string listen;   // A URL: this process is the listening side.
  std::string connect;  // A URL: the listening side is there.
  ScaleOverride scale;
  std::string junit;
  std::string json;
};

constexpr int kUsageError = 2;

// Whether `host` means an address of its own, which a peer could connect to.
bool IsWildcard(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

// Adds the factories of one choice, by its name or by a URL of its scheme.
absl::Status Choose(const std::vector<TransportChoice>& choices,
                    const std::string& wanted) {
  absl::StatusOr<transport::Address> url = absl::InvalidArgumentError("no URL");
  std::string name = wanted;
  if (absl::StrContains(wanted, "://")) {
    url = transport::Address::Parse(wanted, 0);
    if (!url.ok()) return url.status();
    name = url->scheme;
    url->port =
        0;  // A listening side's port is that of the control connection.
  }
  std::string known;
  for (const TransportChoice& choice : choices) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", choice.name);
    if (choice.name != name) continue;
    auto made = choice.make(url.ok() ? &*url : nullptr);
    if (!made.ok()) return made.status();
    for (auto& factory : *made) AddTransportFactory(std::move(factory));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no transport \"", name, "\"; this program has ", known));
}

template <typename Writer>
bool WriteFile(const std::string& path, Writer writer) {
  if (path.empty()) return true;
  std::ofstream file(path);
  writer(file);
  file.flush();
  if (file.good()) return true;
  std::cerr << "cannot write the report to " << path << "\n";
  return false;
}

void AddOptions(const std::vector<TransportChoice>& choices, CLI::App* app,
                Options* options) {
  app->allow_extras();  // GoogleTest's.
  app->add_option("--junit", options->junit, "Write the report as JUnit XML")
      ->type_name("FILE");
  const auto add_number = [app](const char* name, int* number,
                                const char* text) {
    app->add_option(name, *number, text)
        ->type_name("N")
        ->check(CLI::Range(1, 1'000'000'000));
  };
  add_number("--connections", &options->scale.connections,
             "Connections in a row, and at once, instead of the transport's");
  add_number("--messages", &options->scale.messages,
             "Messages of the long run of flow control");
  add_number("--operations", &options->scale.operations,
             "Operations of the other loops");
  app->add_option("--json", options->json, "Write the report as JSON")
      ->type_name("FILE");
  std::string footer =
      "GoogleTest's options work, too: --gtest_filter=..., "
      "--gtest_list_tests, ...\n";
  if (choices.empty()) {
    absl::StrAppend(&footer, "\nTransports:\n");
    for (const TransportFactory* factory : AllFactories()) {
      absl::StrAppend(&footer, "  ", factory->name(), "\n");
    }
  } else {
    app->add_option("--transport", options->transport,
                    "What to test: a name from the list below, or a URL of it")
        ->type_name("NAME|URL");
    app->add_option("--listen", options->listen,
                    "Be the listening side of a pair of hosts: listen on this "
                    "host and port, and serve --connect until interrupted")
        ->type_name("URL");
    app->add_option("--connect", options->connect,
                    "Be the connecting side, and report: the URL that the "
                    "other host listens on")
        ->type_name("URL");
    absl::StrAppend(&footer, "\nTransports:\n");
    for (const TransportChoice& choice : choices) {
      absl::StrAppend(
          &footer, "  ", choice.name,
          std::string(16 - std::min<size_t>(15, choice.name.size()), ' '),
          choice.summary, "\n");
    }
  }
  app->footer(footer);
}

// Who reads the totals has to know what they are not about.
void WriteLeftOut(std::ostream& out) {
  const auto& tests = *::testing::UnitTest::GetInstance();
  const int filtered = tests.total_test_count() - tests.test_to_run_count();
  if (filtered > 0) out << "left out: " << filtered << " tests by a filter\n";
  const auto without = [&out](const char* kind) {
    out << "left out: the tests of " << kind
        << ", which no transport here has\n";
  };
  if (RdmaFactories().empty()) without("RDMA endpoints");
  if (StreamFactories().empty()) without("byte streams");
}

// Serves one connecting side after another.
int Listen(const std::string& url) {
  const auto address = transport::Address::Parse(url, 0);
  if (!address.ok() || IsWildcard(address->host)) {
    std::cerr << "--listen needs the URL of an address of this host, for "
                 "example tcp://192.0.2.1:7470\n";
    return kUsageError;
  }
  auto listener = ControlListener::Listen(address->host, address->port);
  if (!listener.ok()) {
    std::cerr << listener.status().message() << "\n";
    return 1;
  }
  transport::Address shown = *address;
  shown.port = (*listener)->port();
  std::cout << "listening for --connect " << shown.ToString() << std::endl;
  while (true) {
    auto link = (*listener)->Accept();
    absl::Status status = link.status();
    if (status.ok()) status = ServeHost(link->get(), AllFactories());
    if (!status.ok()) std::cerr << status.message() << std::endl;
  }
}

// Runs the tests with what is left of the command line.
int Run(const std::string& program, std::vector<std::string> rest,
        const Options& options) {
  rest.insert(rest.begin(), program);
  std::vector<char*> arguments;
  for (std::string& argument : rest) arguments.push_back(argument.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  ::testing::InitGoogleTest(&count, arguments.data());
  if (count > 1) {
    std::cerr << "unknown option " << arguments[1] << "; --help lists them\n";
    return kUsageError;
  }
  auto* report = new ConformanceReport;  // GoogleTest owns listeners.
  ::testing::UnitTest::GetInstance()->listeners().Append(report);
  int status = RUN_ALL_TESTS();
  if (::testing::GTEST_FLAG(list_tests)) return status;
  report->WriteText(std::cout);
  WriteLeftOut(std::cout);
  if (report->results().empty()) {
    std::cerr << "no test ran\n";
    status = 1;
  }
  const bool written =
      WriteFile(options.junit,
                [&](std::ostream& out) { report->WriteJunit(out); }) &&
      WriteFile(options.json,
                [&](std::ostream& out) { report->WriteJson(out); });
  return written ? status : 1;
}

}  // namespace

int ConformanceMain(int argc, char** argv,
                    const std::vector<TransportChoice>& choices) {
  RememberCommandLine(argc, argv);
  CLI::App app("Tests whether a transport keeps the contract of transport/*.h");
  Options options;
  AddOptions(choices, &app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  OverrideScale(options.scale);
  if (!choices.empty()) {
    std::string wanted = options.transport;
    for (const std::string* url : {&options.listen, &options.connect}) {
      if (wanted.empty()) wanted = *url;
    }
    if (wanted.empty()) {
      std::cerr << "say what to test: --transport, --listen or --connect; "
                   "--help lists the transports\n";
      return kUsageError;
    }
    const absl::Status status = Choose(choices, wanted);
    if (!status.ok()) {
      std::cerr << status.message() << "\n";
      return kUsageError;
    }
  }
  if (AllFactories().empty()) {
    std::cerr << "no transport is linked into this program: see "
                 "docs/transport-author-guide.md\n";
    return kUsageError;
  }
  if (const auto link = LinkOfPeerProcess()) {
    return ServeHost(link.get(), AllFactories()).ok() ? 0 : 1;
  }
  if (!options.listen.empty()) return Listen(options.listen);
  std::unique_ptr<ControlLink> peer;
  if (!options.connect.empty()) {
    const auto url = transport::Address::Parse(options.connect, 0);
    auto link =
        url.ok() ? ControlLink::Connect(url->host, url->port) : url.status();
    if (!link.ok()) {
      std::cerr << link.status().message() << "\n";
      return kUsageError;
    }
    peer = *std::move(link);
    SetPeer(peer.get());
  }
  return Run(argv[0], app.remaining(), options);
}

}  // namespace skiff::testing
