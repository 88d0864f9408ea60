#ifndef SKIFF_TOOLS_SKIFFD_PLAN_H_
#define SKIFF_TOOLS_SKIFFD_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/skiffd/config.h"
#include "tools/skiffd/parsed_config.h"
#include "transport/address.h"

namespace skiff::tools::skiffd {

// A LUN by its target's name and its number.
using LunKey = std::pair<std::string, uint64_t>;

// One change of what runs.
struct Change {
  // In the order in which they are made.
  enum class Kind : uint8_t {
    kGrowFile,    // A medium that is served, by whatever LUN it has then.
    kShrinkFile,  // As above.
    kClosePortal,
    kRemoveTarget,
    kRemoveLun,
    kAccess,      // Who may log in, and how: of everything at once.
    kReplaceLun,  // Removed, and added as something else.
    kAlias,
    kAddTarget,
    kAddLun,
    kOpenPortal,
    kMetrics,
    kLogLevel,
    kShutdownGrace,
  };
  Kind kind = Kind::kAccess;
  std::string text;    // What it is, for people.
  std::string where;   // Where it was configured.
  std::string target;  // Whose; empty: nobody's, or discovery's.
  uint64_t lun = 0;
  transport::Address portal;  // As it is configured.
  // The LUN that has the medium already, which is kept open. Not set: the
  // medium is opened.
  std::optional<LunKey> medium_of;
  uint64_t bytes = 0;  // What a file is to be served with.

  // Whether it takes something away from open sessions.
  bool disturbs() const {
    return kind == Kind::kRemoveTarget || kind == Kind::kRemoveLun ||
           kind == Kind::kReplaceLun || kind == Kind::kShrinkFile;
  }
};

// The way from what runs to what is wanted.
struct Plan {
  std::vector<Change> changes;
  // What cannot be changed while it runs, a line each: "WHERE: what; what to
  // do". Nothing may be done if there is one.
  std::vector<std::string> refusals;
  // What is so, and may not be expected: "WHERE: what; what to do".
  std::vector<std::string> notes;
};

// Compares two configurations that were checked. `parsed` is what `wanted` was
// made of, for places. Does nothing, and looks at nothing else.
Plan PlanChanges(const DaemonConfig& running, const DaemonConfig& wanted,
                 const ParsedConfig& parsed);

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_PLAN_H_
