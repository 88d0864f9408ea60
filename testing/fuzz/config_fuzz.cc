#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "testing/fuzz/check.h"
#include "tools/skiffd/config.h"
#include "tools/skiffd/parsed_config.h"
#include "transport/log/printable.h"
#include "transport/registry.h"
#include "transport/tcp/tcp_transport.h"

// Any text as skiffd's configuration, as far as `skiffd --check` goes: each
// mistake is one line that says where it is and what, and harms no terminal.

namespace skiff::tools::skiffd {
namespace {

constexpr char kName[] = "f";

const transport::Registry& Transports() {
  static const transport::Registry* const kRegistry = [] {
    auto* registry = new transport::Registry;
    SKIFF_FUZZ_CHECK(registry->Add(transport::MakeTcpTransport()).ok());
    return registry;
  }();
  return *kRegistry;
}

// "f: text", "f:12: text", "f:12:7: text".
bool SaysWhereAndWhat(absl::string_view problem) {
  if (!absl::ConsumePrefix(&problem, kName)) return false;
  while (problem.size() > 1 && problem[0] == ':' &&
         absl::ascii_isdigit(static_cast<unsigned char>(problem[1]))) {
    problem.remove_prefix(1);
    problem.remove_prefix(
        std::min(problem.find_first_not_of("0123456789"), problem.size()));
  }
  return absl::ConsumePrefix(&problem, ": ") && !problem.empty();
}

void CheckProblems(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    const bool good =
        SaysWhereAndWhat(problem) && transport::Printable(problem) == problem;
    if (!good) std::fprintf(stderr, "problem: %s\n", problem.c_str());
    SKIFF_FUZZ_CHECK(good);
  }
}

void TryText(const std::string& text) {
  std::vector<std::string> problems;
  const ParsedConfig parsed = ParseConfigText(text, kName, &problems);
  CheckProblems(problems);
  if (!problems.empty()) return;
  const DaemonConfig config = CheckConfig(parsed, Transports(), &problems);
  CheckProblems(problems);
  // What holds can be served.
  if (problems.empty()) SKIFF_FUZZ_CHECK(!config.targets.empty());
}

}  // namespace
}  // namespace skiff::tools::skiffd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skiff::tools::skiffd::TryText({reinterpret_cast<const char*>(data), size});
  return 0;
}
