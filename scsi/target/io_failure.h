#ifndef SKIFF_SCSI_TARGET_IO_FAILURE_H_
#define SKIFF_SCSI_TARGET_IO_FAILURE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "scsi/backend/backend.h"
#include "scsi/target/target.h"

namespace skiff::scsi {

// Whether the medium failed. A miscompare is an answer; and zeroes that have no
// shorter way are written as data.
bool IsFailure(const IoRequest& request);

// "write of 4096 bytes at byte 8192 failed: No space left on device".
std::string DescribeFailure(const IoRequest& request);

// Counts the failures of one logical unit. Thread-safe.
class FailureCounters {
 public:
  // Returns how many there are now.
  uint64_t Count(IoRequest::Op op) {
    by_op_[static_cast<size_t>(op)].fetch_add(1, std::memory_order_relaxed);
    return total_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  IoFailures Get() const;

 private:
  static constexpr size_t kOps = 6;
  std::array<std::atomic<uint64_t>, kOps> by_op_ = {};
  std::atomic<uint64_t> total_{0};
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_IO_FAILURE_H_
