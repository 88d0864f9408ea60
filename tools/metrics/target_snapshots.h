#ifndef SKIFF_TOOLS_METRICS_TARGET_SNAPSHOTS_H_
#define SKIFF_TOOLS_METRICS_TARGET_SNAPSHOTS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "scsi/target/target.h"
#include "tools/metrics/initiator_totals.h"
#include "tools/metrics/target_metrics.h"

namespace skiff::tools::metrics {

// Takes TargetSnapshots of a server, for whoever asks and however often.
// Thread-safe.
class TargetSnapshots {
 public:
  struct Options {
    // Not owned; used until Close().
    protocol::TargetServer* server = nullptr;
    // Called on the thread of Take().
    std::function<std::vector<std::shared_ptr<scsi::Target>>()> targets;
    std::function<std::vector<TargetSnapshot::Reactor>()> reactors;
    // How long reactors may take to answer. Without all answers a snapshot has
    // those that came.
    absl::Duration patience = absl::Seconds(1);
    // Whoever asks sooner gets the last snapshot again, so that nobody who asks
    // without end takes the reactors' time.
    absl::Duration min_interval = absl::Milliseconds(100);
  };
  explicit TargetSnapshots(Options options) : options_(std::move(options)) {}
  TargetSnapshots(const TargetSnapshots&) = delete;
  TargetSnapshots& operator=(const TargetSnapshots&) = delete;

  // Waits for the reactors: not to be called on one.
  TargetSnapshot Take();
  // The server is not asked any more; snapshots are the last one. Does not wait
  // for a Take().
  void Close();

 private:
  void Ask(TargetSnapshot* snapshot);

  const Options options_;
  std::mutex server_mutex_;
  bool closed_ = false;  // Under `server_mutex_`, as calls to the server are.
  std::mutex taking_;    // Around what follows, and all of Take().
  absl::Time taken_ = absl::InfinitePast();
  TargetSnapshot last_;
  InitiatorTotals initiators_;
};

}  // namespace skiff::tools::metrics

#endif  // SKIFF_TOOLS_METRICS_TARGET_SNAPSHOTS_H_
