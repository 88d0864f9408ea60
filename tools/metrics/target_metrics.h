#ifndef SKIFF_TOOLS_METRICS_TARGET_METRICS_H_
#define SKIFF_TOOLS_METRICS_TARGET_METRICS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/target/server_counts.h"
#include "protocol/target/target_server.h"
#include "scsi/target/target.h"
#include "tools/metrics/initiator_totals.h"
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
  std::vector<InitiatorTotal> initiators;
  protocol::ServerCounts counts;
  protocol::ServerMemory memory;
  std::vector<Reactor> reactors;
  // Whether all of the above is there: a reactor that is blocked tells nothing.
  bool complete = true;
};

// What docs/metrics.md describes.
std::vector<Family> MetricsOf(const TargetSnapshot& snapshot);

}  // namespace skiff::tools::metrics

#endif  // SKIFF_TOOLS_METRICS_TARGET_METRICS_H_
