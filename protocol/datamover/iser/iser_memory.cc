#include "protocol/datamover/iser/iser_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::protocol {

using transport::RegisteredPool;
using transport::RegisteredPoolOptions;

transport::RemoteBuffer IserMemory::Pin::Remote(const void* data) const {
  return {
      region_->remote_base() + (reinterpret_cast<uintptr_t>(data) -
                                reinterpret_cast<uintptr_t>(region_->data())),
      region_->remote_key()};
}

IserMemory::IserMemory(transport::MemoryDomain* domain,
                       const IserMemoryOptions& options)
    : domain_(domain),
      options_(options),
      blocks_(options.max_spare_block_bytes, options.budget.get()),
      max_buffers_(options.rdma.message_memory / kPairBytes) {
  if (options.keep_registrations) {
    cache_ =
        std::make_unique<transport::RegistrationCache>(domain, options.cache);
  }
}

absl::StatusOr<std::unique_ptr<IserMemory>> IserMemory::Create(
    transport::MemoryDomain* domain, const IserMemoryOptions& options) {
  const transport::Capabilities& can = domain->capabilities();
  if (can.remote_key_bits > 32) {
    return absl::FailedPreconditionError(absl::StrCat(
        domain->name(), " has keys of ", can.remote_key_bits,
        " bits, and an iSER STag has 32: use another device or provider"));
  }
  if (can.max_message_bytes < kIserMessageBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        domain->name(), " sends messages of at most ", can.max_message_bytes,
        " bytes, and iSER needs ", kIserMessageBytes));
  }
  std::unique_ptr<IserMemory> memory(new IserMemory(domain, options));
  RegisteredPoolOptions large;
  large.buffer_bytes = kIserMessageBytes;
  large.max_buffers = memory->max_buffers_;
  large.initial_buffers = 1;  // So that the domain stays.
  RegisteredPoolOptions small = large;
  small.buffer_bytes = kSmallBytes;
  small.slab_bytes = size_t{128} << 10;
  for (auto [pool, pool_options] :
       {std::pair(&memory->large_, large), std::pair(&memory->small_, small)}) {
    auto created = RegisteredPool::Create(domain, pool_options);
    if (!created.ok()) return created.status();
    *pool = *std::move(created);
  }
  return memory;
}

absl::Status IserMemory::Share::Grow(size_t buffers, size_t leaving) {
  if (buffers <= buffers_) return absl::OkStatus();
  const size_t all = memory_->max_buffers_;
  const size_t others = memory_->shared_buffers_ - buffers_;
  if (others + buffers > all + leaving) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a connection needs ", buffers, " buffers for messages, and of ", all,
        " there are ", all - std::min(all, others),
        " left: raise message_memory"));
  }
  for (RegisteredPool* const pool :
       {memory_->large_.get(), memory_->small_.get()}) {
    absl::Status grown = memory_->Grow(pool, std::min(all, others + buffers));
    if (!grown.ok()) return grown;
  }
  memory_->shared_buffers_ = others + buffers;
  buffers_ = buffers;
  return absl::OkStatus();
}

void IserMemory::Share::Release() {
  memory_->shared_buffers_ -= buffers_;
  buffers_ = 0;
}

// What is kept gives way, and what failed before may work now.
absl::Status IserMemory::Grow(transport::RegisteredPool* pool, size_t buffers) {
  absl::Status grown = pool->Reserve(buffers);
  if (!absl::IsResourceExhausted(grown) || cache_ == nullptr ||
      !cache_->EvictUnused()) {
    return grown;
  }
  return pool->Reserve(buffers);
}

IserMemory::Buffer IserMemory::GetAfterGrowth(transport::RegisteredPool* pool) {
  if (pool->growth_error().ok()) return {};  // All are in use.
  return Grow(pool, pool->made() + 1).ok() ? pool->Get() : Buffer();
}

