#ifndef SKIFF_TOOLS_SKIFF_PERF_PLAN_H_
#define SKIFF_TOOLS_SKIFF_PERF_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/skiff/base/options.h"
#include "tools/skiff/base/report.h"
#include "tools/skiff/perf/job.h"

namespace skiff::tools {

// What --rw asks for.
struct Workload {
  bool random = false;
  uint32_t read_percent = 100;
  bool reads() const { return read_percent > 0; }
  bool writes() const { return read_percent < 100; }
};
// fio's words: read, write, randread, randwrite, rw (or readwrite), randrw.
absl::StatusOr<Workload> ParseWorkload(const PerfOptions& options);

// Divides the range that the options ask for between jobs. `max_transfer` is
// the largest command in bytes, 0 for any. Usage errors say which limit is
// broken.
absl::StatusOr<std::vector<PerfJobOptions>> PlanJobs(const PerfOptions& options,
                                                     const Workload& workload,
                                                     uint32_t block_size,
                                                     uint64_t capacity_bytes,
                                                     uint64_t max_transfer);

// The results of jobs that ran at the same time, as one.
LatencyReport SummarizeLatency(const Histogram& nanos, uint32_t io_bytes,
                               double seconds);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PERF_PLAN_H_
