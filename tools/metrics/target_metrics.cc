#include "tools/metrics/target_metrics.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scsi/target/command_counts.h"

namespace skiff::tools::metrics {
namespace {

constexpr const char* kSizeNames[scsi::kSizeClasses] = {"4KiB", "64KiB",
                                                        "larger"};
// Every other bucket of what is counted: 24 series for each histogram would
// be many.
constexpr size_t kStep = 2;
constexpr double kNanos = 1e-9;

// Families by their first use, each once.
class Families {
 public:
  Family& Get(const char* name, Family::Type type, const char* help) {
    const auto [found, added] = index_.emplace(name, all_.size());
    if (added) {
      all_.emplace_back();
      all_.back().name = name;
      all_.back().help = help;
      all_.back().type = type;
    }
    return all_[found->second];
  }
  void Counter(const char* name, const char* help, Labels labels,
               uint64_t value) {
    Add(Get(name, Family::Type::kCounter, help), std::move(labels),
        static_cast<double>(value));
  }
  void Seconds(const char* name, const char* help, Labels labels,
               absl::Duration value) {
    Add(Get(name, Family::Type::kCounter, help), std::move(labels),
        absl::ToDoubleSeconds(value));
  }
  void Gauge(const char* name, const char* help, Labels labels,
             uint64_t value) {
    Add(Get(name, Family::Type::kGauge, help), std::move(labels),
        static_cast<double>(value));
  }
  std::vector<Family> Take() { return std::move(all_); }

 private:
  static void Add(Family& family, Labels labels, double value) {
    family.samples.emplace_back();
    family.samples.back().labels = std::move(labels);
    family.samples.back().value = value;
  }

