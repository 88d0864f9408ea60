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

// Commands by the data that their initiator expected to move: of 4 KiB at most,
// of 64 KiB at most, longer ones.
enum class SizeClass : uint8_t { kSmall, kMedium, kLarge };
inline constexpr size_t kSizeClasses = 3;
// The most bytes of a class; of the last, without a bound.
inline constexpr std::array<uint32_t, kSizeClasses> kSizeClassBytes = {
    4u << 10, 64u << 10, ~uint32_t{0}};
constexpr SizeClass SizeClassOf(uint32_t bytes) {
  return static_cast<SizeClass>((bytes > kSizeClassBytes[0] ? 1 : 0) +
                                (bytes > kSizeClassBytes[1] ? 1 : 0));
}
// One for each class, by its number.
using LatencyBySize = std::array<LatencyCounts, kSizeClasses>;

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
  LatencyBySize read_latencies;
  LatencyBySize write_latencies;

  // Of all sizes.
  LatencyCounts read_latency() const;
  LatencyCounts write_latency() const;

  CommandCounts& operator+=(const CommandCounts& other);
  bool operator==(const CommandCounts&) const = default;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_COMMAND_COUNTS_H_
