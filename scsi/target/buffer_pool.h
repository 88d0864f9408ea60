#ifndef SKIFF_SCSI_TARGET_BUFFER_POOL_H_
#define SKIFF_SCSI_TARGET_BUFFER_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scsi/target/task.h"

namespace skiff::scsi {

// A piece of the pool: page-aligned, held by one task at a time.
struct DataBuffer {
  uint8_t* data = nullptr;
  uint32_t size = 0;
  uint8_t size_class = 0;
  DataBuffer* next = nullptr;
};

// One worker's bounce buffers, in two sizes, so that small commands do not each
// hold as much as a long one: a quarter of the pool serves what fits into
// kSmallBytes. A task holds one buffer at most and never waits for a second, so
// the waiting cannot deadlock. Everything is allocated up front; memory is
// touched as it is used.
class BufferPool {
 public:
  static constexpr uint32_t kSmallBytes = 16u << 10;
  // Holds what the longest COMPARE AND WRITE and REPORT LUNS need at once.
  static constexpr uint32_t kMinLargeBytes = 256u << 10;

  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(
      size_t pool_bytes, size_t buffer_bytes);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // Gives `task` a buffer of at least `bytes`, or the largest size there is,
  // and returns true. Else the task waits in order of arrival, in the phase
  // kWaitingForBuffer, and `task->resume` runs when it has its buffer.
  bool Acquire(Task* task, uint64_t bytes);
  // Takes the task's buffer back, and hands it to whoever waits for it.
  void Release(Task* task);
  // All buffers.
  absl::Span<uint8_t> memory() const { return {memory_, mapped_bytes_}; }
  // Takes a task out that waits.
  void Cancel(Task* task);

 private:
  struct SizeClass {
    uint32_t size = 0;
    DataBuffer* free = nullptr;
    Task* first_waiting = nullptr;
    Task* last_waiting = nullptr;
    bool serving = false;
  };

  BufferPool() = default;
  void Carve(uint8_t size_class, uint8_t* memory, uint32_t size, size_t count);
  void Serve(SizeClass* size_class);

  uint8_t* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::vector<DataBuffer> buffers_;
  std::array<SizeClass, 2> classes_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_TARGET_BUFFER_POOL_H_