  std::vector<Family> all_;
  std::map<std::string, size_t> index_;
};

Labels With(Labels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

// LatencyCounts' buckets are below 1024 ns << i, the last without a bound.
Histogram Seconds(const scsi::LatencyCounts& latency) {
  constexpr size_t kLast = scsi::LatencyCounts::kBuckets - 1;
  Histogram histogram;
  histogram.sum = static_cast<double>(latency.sum_ns) * kNanos;
  uint64_t count = 0;
  for (size_t i = 0; i < kLast; ++i) {
    count += latency.buckets[i];
    if ((i + 1) % kStep != 0) continue;
    histogram.bounds.push_back(static_cast<double>(uint64_t{1024} << i) *
                               kNanos);
    histogram.counts.push_back(std::exchange(count, 0));
  }
  histogram.counts.push_back(count + latency.buckets[kLast]);
  return histogram;
}

bool Empty(const scsi::LatencyCounts& latency) {
  for (const uint64_t count : latency.buckets) {
    if (count > 0) return false;
  }
  return true;
}

void AddLatencies(const Labels& lun, const char* operation,
                  const scsi::LatencyBySize& latencies, Families* families) {
  for (size_t size = 0; size < scsi::kSizeClasses; ++size) {
    // What a LUN has never seen is no series: most see few of them.
    if (Empty(latencies[size])) continue;
    Sample sample;
    sample.labels =
        With(With(lun, "operation", operation), "size", kSizeNames[size]);
    sample.histogram = Seconds(latencies[size]);
    families
        ->Get("skiff_lun_command_duration_seconds", Family::Type::kHistogram,
              "Time from a command's arrival to its answer, by operation and "
              "size of its data")
        .samples.push_back(std::move(sample));
  }
}

// Both of logical units and of initiators.
void AddCommands(const char* prefix, const Labels& labels,
                 const scsi::CommandCounts& counts, Families* families) {
  const std::string commands = absl::StrCat(prefix, "_commands_total");
  const std::string bytes = absl::StrCat(prefix, "_bytes_total");
  const std::string errors = absl::StrCat(prefix, "_command_errors_total");
  const std::string depth = absl::StrCat(prefix, "_queue_depth");
  const std::array<std::pair<const char*, uint64_t>, 3> by_operation = {
      {{"read", counts.reads},
       {"write", counts.writes},
       {"other", counts.others}}};
  for (const auto& [operation, count] : by_operation) {
    families->Counter(commands.c_str(), "Commands that were answered",
                      With(labels, "operation", operation), count);
  }
  families->Counter(bytes.c_str(), "Data of commands that succeeded",
                    With(labels, "operation", "read"), counts.read_bytes);
  families->Counter(bytes.c_str(), "Data of commands that succeeded",
                    With(labels, "operation", "write"), counts.written_bytes);
  const std::array<std::pair<const char*, uint64_t>, 3> by_kind = {
      {{"check_condition", counts.check_conditions},
       {"busy", counts.busy},
       {"aborted", counts.aborted}}};
  for (const auto& [kind, count] : by_kind) {
    families->Counter(errors.c_str(),
                      "Commands that ended in CHECK CONDITION, in BUSY or "
                      "TASK SET FULL, or were aborted",
                      With(labels, "kind", kind), count);
  }
  families->Gauge(depth.c_str(), "Commands in flight", labels,
                  counts.in_flight);
}

void AddLun(const std::string& target, const scsi::LogicalUnitStatus& lun,
            Families* families) {
  const Labels labels = {{"target", target}, {"lun", absl::StrCat(lun.lun)}};
  AddCommands("skiff_lun", labels, lun.commands, families);
  AddLatencies(labels, "read", lun.commands.read_latencies, families);
  AddLatencies(labels, "write", lun.commands.write_latencies, families);
  const scsi::IoFailures& failures = lun.failures;
  const std::array<std::pair<const char*, uint64_t>, 6> by_operation = {
      {{"read", failures.reads},
       {"write", failures.writes},
       {"flush", failures.flushes},
       {"unmap", failures.unmaps},
       {"write_zeroes", failures.write_zeroes},
       {"compare_and_write", failures.compare_and_writes}}};
  for (const auto& [operation, count] : by_operation) {
    families->Counter("skiff_lun_medium_failures_total",
                      "Operations of the medium that failed",
                      With(labels, "operation", operation), count);
  }
  families->Gauge("skiff_lun_size_bytes", "What the medium holds", labels,
                  lun.size_bytes);
  families->Gauge("skiff_lun_data_loss",
                  "1: reads and writes fail, as data may have been lost",
                  labels, lun.data_loss.empty() ? 0 : 1);
}

void AddInitiator(const InitiatorTotal& initiator, Families* families) {
  const Labels labels = {{"target", initiator.target},
                         {"initiator", initiator.initiator},
                         {"data_model", initiator.data_model},
                         {"transport", initiator.transport}};
  families->Gauge("skiff_initiator_sessions",
                  "Sessions that are there; of discovery, with no target",
                  labels, initiator.sessions);
  if (!initiator.target.empty()) {
    AddCommands("skiff_initiator", labels, initiator.counts, families);
  }
}

void AddPortal(const protocol::PortalCounts& portal, Families* families) {
  const Labels labels = {{"portal", portal.portal},
                         {"data_model", portal.data_model},
                         {"transport", portal.transport}};
  const protocol::ConnectionCounters& c = portal.counters;
  families->Counter("skiff_portal_connections_total",
                    "Connections that were accepted", labels,
                    portal.connections);
  families->Gauge("skiff_portal_connections", "Connections that are there",
                  labels, portal.open);
  const auto both = [&](const char* name, const char* help, uint64_t in,
                        uint64_t out) {
    families->Counter(name, help, With(labels, "direction", "in"), in);
    families->Counter(name, help, With(labels, "direction", "out"), out);
  };
  both("skiff_portal_pdus_total", "PDUs; over RDMA, messages", c.pdus_in,
       c.pdus_out);
  both("skiff_portal_bytes_total", "Bytes, also those that RDMA moved",
       c.bytes_in, c.bytes_out);
  families->Counter("skiff_portal_digest_errors_total",
                    "PDUs with a wrong digest", With(labels, "part", "header"),
                    c.header_digest_errors);
  families->Counter("skiff_portal_digest_errors_total",
                    "PDUs with a wrong digest", With(labels, "part", "data"),
                    c.data_digest_errors);
  if (portal.data_model != "iSER") return;
  families->Counter("skiff_portal_rdma_errors_total",
                    "Operations of RDMA that failed, and ended a connection",
                    labels, c.rdma_errors);
  const auto by_operation = [&](const char* name, const char* help,
                                uint64_t read, uint64_t write) {
    families->Counter(name, help, With(labels, "operation", "read"), read);
    families->Counter(name, help, With(labels, "operation", "write"), write);
  };
  by_operation("skiff_portal_rdma_operations_total",
               "RDMA Reads (data of writes) and RDMA Writes (data of reads)",
               c.rdma_reads, c.rdma_writes);
  by_operation("skiff_portal_rdma_bytes_total", "What these moved",
               c.rdma_read_bytes, c.rdma_write_bytes);
}

void AddLogins(const protocol::ServerCounts& counts, Families* families) {
  const char* const kLogins = "Logins that succeeded";
  families->Counter("skiff_logins_total", kLogins, {{"type", "normal"}},
                    counts.logins);
  families->Counter("skiff_logins_total", kLogins, {{"type", "discovery"}},
                    counts.discovery_logins);
  const char* const kRefused =
      "Logins that failed, by what the initiator was told";
  families->Counter("skiff_logins_refused_total", kRefused,
                    {{"reason", "unfinished"}}, counts.unfinished_logins);
  families->Counter("skiff_logins_refused_total", kRefused,
                    {{"reason", "connection refused"}},
                    counts.refused_connections);
  families->Counter("skiff_login_refusals_delayed_total",
                    "Logins that failed to authenticate, and were told so "
                    "late, as there were too many of them",
                    {}, counts.delayed_refusals);
  for (const auto& [status, count] : counts.refused_logins) {
    families->Counter("skiff_logins_refused_total", kRefused,
                      {{"reason", status}}, count);
  }
}

void AddMemory(const protocol::ServerMemory& memory, Families* families) {
  families->Gauge("skiff_memory_budget_bytes",
                  "What data of initiators may take", {}, memory.budget.limit);
  families->Gauge("skiff_memory_used_bytes", "What they take of it", {},
                  memory.budget.charged);
  const char* const kRefused = "How often there was no memory for them";
  families->Counter("skiff_memory_refused_total", kRefused,
                    {{"reason", "budget"}}, memory.budget.refused);
  families->Counter("skiff_memory_refused_total", kRefused,
                    {{"reason", "system"}}, memory.budget.lacking);
  families->Gauge("skiff_buffers_bytes", "Buffers for media in files", {},
                  memory.buffers.total_bytes);
  families->Gauge("skiff_buffers_held_bytes", "Of these, what is in use", {},
                  memory.buffers.held_bytes);
  families->Gauge("skiff_buffers_waiting_commands",
                  "Commands that wait for one", {},
                  memory.buffers.waiting_tasks);
  families->Counter("skiff_writes_given_up_total",
                    "Writes whose data did not come while others waited", {},
                    memory.buffers.given_up);
}

void AddReactors(const std::vector<TargetSnapshot::Reactor>& reactors,
                 Families* families) {
  for (size_t i = 0; i < reactors.size(); ++i) {
    const Labels labels = {{"reactor", absl::StrCat(i)}};
    families->Seconds("skiff_reactor_busy_seconds_total",
                      "Time in which the thread had something to do", labels,
                      reactors[i].busy);
    families->Seconds("skiff_reactor_idle_seconds_total",
                      "Time in which it slept, or looked for something in vain",
                      labels, reactors[i].idle);
  }
}

}  // namespace

std::vector<Family> MetricsOf(const TargetSnapshot& snapshot) {
  Families families;
  families.Gauge(
      "skiff_snapshot_complete",
      "0: a reactor did not answer in time, and what all of them serve "
      "is missing here",
      {}, snapshot.complete ? 1 : 0);
  for (const TargetSnapshot::Target& target : snapshot.targets) {
    families.Gauge("skiff_target_luns", "Logical units of the target",
                   {{"target", target.name}}, target.luns.size());
    for (const scsi::LogicalUnitStatus& lun : target.luns) {
      AddLun(target.name, lun, &families);
    }
  }
  AddReactors(snapshot.reactors, &families);
  // What did not come is not 0.
  if (!snapshot.complete) return families.Take();
  for (const InitiatorTotal& initiator : snapshot.initiators) {
    AddInitiator(initiator, &families);
  }
  for (const protocol::PortalCounts& portal : snapshot.counts.portals) {
    AddPortal(portal, &families);
  }
  AddLogins(snapshot.counts, &families);
  AddMemory(snapshot.memory, &families);
  return families.Take();
}

}  // namespace skiff::tools::metrics
