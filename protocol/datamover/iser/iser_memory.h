#ifndef SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_MEMORY_H_
#define SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/datamover/block_pool.h"
#include "protocol/datamover/memory_budget.h"
#include "protocol/datamover/policies.h"
#include "transport/memory.h"
#include "transport/memory/registered_pool.h"
#include "transport/memory/registration_cache.h"
#include "transport/rdma_endpoint.h"

namespace skiff::protocol {

// Largest message: iSER header, BHS, AHS, data segment and padding.
inline constexpr size_t kIserMessageBytes = 8576;

struct IserMemoryOptions {
  // Its `message_memory` is for pairs of a message buffer and a small one, its
  // `lasting_keys` for arenas and kept registrations.
  RdmaPolicy rdma;
  // What arenas (below) are registered for.
  transport::Access arena_access = transport::Access::kLocal;
  // Keep registrations of memory that is in no arena for the next time, as far
  // as `cache` has room. Who owns the memory must call Forget() before it is
  // freed.
  bool keep_registrations = false;
  transport::RegistrationCacheOptions cache;
  // What blocks() are charged to; null: nothing.
  std::shared_ptr<MemoryBudget> budget;
  // What is kept of blocks() while they are not used.
  size_t max_spare_block_bytes = size_t{1} << 20;
};

// Registered memory of all iSER connections of one reactor on one device:
// buffers for messages, and registrations of the memory of tasks. Outlives
// their datamovers. Not thread-safe.
class IserMemory {
 public:
  using Buffer = transport::RegisteredPool::Buffer;

  // Keeps a registration for as long as operations use it.
  class Pin {
   public:
    const transport::MemoryRegion* region() const { return region_; }
    explicit operator bool() const { return region_ != nullptr; }
    transport::Sge Part(const void* data, size_t length) const {
      return {const_cast<void*>(data), length, region_};
    }
    transport::RemoteBuffer Remote(const void* data) const;
    // The key is of no use to the peer once this is gone.
    bool exclusive() const { return own_ != nullptr; }
    // Made for this pin, whoever else will use it.
    bool fresh() const { return fresh_; }
    // Ends it early.
    void Release() {
      region_ = nullptr;
      fresh_ = false;
      if (own_ != nullptr) own_.reset();
      cached_.Release();
    }

   private:
    friend class IserMemory;
    const transport::MemoryRegion* region_ = nullptr;
    bool fresh_ = false;
    std::unique_ptr<transport::MemoryRegion> own_;
    transport::RegistrationCache::Handle cached_;
  };

