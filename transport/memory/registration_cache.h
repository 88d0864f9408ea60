#ifndef SKIFF_TRANSPORT_MEMORY_REGISTRATION_CACHE_H_
#define SKIFF_TRANSPORT_MEMORY_REGISTRATION_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "transport/memory.h"
#include "transport/memory/fork_detector.h"
#include "transport/rdma_endpoint.h"

namespace skiff::transport {

// How much is kept.
struct RegistrationCacheOptions {
  // What is registered at most, in use or kept for later. Registered memory is
  // locked: RLIMIT_MEMLOCK has to allow as much.
  size_t max_bytes = size_t{1} << 30;
  size_t max_regions = 1024;
};

// Registrations of memory that callers own, kept for the next time, since
// registering costs far more than an operation (microseconds for each page).
//
// Nothing watches the address space: before memory is freed or mapped anew, its
// owner says so with Invalidate(). A region in use (pinned by a handle) is
// never evicted.
//
// What is registered for remote access is open to every peer that has the key,
// for as long as it stays in the cache and over the whole region, which may be
// more than what was asked for. Where that is too much, bind a MemoryWindow, or
// register without a cache.
//
// After fork(2) the registrations belong to the parent alone: in a child Get()
// fails, and destroying the cache gives nothing back to the device.
//
// Belongs to one reactor; not thread-safe. A hit allocates nothing.
class RegistrationCache {
  struct Entry;

 public:
  // Keeps a region in use. Must be gone before the cache is.
  class Handle {
   public:
    Handle() = default;
    Handle(Handle&& other) noexcept
        : cache_(std::exchange(other.cache_, nullptr)),
          entry_(std::exchange(other.entry_, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
      if (this != &other) {
        Release();
        cache_ = std::exchange(other.cache_, nullptr);
        entry_ = std::exchange(other.entry_, nullptr);
      }
      return *this;
    }
    ~Handle() { Release(); }

    explicit operator bool() const { return entry_ != nullptr; }
    // Contains the range that was asked for, and perhaps more.
    inline const MemoryRegion* region() const;
    // A part of the range, for a post. Not checked.
    Sge Part(void* data, size_t length) const {
      return {data, length, region()};
    }
    // The same for the peer, where the access allows it.
    inline RemoteBuffer Remote(const void* data) const;
    // Ends the use early.
    void Release() {
      if (entry_ != nullptr) {
        std::exchange(cache_, nullptr)->Unpin(std::exchange(entry_, nullptr));
      }
    }

   private:
    friend class RegistrationCache;
    Handle(RegistrationCache* cache, Entry* entry)
        : cache_(cache), entry_(entry) {}
    RegistrationCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  // Counts since the cache was made, and what it has now.
  struct Statistics {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;      // To stay within the limits.
    uint64_t invalidations = 0;  // Regions that Invalidate() took out.
    uint64_t failures = 0;       // Gets that failed.
    size_t regions = 0;          // Registered now ...
    size_t bytes = 0;
    size_t pinned_regions = 0;  // ... and of these in use.
  };

  // `domain` must live until the cache is destroyed; an endpoint of it, or
  // anything else that was made from it, sees to that.
  RegistrationCache(MemoryDomain* domain,
                    const RegistrationCacheOptions& options);
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // A registration of at least this range with at least this access. Registers
  // it unless there is one. ResourceExhausted: a limit of the cache is reached
  // by regions in use, or one of the machine is (RLIMIT_MEMLOCK, the device's
  // regions) although everything not in use was given back.
  absl::StatusOr<Handle> Get(void* data, size_t size, Access access);

  // The memory is about to be freed, or to be mapped to something else. Takes
  // every region that overlaps it out of the cache. Returns how many of them
  // are in use: those are deregistered when their handles are gone, and until
  // then the memory must stay.
  size_t Invalidate(const void* data, size_t size);

  // Gives back every region that is not in use, so that other memory can be
  // locked. Whether there was any.
  bool EvictUnused();

  // Changes with every call.
  const Statistics& statistics() const { return statistics_; }

 private:
  // Regions of one kind of access by their first byte. None contains another,
  // so that their last bytes have the same order.
  using Tree = absl::btree_map<uintptr_t, Entry*>;
  static constexpr size_t kAccessKinds = 4;

  struct Entry {
    std::unique_ptr<MemoryRegion> region;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uint32_t access = 0;
    uint32_t pins = 0;
    bool cached = true;  // Not invalidated, and not replaced.
    // In the list of those that are not in use, or that are only in use still.
    Entry* previous = nullptr;
    Entry* next = nullptr;
  };

  Entry* Find(uintptr_t begin, uintptr_t end, uint32_t access);
  absl::StatusOr<Entry*> Add(void* data, size_t size, Access access);
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(void* data,
                                                         size_t size,
                                                         Access access);
  // Evicts until `bytes` and one region more fit.
  absl::Status MakeRoom(size_t bytes);
  // False if everything left is in use.
  bool EvictOldest();
  // From the tree, and destroyed unless in use.
  void Drop(Entry* entry);
  void Destroy(Entry* entry);
  void DropOverlapping(Tree* tree, uintptr_t begin, uintptr_t end);
  void DropContained(Tree* tree, uintptr_t begin, uintptr_t end);
  void Pin(Entry* entry);
  void Unpin(Entry* entry);
  static void Unlink(Entry* entry);
  static void Append(Entry* list, Entry* entry);

  MemoryDomain* const domain_;
  const RegistrationCacheOptions options_;
  const ForkDetector fork_detector_;
  std::array<Tree, kAccessKinds> trees_;
  // Heads of lists. `unused_.next` was used longest ago; what is retired is in
  // use, but not in the cache any more.
  Entry unused_;
  Entry retired_;
  Entry* last_ = nullptr;  // Found last; most lookups want it again.
  Statistics statistics_;
};

const MemoryRegion* RegistrationCache::Handle::region() const {
  return entry_->region.get();
}

RemoteBuffer RegistrationCache::Handle::Remote(const void* data) const {
  return {region()->remote_base() +
              (reinterpret_cast<uintptr_t>(data) - entry_->begin),
          region()->remote_key()};
}

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_MEMORY_REGISTRATION_CACHE_H_
