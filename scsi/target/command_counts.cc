#include "scsi/target/command_counts.h"

#include <algorithm>

namespace skiff::scsi {

LatencyCounts& LatencyCounts::operator+=(const LatencyCounts& other) {
  sum_ns += other.sum_ns;
  max_ns = std::max(max_ns, other.max_ns);
  for (size_t i = 0; i < kBuckets; ++i) buckets[i] += other.buckets[i];
  return *this;
}

namespace {

LatencyCounts Sum(const LatencyBySize& latencies) {
  LatencyCounts sum;
  for (const LatencyCounts& latency : latencies) sum += latency;
  return sum;
}

}  // namespace

LatencyCounts CommandCounts::read_latency() const {
  return Sum(read_latencies);
}
LatencyCounts CommandCounts::write_latency() const {
  return Sum(write_latencies);
}

CommandCounts& CommandCounts::operator+=(const CommandCounts& other) {
  reads += other.reads;
  writes += other.writes;
  others += other.others;
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  check_conditions += other.check_conditions;
  busy += other.busy;
  aborted += other.aborted;
  in_flight += other.in_flight;
  for (size_t i = 0; i < kSizeClasses; ++i) {
    read_latencies[i] += other.read_latencies[i];
    write_latencies[i] += other.write_latencies[i];
  }
  return *this;
}

}  // namespace skiff::scsi