  // Message buffers that are set apart for one connection, and as many small
  // ones. Where every connection has a share and uses no more than that, what
  // one of them uses is never what another lacks.
  class Share {
   public:
    explicit Share(IserMemory* memory) : memory_(memory) {}
    ~Share() { Release(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Grows to so many. Fails if they are not there, or if the memory cannot
    // be registered, and is as large as before then.
    // So many of other shares count as free, as these will be released before
    // this one is used: `leaving`.
    absl::Status Grow(size_t buffers, size_t leaving = 0);
    // The connection has given all of them back.
    void Release();
    size_t buffers() const { return buffers_; }

   private:
    IserMemory* const memory_;
    size_t buffers_ = 0;
  };

  // An error says what of `domain` does not do for iSER, such as keys that do
  // not fit an STag. `domain` lives as long as anything made from it.
  static absl::StatusOr<std::unique_ptr<IserMemory>> Create(
      transport::MemoryDomain* domain, const IserMemoryOptions& options);
  IserMemory(const IserMemory&) = delete;
  IserMemory& operator=(const IserMemory&) = delete;

  transport::MemoryDomain* domain() const { return domain_; }
  const IserMemoryOptions& options() const { return options_; }
  // For data that have to be copied; not registered.
  BlockPool* blocks() { return &blocks_; }

  // Registers long-lived memory as a whole, so that what lies in it is never
  // registered again: a medium, a pool. `owner` is held until the memory is
  // dropped, which happens at a later AddArena() or Forget() when nobody else
  // holds it.
  // Adding what is there does nothing. What is refused is not kept either, as
  // long as `owner` lives: nobody has to Forget() it.
  absl::Status AddArena(void* data, size_t size,
                        std::shared_ptr<const void> owner);
  // Into an empty `pin`, a registration of this range with this access: an
  // arena's if it lies in one, and `exclusive` is false; a kept one; otherwise
  // one of its own that ends with the pin.
  absl::Status Get(const void* data, size_t size, transport::Access access,
                   bool exclusive, Pin* pin) {
    if (!exclusive) {
      pin->region_ = FindArena(reinterpret_cast<uintptr_t>(data), size, access);
      if (pin->region_ != nullptr) return absl::OkStatus();
    }
    return Register(data, size, access, exclusive, pin);
  }
  // The arena's registration for local use, or null if it lies in none.
  const transport::MemoryRegion* ArenaOf(const void* data, size_t size) const {
    return FindArena(reinterpret_cast<uintptr_t>(data), size,
                     transport::Access::kLocal);
  }
  // The memory is about to be freed or mapped anew: it is not found any more,
  // and deregistered, where pins use it when these are gone.
  void Forget(const void* data, size_t size);

  // Buffers of kIserMessageBytes, and of kSmallBytes; empty if there is
  // none left, which cannot be within a share.
  Buffer GetMessageBuffer() { return GetBuffer(large_.get()); }
  Buffer GetSmallBuffer() { return GetBuffer(small_.get()); }
  static constexpr size_t kSmallBytes = 512;
  // What a buffer of a share takes of message_memory.
  static constexpr size_t kPairBytes = kIserMessageBytes + kSmallBytes;

  // Registrations that were made for one pin alone.
  uint64_t single_registrations() const { return single_registrations_; }

 private:
  struct Arena {
    std::unique_ptr<transport::MemoryRegion> region;
    std::shared_ptr<const void> owner;
  };
  // What an arena is asked for again and again, without asking its region.
  struct Known {
    uintptr_t begin = 0;
    size_t size = 0;
    uint32_t access = 0;
    const transport::MemoryRegion* region = nullptr;

    bool Serves(uintptr_t from, size_t length, transport::Access wanted) const {
      const size_t offset = from - begin;
      return offset < size && length <= size - offset &&
             (static_cast<uint32_t>(wanted) & ~access) == 0;
    }
  };

  // Memory that was to be an arena.
  struct Refused {
    uintptr_t begin = 0;
    size_t size = 0;
    std::weak_ptr<const void> owner;
  };

  IserMemory(transport::MemoryDomain* domain, const IserMemoryOptions& options);
  absl::Status AddNewArena(void* data, size_t size,
                           std::shared_ptr<const void> owner);
  void DropOrphans();
  // Takes it out of the cache.
  void Invalidate(const void* data, size_t size);
  bool MayKeep(const void* data, size_t size) const;
  Buffer GetBuffer(transport::RegisteredPool* pool) {
    Buffer buffer = pool->Get();
    return buffer ? std::move(buffer) : GetAfterGrowth(pool);
  }
  Buffer GetAfterGrowth(transport::RegisteredPool* pool);
  absl::Status Grow(transport::RegisteredPool* pool, size_t buffers);
  // A target's data are in one arena mostly: the last one is looked at first.
  const transport::MemoryRegion* FindArena(uintptr_t begin, size_t size,
                                           transport::Access access) const {
    return last_arena_.Serves(begin, size, access)
               ? last_arena_.region
               : SearchArena(begin, size, access);
  }
  const transport::MemoryRegion* SearchArena(uintptr_t begin, size_t size,
                                             transport::Access access) const;
  absl::Status Register(const void* data, size_t size, transport::Access access,
                        bool exclusive, Pin* pin);
  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> RegisterAlone(
      void* data, size_t size, transport::Access access);
  absl::StatusOr<bool> FindKept(void* data, size_t size,
                                transport::Access access, Pin* pin);

  transport::MemoryDomain* const domain_;
  const IserMemoryOptions options_;  // Its budget outlives the blocks.
  BlockPool blocks_;
  std::unique_ptr<transport::RegisteredPool> large_;
  std::unique_ptr<transport::RegisteredPool> small_;
  std::unique_ptr<transport::RegistrationCache> cache_;
  size_t max_buffers_ = 0;
  // Those of all shares. More than there are while one is to follow another.
  size_t shared_buffers_ = 0;
  std::map<uintptr_t, Arena> arenas_;  // By their first byte; disjoint.
  mutable Known last_arena_;
  std::vector<Refused> refused_;
  uint64_t single_registrations_ = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_ISER_ISER_MEMORY_H_
