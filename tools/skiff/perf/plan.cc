#include "tools/skiff/perf/plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "tools/common/units.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/perf/pattern.h"

namespace skiff::tools {
namespace {

constexpr uint32_t kMaxDepth = 65536;
// Of memory for buffers, and for what --verify remembers of each block.
constexpr uint64_t kMaxBufferBytes = uint64_t{4} << 30;
constexpr uint64_t kMaxTableBytes = uint64_t{2} << 30;

absl::Status CheckSizes(const PerfOptions& options, uint32_t block_size,
                        uint64_t capacity_bytes, uint64_t max_transfer) {
  if (options.io_bytes == 0 || options.io_bytes % block_size != 0) {
    return UsageError(absl::StrCat("--bs ", options.io_bytes,
                                   " must be a multiple of the block size, ",
                                   block_size));
  }
  if (max_transfer != 0 && options.io_bytes > max_transfer) {
    return UsageError(
        absl::StrCat("--bs ", FormatSize(options.io_bytes),
                     " is more than the logical unit takes in one command, ",
                     FormatSize(max_transfer)));
  }
  if (options.offset % block_size != 0) {
    return UsageError(absl::StrCat("--offset ", options.offset,
                                   " must be a multiple of the block size, ",
                                   block_size));
  }
  if (options.offset >= capacity_bytes ||
      options.size.value_or(0) > capacity_bytes - options.offset) {
    return UsageError(absl::StrCat(
        "--offset and --size go beyond the end of the logical unit, which has ",
        capacity_bytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Workload> ParseWorkload(const PerfOptions& options) {
  Workload workload;
  const std::string& rw = options.rw;
  workload.random = rw.rfind("rand", 0) == 0;
  const std::string kind = workload.random ? rw.substr(4) : rw;
  if (kind == "read") {
    workload.read_percent = 100;
  } else if (kind == "write") {
    workload.read_percent = 0;
  } else if (kind == "rw" || rw == "readwrite") {
    if (options.read_percent > 100) {
      return UsageError(absl::StrCat("--rwmixread ", options.read_percent,
                                     " is no percentage"));
    }
    workload.read_percent = options.read_percent;
  } else {
    return UsageError(absl::StrCat(
        "--rw: '", rw,
        "' is none of read, write, rw, randread, randwrite, randrw"));
  }
  return workload;
}

absl::StatusOr<std::vector<PerfJobOptions>> PlanJobs(const PerfOptions& options,
                                                     const Workload& workload,
                                                     uint32_t block_size,
                                                     uint64_t capacity_bytes,
                                                     uint64_t max_transfer) {
  const absl::Status status =
      CheckSizes(options, block_size, capacity_bytes, max_transfer);
  if (!status.ok()) return status;
  if (options.depth == 0 || options.depth > kMaxDepth || options.jobs == 0) {
    return UsageError(absl::StrCat("--iodepth must be 1 to ", kMaxDepth,
                                   " and --numjobs at least 1"));
  }
  const uint64_t size = options.size.value_or(capacity_bytes - options.offset);
  const uint64_t blocks = size / options.io_bytes / options.jobs;
  if (blocks < options.depth) {
    return UsageError(
        absl::StrCat("the range of ", FormatSize(size), " has ", blocks,
                     " pieces of --bs for each job, fewer than --iodepth ",
                     options.depth, "; make it larger, or the depth smaller"));
  }
  const uint64_t buffers =
      uint64_t{options.jobs} * options.depth * options.io_bytes;
  if (buffers > kMaxBufferBytes) {
    return UsageError(absl::StrCat(
        "--numjobs, --iodepth and --bs need ", FormatSize(buffers),
        " of buffers; up to ", FormatSize(kMaxBufferBytes), " are allowed"));
  }
  std::vector<PerfJobOptions> jobs(options.jobs);
  for (uint32_t i = 0; i < options.jobs; ++i) {
    PerfJobOptions& job = jobs[i];
    job.logical_block_size = block_size;
    job.size = blocks * options.io_bytes;
    job.offset = options.offset + i * job.size;
    job.io_bytes = options.io_bytes;
    job.depth = options.depth;
    job.random = workload.random;
    job.read_percent = workload.read_percent;
    job.verify = !options.verify.empty();
    job.seed = options.seed + i;
  }
  const uint64_t table = options.jobs * PerfJob::VerifyTableBytes(jobs[0]);
  if (jobs[0].verify && table > kMaxTableBytes) {
    return UsageError(absl::StrCat(
        "--verify would need ", FormatSize(table),
        " of memory to know what it wrote; choose a smaller --size"));
  }
  static_assert(kMinPatternBytes <= 512);  // The smallest block.
  return jobs;
}

LatencyReport SummarizeLatency(const Histogram& nanos, uint32_t io_bytes,
                               double seconds) {
  LatencyReport report;
  report.ios = nanos.count();
  if (report.ios == 0) return report;
  if (seconds > 0) {
    report.iops = static_cast<double>(report.ios) / seconds;
    report.megabytes_per_second = report.iops * io_bytes / 1e6;
  }
  report.mean_us = nanos.mean() / 1e3;
  report.min_us = static_cast<double>(nanos.min()) / 1e3;
  report.max_us = static_cast<double>(nanos.max()) / 1e3;
  for (const double percent : {50.0, 90.0, 99.0, 99.9, 99.99}) {
    report.percentiles_us.emplace_back(
        absl::StrCat("p", percent),
        static_cast<double>(nanos.Percentile(percent)) / 1e3);
  }
  return report;
}

}  // namespace skiff::tools
