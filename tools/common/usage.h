#ifndef SKIFF_TOOLS_COMMON_USAGE_H_
#define SKIFF_TOOLS_COMMON_USAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace CLI {  // NOLINT(readability-identifier-naming): theirs.
class App;
class ParseError;
}  // namespace CLI

namespace skiff::tools {

// Of `known` the word that `word` is most likely meant to be: at most a third
// of its letters are wrong, missing, too many or swapped with their neighbour.
// Empty when there is none.
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known);

// "unknown subcommand 'capcity'; did you mean 'capacity'?"
std::string Unknown(absl::string_view kind, absl::string_view word,
                    const std::vector<std::string>& known);

// Tells the user, on standard error, what is wrong with a command line: each
// argument that `app` and its subcommands do not know, and `error`; on standard
// output what --help and --version ask for. True where it was only that.
bool ReportParseError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_USAGE_H_
