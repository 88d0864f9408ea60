#include "tools/metrics/target_metrics.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools::metrics {
namespace {

using ::testing::ElementsAre;

const Family* Find(const std::vector<Family>& all, const std::string& name) {
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Family& f) { return f.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// The one sample of that family with these labels, whatever else it has.
const Sample* Find(const std::vector<Family>& all, const std::string& name,
                   const Labels& labels) {
  const Family* const family = Find(all, name);
  if (family == nullptr) return nullptr;
  for (const Sample& sample : family->samples) {
    const bool all_there =
        std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
          return std::count(sample.labels.begin(), sample.labels.end(), label) >
                 0;
        });
    if (all_there) return &sample;
  }
  return nullptr;
}

double Value(const std::vector<Family>& all, const std::string& name,
             const Labels& labels) {
  const Sample* const sample = Find(all, name, labels);
  return sample == nullptr ? -1 : sample->value;
}

scsi::LogicalUnitStatus Lun(uint64_t number) {
  scsi::LogicalUnitStatus lun;
  lun.lun = number;
  lun.size_bytes = 4096;
  return lun;
}

TEST(TargetMetricsTest, LogicalUnits) {
  TargetSnapshot snapshot;
  snapshot.targets.push_back({"iqn.a", {Lun(0), Lun(7)}});
  scsi::LogicalUnitStatus& lun = snapshot.targets[0].luns[1];
  lun.commands.reads = 3;
  lun.commands.written_bytes = 512;
  lun.commands.busy = 2;
  lun.commands.in_flight = 5;
  lun.failures.flushes = 1;
  lun.data_loss = "lost";
  const std::vector<Family> all = MetricsOf(snapshot);
  const Labels seven = {{"target", "iqn.a"}, {"lun", "7"}};
  const auto with = [&](const char* name, const char* value) {
    Labels labels = seven;
    labels.emplace_back(name, value);
    return labels;
  };
  EXPECT_EQ(Value(all, "skiff_target_luns", {{"target", "iqn.a"}}), 2);
  EXPECT_EQ(Value(all, "skiff_lun_commands_total", with("operation", "read")),
            3);
  EXPECT_EQ(Value(all, "skiff_lun_bytes_total", with("operation", "write")),
            512);
  EXPECT_EQ(Value(all, "skiff_lun_command_errors_total", with("kind", "busy")),
            2);
  EXPECT_EQ(
      Value(all, "skiff_lun_medium_failures_total", with("operation", "flush")),
      1);
  EXPECT_EQ(Value(all, "skiff_lun_queue_depth", seven), 5);
  EXPECT_EQ(Value(all, "skiff_lun_size_bytes", seven), 4096);
  EXPECT_EQ(Value(all, "skiff_lun_data_loss", seven), 1);
  EXPECT_EQ(Value(all, "skiff_lun_data_loss", {{"lun", "0"}}), 0);
}

TEST(TargetMetricsTest, LatenciesKeepTheirBounds) {
  TargetSnapshot snapshot;
  snapshot.targets.push_back({"iqn.a", {Lun(0)}});
  scsi::LatencyCounts& latency =
      snapshot.targets[0].luns[0].commands.read_latencies[1];
  for (const uint64_t nanos : {0u, 1500u, 2047u, 2048u, 1u << 30}) {
    ++latency.buckets[scsi::LatencyCounts::BucketOf(nanos)];
    latency.sum_ns += nanos;
  }
  ++latency.buckets[scsi::LatencyCounts::BucketOf(~uint64_t{0})];
  const std::vector<Family> all = MetricsOf(snapshot);
  const Family* const family = Find(all, "skiff_lun_command_duration_seconds");
  ASSERT_NE(family, nullptr);
  ASSERT_EQ(family->samples.size(), 1u) << "what was never seen is no series";
  const Sample& sample = family->samples[0];
  EXPECT_THAT(sample.labels, ElementsAre(std::make_pair("target", "iqn.a"),
                                         std::make_pair("lun", "0"),
                                         std::make_pair("operation", "read"),
                                         std::make_pair("size", "64KiB")));
  const Histogram& histogram = sample.histogram;
  ASSERT_EQ(histogram.counts.size(), histogram.bounds.size() + 1);
  EXPECT_DOUBLE_EQ(histogram.bounds[0], 2048e-9);
  EXPECT_DOUBLE_EQ(histogram.bounds[1], 8192e-9);
  EXPECT_EQ(histogram.counts[0], 3u);
  EXPECT_EQ(histogram.counts[1], 1u);
  EXPECT_EQ(histogram.counts.back(), 1u) << "above the last bound";
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(),
                            uint64_t{0}),
            6u);
  EXPECT_DOUBLE_EQ(histogram.sum, static_cast<double>(latency.sum_ns) * 1e-9);
}

