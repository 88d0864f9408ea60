#ifndef SKIFF_TOOLS_METRICS_TARGET_METRICS_H_
#define SKIFF_TOOLS_METRICS_TARGET_METRICS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/target/server_counts.h"
#include "protocol/target/target_server.h"
#include "scsi/target/target.h"
#include "tools/metrics/metric.h"

namespace skiff::tools::metrics {

// The state of a target server at one time.
struct TargetSnapshot {
  struct Target {
    std::string name;
    std::vector<scsi::LogicalUnitStatus> luns;
  };
  struct Reactor {
    absl::Duration idle;  // EpollReactor::idle_time().
    absl::Duration busy;  // The rest of its life. It never becomes less.
  };

  std::vector<Target> targets;
  std::vector<protocol::SessionInfo> sessions;
  protocol::ServerCounts counts;
  protocol::ServerMemory memory;
  std::vector<Reactor> reactors;
  // Whether all of the above is there: a reactor that is blocked tells nothing.
  bool complete = true;
};

// Initiators cause as many series as this, whoever logs in: further ones are
// counted together, as "others".
inline constexpr size_t kMaxInitiators = 1000;

// What docs/metrics.md describes.
std::vector<Family> MetricsOf(const TargetSnapshot& snapshot,
                              size_t max_initiators = kMaxInitiators);

}  // namespace skiff::tools::metrics

#endif  // SKIFF_TOOLS_METRICS_TARGET_METRICS_H_