absl::Status IserMemory::AddArena(void* data, size_t size,
                                  std::shared_ptr<const void> owner) {
  DropOrphans();
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (FindArena(begin, size, options_.arena_access) != nullptr) {
    return absl::OkStatus();
  }
  // What is kept of it now would be found when the arena has gone.
  Forget(data, size);
  const std::weak_ptr<const void> lives = owner;
  absl::Status added = AddNewArena(data, size, std::move(owner));
  std::erase_if(refused_, [begin](const Refused& refused) {
    return refused.begin == begin || refused.owner.expired();
  });
  if (!added.ok() && cache_ != nullptr) {
    refused_.push_back({begin, size, lives});
  }
  return added;
}

absl::Status IserMemory::AddNewArena(void* data, size_t size,
                                     std::shared_ptr<const void> owner) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  // Operations may be under way in what overlaps it: its owner lives.
  const auto next = arenas_.lower_bound(begin);
  const bool reaches_next = next != arenas_.end() && next->first < begin + size;
  if (reaches_next ||
      (next != arenas_.begin() &&
       std::prev(next)->first + std::prev(next)->second.region->size() >
           begin)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "a part of these ", size, " bytes of memory is registered already"));
  }
  auto region = RegisterAlone(data, size, options_.arena_access);
  if (!region.ok()) return region.status();
  arenas_[begin] = {*std::move(region), std::move(owner)};
  return absl::OkStatus();
}

void IserMemory::DropOrphans() {
  last_arena_ = {};
  for (auto at = arenas_.begin(); at != arenas_.end();) {
    if (at->second.owner.use_count() > 1) {
      ++at;
      continue;
    }
    // Of what began or ended outside of it, and was no part, therefore.
    const transport::MemoryRegion& region = *at->second.region;
    Invalidate(region.data(), region.size());
    at = arenas_.erase(at);
  }
}

bool IserMemory::MayKeep(const void* data, size_t size) const {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return std::none_of(
      refused_.begin(), refused_.end(), [begin, size](const Refused& refused) {
        return begin < refused.begin + refused.size &&
               refused.begin < begin + size && !refused.owner.expired();
      });
}

const transport::MemoryRegion* IserMemory::SearchArena(
    uintptr_t begin, size_t size, transport::Access access) const {
  auto at = arenas_.upper_bound(begin);
  if (at == arenas_.begin()) return nullptr;
  const transport::MemoryRegion& region = *(--at)->second.region;
  const Known arena = {at->first, region.size(),
                       static_cast<uint32_t>(region.access()), &region};
  if (!arena.Serves(begin, size, access)) return nullptr;
  last_arena_ = arena;
  return &region;
}

absl::Status IserMemory::Register(const void* data, size_t size,
                                  transport::Access access, bool exclusive,
                                  Pin* pin) {
  auto* const memory = const_cast<void*>(data);
  if (!exclusive && cache_ != nullptr && MayKeep(memory, size)) {
    const absl::StatusOr<bool> found = FindKept(memory, size, access, pin);
    if (!found.ok() || *found) return found.status();
  }
  auto region = RegisterAlone(memory, size, access);
  if (!region.ok()) return region.status();
  ++single_registrations_;
  pin->own_ = *std::move(region);
  pin->region_ = pin->own_.get();
  pin->fresh_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<transport::MemoryRegion>>
IserMemory::RegisterAlone(void* data, size_t size, transport::Access access) {
  auto region = domain_->Register(data, size, access);
  // What is only kept gives way.
  if (!absl::IsResourceExhausted(region.status()) || cache_ == nullptr ||
      !cache_->EvictUnused()) {
    return region;
  }
  return domain_->Register(data, size, access);
}

// False where the cache has no room, since commands use all that it may hold.
absl::StatusOr<bool> IserMemory::FindKept(void* data, size_t size,
                                          transport::Access access, Pin* pin) {
  const uint64_t misses = cache_->statistics().misses;
  auto cached = cache_->Get(data, size, access);
  if (absl::IsResourceExhausted(cached.status())) return false;
  if (!cached.ok()) return cached.status();
  pin->cached_ = *std::move(cached);
  pin->region_ = pin->cached_.region();
  pin->fresh_ = cache_->statistics().misses > misses;
  return true;
}

void IserMemory::Forget(const void* data, size_t size) {
  DropOrphans();
  Invalidate(data, size);
}

void IserMemory::Invalidate(const void* data, size_t size) {
  if (cache_ != nullptr) cache_->Invalidate(data, size);
}

}  // namespace skiff::protocol
