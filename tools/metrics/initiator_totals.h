#ifndef SKIFF_TOOLS_METRICS_INITIATOR_TOTALS_H_
#define SKIFF_TOOLS_METRICS_INITIATOR_TOTALS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "protocol/target/target_server.h"
#include "scsi/target/command_counts.h"

namespace skiff::tools::metrics {

// What sessions of one initiator with one target do, and did, together.
struct InitiatorTotal {
  std::string target;     // Empty: of discovery.
  std::string initiator;  // Or "others", which is no iSCSI name.
  std::string data_model;
  std::string transport;
  uint64_t sessions = 0;  // Now.
  // Never less than before, but for `in_flight`. Without latencies.
  scsi::CommandCounts counts;
};

// Adds up sessions that come and go, so that what an initiator did stays when
// one of its sessions ends: to Prometheus, a sum that becomes less is one that
// began anew. Whoever logs in makes few series, also by ever other names. Not
// thread-safe.
class InitiatorTotals {
 public:
  struct Options {
    // Further ones are counted together, as "others".
    size_t max_initiators = 1000;
    // An initiator without a session makes room for others after so long.
    absl::Duration keep = absl::Hours(1);
  };
  InitiatorTotals() : InitiatorTotals(Options()) {}
  explicit InitiatorTotals(Options options) : options_(options) {}

  // All sessions that there are, and the time.
  void Update(const std::vector<protocol::SessionInfo>& sessions,
              absl::Time now);
  // By target, then initiator.
  std::vector<InitiatorTotal> Get() const;

 private:
  // Target, initiator, data model, transport.
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  struct Entry {
    uint64_t sessions = 0;
    scsi::CommandCounts counts;
    absl::Time seen;
  };
  struct Seen {
    Key key;  // As long as it lasts, also when there is room meanwhile.
    scsi::CommandCounts counts;
  };

  void Expire(absl::Time now);
  Key KeyOf(const protocol::SessionInfo& session, absl::Time now);

  const Options options_;
  std::map<std::string, absl::Time> initiators_;  // And when seen last.
  std::map<Key, Entry> entries_;
  std::map<uint64_t, Seen> sessions_;  // By SessionInfo::id.
};

}  // namespace skiff::tools::metrics

#endif  // SKIFF_TOOLS_METRICS_INITIATOR_TOTALS_H_
