#ifndef SKIFF_SCSI_TARGET_COMMAND_COUNTERS_H_
#define SKIFF_SCSI_TARGET_COMMAND_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "scsi/target/command_counts.h"
#include "scsi/target/task.h"

namespace skiff::scsi {

// Counts the commands of one I_T_L nexus. One thread writes, any may read: so
// that no access is an atomic read-modify-write, and no line is written by two.
class alignas(64) CommandCounters {
 public:
  CommandCounters() = default;
  CommandCounters(const CommandCounters&) = delete;
  CommandCounters& operator=(const CommandCounters&) = delete;

  // --- On the one thread.
  void Begin() { Add(1, &in_flight_); }
  // Which `nanos` after Begin() was answered with task.status.
  void Answer(const Task& task, int64_t nanos) {
    Ended& ended = ended_[static_cast<size_t>(task.kind)];
    // One of both is zero, but for a command that is neither read nor write.
    const auto size = static_cast<size_t>(
        SizeClassOf(task.data_in_length | task.data_out_length));
    if (nanos > 0 && task.kind != Task::Kind::kOther) {
      NoteLatency(task.kind, size, static_cast<uint64_t>(nanos));
    } else {
      Add(1, &ended.in_no_time[size]);
    }
    if (task.status == ScsiStatus::kGood) [[likely]] {
      Add(Moved(task.data_in_wanted, task.data_in_length) +
              Moved(task.data_out_wanted, task.data_out_length),
          &ended.bytes);
    } else {
      NoteFailure(task.status);
    }
  }
  void NoteAborted() { Add(1, &aborted_); }
  // Nothing refers to the command any more.
  void End() { Add(~uint64_t{0}, &in_flight_); }

  // --- On any thread.
  uint64_t in_flight() const { return in_flight_.load(kRelaxed); }
  // What belongs together may differ by the commands of just now.
  CommandCounts Get() const;

 private:
  using Counter = std::atomic<uint64_t>;
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  struct Ended {
    // By size; the others are in their buckets.
    std::array<Counter, kSizeClasses> in_no_time = {};
    Counter bytes{0};
  };
  // But for those that took no time.
  struct Latency {
    Counter sum{0};
    Counter max{0};
    std::array<Counter, LatencyCounts::kBuckets> buckets = {};
  };

  static void Add(uint64_t more, Counter* counter) {
    counter->store(counter->load(kRelaxed) + more, kRelaxed);
  }
  static uint64_t Moved(uint64_t wanted, uint32_t length) {
    return wanted < length ? wanted : length;
  }
  using Latencies = std::array<Latency, kSizeClasses>;
  static LatencyBySize Of(const Latencies& latencies, const Ended& ended,
                          uint64_t* commands);

  void NoteFailure(ScsiStatus status);
  void NoteLatency(Task::Kind kind, size_t size, uint64_t nanos);

  Counter in_flight_{0};
  std::array<Ended, Task::kKinds> ended_;
  Counter check_conditions_{0};
  Counter busy_{0};
  Counter aborted_{0};
  // Two lines end here.
  Latencies reads_;
  Latencies writes_;
};

// Sums what several CommandCounters count, also those that are gone: what it
// says never becomes less, but for CommandCounts::in_flight. Thread-safe.
class CommandTotals {
 public:
  // While it lives, the totals read the counters; then they keep what there was
  // in them. Both outlive it; `totals` null: nothing.
  class Entry {
   public:
    Entry(CommandTotals* totals, const CommandCounters* counters);
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry();

   private:
    CommandTotals* const totals_;
    const CommandCounters* const counters_;
  };

  CommandCounts Get() const;

 private:
  mutable std::mutex mutex_;
  std::vector<const CommandCounters*> present_;  // Under `mutex_`.
  CommandCounts past_;                           // Under `mutex_`.
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_COMMAND_COUNTERS_H_
