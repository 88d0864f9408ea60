#ifndef SKIFF_SCSI_TARGET_COMMAND_COUNTS_H_
#define SKIFF_SCSI_TARGET_COMMAND_COUNTS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace skiff::scsi {

// How long commands took, from their arrival to their answer, in nanoseconds.
// The clock is the event loop's, which is read once a turn: a command that is
// answered in the turn in which it came took 0.
struct LatencyCounts {
  static constexpr size_t kBuckets = 24;
  // The bucket of a latency. Number i has those below 1024 ns << i that are in
  // none before; the last has the rest, of 4.3 s and more.
  static constexpr size_t BucketOf(uint64_t nanos) {
    const auto width = static_cast<size_t>(std::bit_width(nanos >> 10));
    return width < kBuckets ? width : kBuckets - 1;
  }

  uint64_t sum_ns = 0;
  uint64_t max_ns = 0;
  std::array<uint64_t, kBuckets> buckets = {};

  LatencyCounts& operator+=(const LatencyCounts& other);
  bool operator==(const LatencyCounts&) const = default;
};

// What became of commands, for operators.
struct CommandCounts {
  // Those that were answered, with whatever status. READ, WRITE and WRITE AND
  // VERIFY of all lengths; all others.
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t others = 0;
  // Data of the reads and writes that succeeded.
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  // Of those that were answered: in CHECK CONDITION; in BUSY or TASK SET FULL.
  uint64_t check_conditions = 0;
  uint64_t busy = 0;
  // Ended by task management, by a reset, with the session, or with the logical
  // unit; not answered, or with TASK ABORTED. Not in `reads` and so on.
  uint64_t aborted = 0;
  // Just now, until the answer has left.
  uint64_t in_flight = 0;
  LatencyCounts read_latency;
  LatencyCounts write_latency;

  CommandCounts& operator+=(const CommandCounts& other);
  bool operator==(const CommandCounts&) const = default;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_COMMAND_COUNTS_H_
