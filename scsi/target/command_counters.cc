#include "scsi/target/command_counters.h"

#include <algorithm>

namespace skiff::scsi {

LatencyCounts& LatencyCounts::operator+=(const LatencyCounts& other) {
  sum_ns += other.sum_ns;
  max_ns = std::max(max_ns, other.max_ns);
  for (size_t i = 0; i < kBuckets; ++i) buckets[i] += other.buckets[i];
  return *this;
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
  read_latency += other.read_latency;
  write_latency += other.write_latency;
  return *this;
}

void CommandCounters::NoteFailure(ScsiStatus status) {
  if (status == ScsiStatus::kCheckCondition) Add(1, &check_conditions_);
  if (status == ScsiStatus::kBusy || status == ScsiStatus::kTaskSetFull) {
    Add(1, &busy_);
  }
}

void CommandCounters::NoteLatency(Task::Kind kind, uint64_t nanos) {
  Latency& latency = kind == Task::Kind::kRead ? reads_ : writes_;
  Add(nanos, &latency.sum);
  if (nanos > latency.max.load(kRelaxed)) latency.max.store(nanos, kRelaxed);
  Add(1, &latency.buckets[LatencyCounts::BucketOf(nanos)]);
}

// Each command is counted in one place, so that no sum becomes less while the
// other thread counts on.
LatencyCounts CommandCounters::Of(const Latency& latency, const Ended& ended,
                                  uint64_t* commands) {
  LatencyCounts counts;
  counts.sum_ns = latency.sum.load(kRelaxed);
  counts.max_ns = latency.max.load(kRelaxed);
  *commands = ended.in_no_time.load(kRelaxed);
  counts.buckets[0] = *commands;
  for (size_t i = 0; i < LatencyCounts::kBuckets; ++i) {
    const uint64_t in_bucket = latency.buckets[i].load(kRelaxed);
    counts.buckets[i] += in_bucket;
    *commands += in_bucket;
  }
  return counts;
}

CommandCounts CommandCounters::Get() const {
  const auto ended = [this](Task::Kind kind) -> const Ended& {
    return ended_[static_cast<size_t>(kind)];
  };
  const Ended& reads = ended(Task::Kind::kRead);
  const Ended& writes = ended(Task::Kind::kWrite);
  CommandCounts counts;
  counts.others = ended(Task::Kind::kOther).in_no_time.load(kRelaxed);
  counts.read_bytes = reads.bytes.load(kRelaxed);
  counts.written_bytes = writes.bytes.load(kRelaxed);
  counts.check_conditions = check_conditions_.load(kRelaxed);
  counts.busy = busy_.load(kRelaxed);
  counts.aborted = aborted_.load(kRelaxed);
  counts.in_flight = in_flight();
  counts.read_latency = Of(reads_, reads, &counts.reads);
  counts.write_latency = Of(writes_, writes, &counts.writes);
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
