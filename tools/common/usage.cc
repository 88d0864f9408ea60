#include "tools/common/usage.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {
namespace {

// Letters that are wrong, missing, too many, or swapped with their neighbour.
size_t Distance(absl::string_view a, absl::string_view b) {
  // Of the first i letters of `a`, and of i - 1 and i - 2, to all starts of b.
  std::vector<size_t> before;
  std::vector<size_t> last;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(last);
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1,
                         last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// Of a program and of the subcommand that was given: the long flags, without
// their dashes, so that these are no likeness.
std::vector<std::string> Flags(const CLI::App& app) {
  std::vector<std::string> flags;
  const auto add = [&flags](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        flags.push_back(name);
      }
    }
  };
  add(app);
  for (const CLI::App* subcommand : app.get_subcommands()) add(*subcommand);
  return flags;
}

std::string UnknownFlag(absl::string_view word,
                        const std::vector<std::string>& flags) {
  const absl::string_view flag = word.substr(0, word.find('='));
  const std::string nearest = Nearest(
      flag.substr(std::min(flag.size(), flag.find_first_not_of('-'))), flags);
  return absl::StrCat(
      "unknown flag '", flag, "'",
      nearest.empty() ? "" : absl::StrCat("; did you mean '--", nearest, "'?"));
}

}  // namespace

std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known) {
  std::string nearest;
  size_t best = (word.size() + 2) / 3 + 1;
  for (const std::string& candidate : known) {
    const size_t distance = Distance(word, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string Unknown(absl::string_view kind, absl::string_view word,
                    const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return absl::StrCat(
      "unknown ", kind, " '", word, "'",
      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
}

bool ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != 0) {
    const std::vector<std::string> flags = Flags(app);
    for (const std::string& word : app.remaining(/*recurse=*/true)) {
      const bool flag = absl::StartsWith(word, "-");
      const std::string problem =
          flag ? UnknownFlag(word, flags)
               : absl::StrCat("'", word, "' is one argument too many");
      std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), problem.c_str());
    }
    // All of them were named.
    if (error.get_exit_code() ==
        static_cast<int>(CLI::ExitCodes::ExtrasError)) {
      std::fprintf(stderr, "Run with --help for more information.\n");
      return false;
    }
  }
  return app.exit(error) == 0;
}

}  // namespace skiff::tools
