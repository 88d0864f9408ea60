#ifndef SKIFF_TRANSPORT_MEMORY_REGISTERED_POOL_H_
#define SKIFF_TRANSPORT_MEMORY_REGISTERED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/memory.h"
#include "transport/memory/fork_detector.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// How large buffers are, and how many there may be.
struct RegisteredPoolOptions {
  size_t buffer_bytes = 8192;
  // Buffers begin at multiples of this, a power of two of at most a page.
  size_t alignment = 64;
  // Memory is registered in slabs of about so many bytes; at least one buffer.
  size_t slab_bytes = size_t{2} << 20;
  // Bounds the pool; whole slabs are made, but no more buffers handed out.
  size_t max_buffers = 4096;
  // Made at once.
  size_t initial_buffers = 0;
  Access access = Access::kLocal;
};

// Registered buffers of one size, cut from big slabs so that a device has few
// regions to know. Grows when it runs empty, up to its limit, and never
// shrinks. Growing maps and registers memory (hundreds of microseconds for each
// slab); Reserve() does it ahead of time. Apart from that, getting and giving
// back takes constant time and allocates nothing. The buffer that was given
// back last comes first, since the caches know it.
//
// With remote access, a peer that has the key reaches the whole slab.
//
// After fork(2) slabs belong to the parent alone: a child gets no buffers, and
// destroying its copy of the pool gives nothing back to the device.
//
// Belongs to one reactor; not thread-safe.
class RegisteredPool {
 public:
  // A buffer of the pool, for one user at a time; goes back when it is
  // destroyed. Must be gone before the pool is, and must not go before
  // operations on it have completed. Its contents are what the last user left.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          data_(other.data_),
          region_(other.region_) {}
    Buffer& operator=(Buffer&& other) noexcept {
      if (this != &other) {
        Release();
        pool_ = std::exchange(other.pool_, nullptr);
        data_ = other.data_;
        region_ = other.region_;
      }
      return *this;
    }
    ~Buffer() { Release(); }

    explicit operator bool() const { return pool_ != nullptr; }
    // Where it begins; valid until it goes back.
    char* data() const { return data_; }
    // In bytes; the same for all of the pool.
    size_t size() const { return pool_->options_.buffer_bytes; }
    // The slab that it is a part of.
    const MemoryRegion* region() const { return region_; }
    // A part of it, for a post. Not checked against size().
    Sge Part(size_t offset, size_t length) const {
      return {data() + offset, length, region()};
    }
    // All of it, for a post.
    Sge All() const { return Part(0, size()); }
    // For the peer, where the pool gives remote access.
    RemoteBuffer Remote(size_t offset) const {
      const MemoryRegion* slab = region();
      const auto at =
          static_cast<uint64_t>(data() - static_cast<char*>(slab->data()));
      return {slab->remote_base() + at + offset, slab->remote_key()};
    }
    // Gives it back early.
    void Release() {
      if (pool_ != nullptr)
        std::exchange(pool_, nullptr)->Put({data_, region_});
    }

   private:
    friend class RegisteredPool;
    Buffer(RegisteredPool* pool, char* data, const MemoryRegion* region)
        : pool_(pool), data_(data), region_(region) {}
    RegisteredPool* pool_ = nullptr;
    char* data_ = nullptr;
    const MemoryRegion* region_ = nullptr;
  };

  // `domain` must live until the pool is destroyed; an endpoint of it, or
  // anything else that was made from it, sees to that. Errors say which option
  // makes no sense, or why the first buffers cannot be registered.
  static absl::StatusOr<std::unique_ptr<RegisteredPool>> Create(
      MemoryDomain* domain, const RegisteredPoolOptions& options);
  ~RegisteredPool();
  RegisteredPool(const RegisteredPool&) = delete;
  RegisteredPool& operator=(const RegisteredPool&) = delete;

  // Empty if all buffers are in use and the pool has reached its limit, or
  // cannot grow (growth_error()). Ask again when a buffer came back.
  Buffer Get() {
    if (free_count_ == 0 || fork_detector_.forked()) return GetNew();
    const Free& buffer = free_[--free_count_];
    return Buffer(this, buffer.data, buffer.region);
  }
  // Grows to at least so many buffers, in use or not.
  absl::Status Reserve(size_t buffers);

  // Why the pool stopped growing before its limit; it is not tried again until
  // Reserve() is called. OK while it did not.
  const absl::Status& growth_error() const { return growth_error_; }
  // Buffers that somebody has.
  size_t in_use() const { return made_ - free_count_; }
  // Buffers that are registered, in use or not.
  size_t made() const { return made_; }

 private:
  struct Slab {
    void* memory = nullptr;
    std::unique_ptr<MemoryRegion> region;
  };

  struct Free {
    char* data = nullptr;
    const MemoryRegion* region = nullptr;
  };

  RegisteredPool(MemoryDomain* domain, const RegisteredPoolOptions& options);

  // Of a new slab; empty in a child.
  Buffer GetNew();
  void Put(Free buffer) { free_[free_count_++] = buffer; }
  absl::Status AddSlab();

  MemoryDomain* const domain_;
  const RegisteredPoolOptions options_;
  const size_t stride_;
  const size_t buffers_per_slab_;
  const size_t slab_bytes_;
  const ForkDetector fork_detector_;
  std::vector<Slab> slabs_;
  // A stack, with room for all buffers.
  std::vector<Free> free_;
  size_t free_count_ = 0;
  size_t made_ = 0;
  absl::Status growth_error_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_MEMORY_REGISTERED_POOL_H_
