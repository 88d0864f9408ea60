#include "scsi/target/command_counters.h"

#include <algorithm>

namespace skiff::scsi {

void CommandCounters::NoteFailure(ScsiStatus status) {
  if (status == ScsiStatus::kCheckCondition) Add(1, &check_conditions_);
  if (status == ScsiStatus::kBusy || status == ScsiStatus::kTaskSetFull) {
    Add(1, &busy_);
  }
}

void CommandCounters::NoteLatency(Task::Kind kind, size_t size,
                                  uint64_t nanos) {
  Latency& latency = (kind == Task::Kind::kRead ? reads_ : writes_)[size];
  Add(nanos, &latency.sum);
  if (nanos > latency.max.load(kRelaxed)) latency.max.store(nanos, kRelaxed);
  Add(1, &latency.buckets[LatencyCounts::BucketOf(nanos)]);
}

// Each command is counted in one place, so that no sum becomes less while the
// other thread counts on.
LatencyBySize CommandCounters::Of(const Latencies& latencies,
                                  const Ended& ended, uint64_t* commands) {
  LatencyBySize all;
  *commands = 0;
  for (size_t size = 0; size < kSizeClasses; ++size) {
    const Latency& latency = latencies[size];
    LatencyCounts& counts = all[size];
    counts.sum_ns = latency.sum.load(kRelaxed);
    counts.max_ns = latency.max.load(kRelaxed);
    counts.buckets[0] = ended.in_no_time[size].load(kRelaxed);
    for (size_t i = 0; i < LatencyCounts::kBuckets; ++i) {
      counts.buckets[i] += latency.buckets[i].load(kRelaxed);
      *commands += counts.buckets[i];
    }
  }
  return all;
}

CommandCounts CommandCounters::Get() const {
  const auto ended = [this](Task::Kind kind) -> const Ended& {
    return ended_[static_cast<size_t>(kind)];
  };
  const Ended& reads = ended(Task::Kind::kRead);
  const Ended& writes = ended(Task::Kind::kWrite);
  CommandCounts counts;
  for (const Counter& others : ended(Task::Kind::kOther).in_no_time) {
    counts.others += others.load(kRelaxed);
  }
  counts.read_bytes = reads.bytes.load(kRelaxed);
  counts.written_bytes = writes.bytes.load(kRelaxed);
  counts.check_conditions = check_conditions_.load(kRelaxed);
  counts.busy = busy_.load(kRelaxed);
  counts.aborted = aborted_.load(kRelaxed);
  counts.in_flight = in_flight();
  counts.read_latencies = Of(reads_, reads, &counts.reads);
  counts.write_latencies = Of(writes_, writes, &counts.writes);
  return counts;
}

CommandTotals::Entry::Entry(CommandTotals* totals,
                            const CommandCounters* counters)
    : totals_(totals), counters_(counters) {
  if (totals_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(totals_->mutex_);
  totals_->present_.push_back(counters_);
}

CommandTotals::Entry::~Entry() {
  if (totals_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(totals_->mutex_);
  auto& present = totals_->present_;
  present.erase(std::find(present.begin(), present.end(), counters_));
  totals_->past_ += counters_->Get();
}

CommandCounts CommandTotals::Get() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  CommandCounts sum = past_;
  for (const CommandCounters* counters : present_) sum += counters->Get();
  return sum;
}

}  // namespace skiff::scsi