InitiatorTotal Initiator(const std::string& target) {
  InitiatorTotal total;
  total.target = target;
  total.initiator = "iqn.i";
  total.data_model = "iSER";
  total.transport = "verbs";
  total.sessions = 2;
  total.counts.reads = 5;
  return total;
}

TEST(TargetMetricsTest, Initiators) {
  TargetSnapshot snapshot;
  snapshot.initiators = {Initiator(""), Initiator("iqn.a")};
  const std::vector<Family> all = MetricsOf(snapshot);
  const Labels labels = {{"initiator", "iqn.i"},
                         {"target", "iqn.a"},
                         {"data_model", "iSER"},
                         {"transport", "verbs"}};
  EXPECT_EQ(Value(all, "skiff_initiator_sessions", labels), 2);
  EXPECT_EQ(Value(all, "skiff_initiator_sessions", {{"target", ""}}), 2);
  EXPECT_EQ(
      Value(
          all, "skiff_initiator_commands_total",
          {{"target", "iqn.a"}, {"initiator", "iqn.i"}, {"operation", "read"}}),
      5);
  EXPECT_EQ(Find(all, "skiff_initiator_commands_total", {{"target", ""}}),
            nullptr);
}

TEST(TargetMetricsTest, LoginsByReason) {
  TargetSnapshot snapshot;
  snapshot.counts.logins = 4;
  snapshot.counts.refused_logins = {{"authentication failure (0x0201)", 3}};
  snapshot.counts.unfinished_logins = 2;
  snapshot.counts.delayed_refusals = 5;
  const std::vector<Family> all = MetricsOf(snapshot);
  EXPECT_EQ(Value(all, "skiff_logins_total", {{"type", "normal"}}), 4);
  EXPECT_EQ(Value(all, "skiff_logins_refused_total",
                  {{"reason", "authentication failure (0x0201)"}}),
            3);
  EXPECT_EQ(
      Value(all, "skiff_logins_refused_total", {{"reason", "unfinished"}}), 2);
  EXPECT_EQ(Value(all, "skiff_login_refusals_delayed_total", {}), 5);
}

TEST(TargetMetricsTest, PortalsAndTheirErrors) {
  TargetSnapshot snapshot;
  snapshot.counts.portals.resize(2);
  snapshot.counts.portals[0].portal = "tcp://a";
  snapshot.counts.portals[0].data_model = "iSCSI";
  snapshot.counts.portals[0].counters.header_digest_errors = 6;
  snapshot.counts.portals[1].portal = "verbs://a";
  snapshot.counts.portals[1].data_model = "iSER";
  snapshot.counts.portals[1].counters.rdma_errors = 7;
  const std::vector<Family> all = MetricsOf(snapshot);
  EXPECT_EQ(Value(all, "skiff_portal_digest_errors_total",
                  {{"portal", "tcp://a"}, {"part", "header"}}),
            6);
  EXPECT_EQ(
      Value(all, "skiff_portal_rdma_errors_total", {{"portal", "verbs://a"}}),
      7);
  EXPECT_EQ(
      Find(all, "skiff_portal_rdma_errors_total", {{"portal", "tcp://a"}}),
      nullptr);
}

TEST(TargetMetricsTest, ReactorsAreBusyOrIdle) {
  TargetSnapshot snapshot;
  snapshot.reactors = {{absl::Seconds(3), absl::Seconds(7)}};
  snapshot.complete = false;
  const std::vector<Family> all = MetricsOf(snapshot);
  EXPECT_EQ(Value(all, "skiff_reactor_busy_seconds_total", {{"reactor", "0"}}),
            7);
  EXPECT_EQ(Value(all, "skiff_reactor_idle_seconds_total", {{"reactor", "0"}}),
            3);
  EXPECT_EQ(Value(all, "skiff_snapshot_complete", {}), 0);
}

// promtool's rules: one type and help for each name, counters end in _total.
TEST(TargetMetricsTest, NamesFollowTheConventions) {
  TargetSnapshot snapshot;
  snapshot.targets.push_back({"iqn.a", {Lun(0)}});
  snapshot.initiators = {Initiator("iqn.a")};
  snapshot.counts.portals.resize(1);
  snapshot.counts.portals[0].data_model = "iSER";
  snapshot.reactors.resize(1);
  std::vector<std::string> names;
  for (const Family& family : MetricsOf(snapshot)) {
    EXPECT_EQ(std::count(names.begin(), names.end(), family.name), 0)
        << family.name;
    names.push_back(family.name);
    EXPECT_EQ(family.name.rfind("skiff_", 0), 0u) << family.name;
    const bool total = family.name.size() > 6 &&
                       family.name.substr(family.name.size() - 6) == "_total";
    EXPECT_EQ(total, family.type == Family::Type::kCounter) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_FALSE(family.samples.empty()) << family.name;
  }
}

}  // namespace
}  // namespace skiff::tools::metrics
