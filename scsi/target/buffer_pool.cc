#include "scsi/target/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::scsi {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(
    size_t pool_bytes, size_t buffer_bytes) {
  if (buffer_bytes < kMinLargeBytes || buffer_bytes % kPage != 0 ||
      buffer_bytes > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions::buffer_bytes is ", buffer_bytes,
                     ": use a multiple of 4096, from ", kMinLargeBytes, " on"));
  }
  const size_t small_count = pool_bytes / 4 / kSmallBytes;
  const size_t large_count =
      (pool_bytes - small_count * kSmallBytes) / buffer_bytes;
  if (small_count == 0 || large_count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions::buffer_pool_bytes is ", pool_bytes,
                     ": too little for one buffer of ", buffer_bytes,
                     " bytes and a quarter more for small ones"));
  }
  auto pool = absl::WrapUnique(new BufferPool);
  pool->mapped_bytes_ = small_count * kSmallBytes + large_count * buffer_bytes;
  void* memory = mmap(nullptr, pool->mapped_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot map ", pool->mapped_bytes_,
        " bytes of data buffers: ", std::strerror(errno),
        ". Lower WorkerOptions::buffer_pool_bytes or raise ulimit -v."));
  }
  pool->memory_ = static_cast<uint8_t*>(memory);
  pool->buffers_.reserve(small_count + large_count);
  pool->Carve(0, pool->memory_, kSmallBytes, small_count);
  pool->Carve(1, pool->memory_ + small_count * kSmallBytes,
              static_cast<uint32_t>(buffer_bytes), large_count);
  return pool;
}

BufferPool::~BufferPool() {
  if (memory_ != nullptr) munmap(memory_, mapped_bytes_);
}

void BufferPool::Carve(uint8_t size_class, uint8_t* memory, uint32_t size,
                       size_t count) {
  classes_[size_class].size = size;
  for (size_t i = 0; i < count; ++i) {
    buffers_.push_back(
        {memory + i * size, size, size_class, classes_[size_class].free});
    classes_[size_class].free = &buffers_.back();
  }
}

bool BufferPool::Acquire(Task* task, uint64_t bytes) {
  SizeClass& wanted = classes_[bytes <= kSmallBytes ? 0 : 1];
  if (wanted.free != nullptr && wanted.first_waiting == nullptr) {
    task->buffer = wanted.free;
    wanted.free = wanted.free->next;
    return true;
  }
  task->phase = Task::Phase::kWaitingForBuffer;
  task->wait_next = nullptr;
  (wanted.last_waiting != nullptr ? wanted.last_waiting->wait_next
                                  : wanted.first_waiting) = task;
  wanted.last_waiting = task;
  return false;
}

void BufferPool::Release(Task* task) {
  DataBuffer* buffer = task->buffer;
  task->buffer = nullptr;
  SizeClass& owner = classes_[buffer->size_class];
  buffer->next = owner.free;
  owner.free = buffer;
  if (owner.first_waiting != nullptr && !owner.serving) Serve(&owner);
}

// A loop, not a recursion: a task that goes on may finish and release its
// buffer at once.
void BufferPool::Serve(SizeClass* size_class) {
  size_class->serving = true;
  while (size_class->first_waiting != nullptr && size_class->free != nullptr) {
    Task* task = size_class->first_waiting;
    size_class->first_waiting = task->wait_next;
    if (size_class->first_waiting == nullptr) {
      size_class->last_waiting = nullptr;
    }
    task->buffer = size_class->free;
    size_class->free = size_class->free->next;
    task->phase = Task::Phase::kEnabled;
    task->resume(task);
  }
  size_class->serving = false;
}

void BufferPool::Cancel(Task* task) {
  for (SizeClass& size_class : classes_) {
    Task* previous = nullptr;
    for (Task* at = size_class.first_waiting; at != nullptr;
         previous = at, at = at->wait_next) {
      if (at != task) continue;
      (previous != nullptr ? previous->wait_next : size_class.first_waiting) =
          task->wait_next;
      if (size_class.last_waiting == task) size_class.last_waiting = previous;
      return;
    }
  }
}

}  // namespace skiff::scsi
