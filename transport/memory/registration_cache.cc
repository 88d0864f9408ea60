#include "transport/memory/registration_cache.h"

#include <cassert>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::transport {

RegistrationCache::RegistrationCache(MemoryDomain* domain,
                                     const RegistrationCacheOptions& options)
    : domain_(domain), options_(options) {
  unused_.previous = unused_.next = &unused_;
  retired_.previous = retired_.next = &retired_;
}

RegistrationCache::~RegistrationCache() {
  assert(statistics_.pinned_regions == 0 && "a handle outlives its cache");
  for (Tree& tree : trees_) {
    for (const auto& [begin, entry] : tree) Destroy(entry);
  }
}

absl::StatusOr<RegistrationCache::Handle> RegistrationCache::Get(
    void* data, size_t size, Access access) {
  if (fork_detector_.forked()) {
    ++statistics_.failures;
    return absl::FailedPreconditionError(absl::StrCat(
        domain_->name(),
        ": this process was forked, and registrations stay with the parent; "
        "connect anew in the child"));
  }
  const auto begin = reinterpret_cast<uintptr_t>(data);
  Entry* entry = Find(begin, begin + size, static_cast<uint32_t>(access));
  if (entry != nullptr) {
    ++statistics_.hits;
  } else {
    ++statistics_.misses;
    auto added = Add(data, size, access);
    if (!added.ok()) {
      ++statistics_.failures;
      return added.status();
    }
    entry = *added;
  }
  last_ = entry;
  Pin(entry);
  return Handle(this, entry);
}

RegistrationCache::Entry* RegistrationCache::Find(uintptr_t begin,
                                                  uintptr_t end,
                                                  uint32_t access) {
  const auto serves = [&](const Entry* entry) {
    return entry->begin <= begin && end <= entry->end &&
           (access & ~entry->access) == 0;
  };
  if (last_ != nullptr && serves(last_)) return last_;
  for (uint32_t kind = access; kind < kAccessKinds; ++kind) {
    if ((access & ~kind) != 0) continue;
    // Of those that begin early enough, the last one reaches farthest.
    const auto after = trees_[kind].upper_bound(begin);
    if (after == trees_[kind].begin()) continue;
    Entry* const entry = std::prev(after)->second;
    if (serves(entry)) return entry;
  }
  return nullptr;
}

absl::StatusOr<RegistrationCache::Entry*> RegistrationCache::Add(
    void* data, size_t size, Access access) {
  absl::Status status = MakeRoom(size);
  if (!status.ok()) return status;
  auto region = Register(data, size, access);
  if (!region.ok()) return region.status();
  auto* entry = new Entry;
  entry->region = *std::move(region);
  entry->begin = reinterpret_cast<uintptr_t>(data);
  entry->end = entry->begin + size;
  entry->access = static_cast<uint32_t>(access);
  entry->previous = entry->next = entry;
  Tree* const tree = &trees_[entry->access];
  DropContained(tree, entry->begin, entry->end);
  (*tree)[entry->begin] = entry;
  ++statistics_.regions;
  statistics_.bytes += size;
  return entry;
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> RegistrationCache::Register(
    void* data, size_t size, Access access) {
  while (true) {
    auto region = domain_->Register(data, size, access);
    if (region.ok() || !absl::IsResourceExhausted(region.status())) {
      return region;
    }
    // A limit of the machine: as much as is wanted has to be given back before
    // it makes sense to try again.
    const size_t before = statistics_.bytes;
    bool any = false;
    while (before - statistics_.bytes < size && EvictOldest()) any = true;
    if (!any) return region;
  }
}

absl::Status RegistrationCache::MakeRoom(size_t bytes) {
  if (bytes > options_.max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(domain_->name(), ": cannot register ", bytes,
                     " bytes: the registration cache holds at most ",
                     options_.max_bytes, " (max_bytes)"));
  }
  while (statistics_.bytes > options_.max_bytes - bytes ||
         statistics_.regions >= options_.max_regions) {
    if (EvictOldest()) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        domain_->name(), ": cannot register ", bytes,
        " bytes more: operations use ", statistics_.bytes, " of ",
        options_.max_bytes, " bytes (max_bytes) and ", statistics_.regions,
        " of ", options_.max_regions,
        " regions (max_regions) of the registration cache; raise these, or "
        "have fewer operations under way"));
  }
  return absl::OkStatus();
}

bool RegistrationCache::EvictOldest() {
  Entry* const oldest = unused_.next;
  if (oldest == &unused_) return false;
  ++statistics_.evictions;
  Drop(oldest);
  return true;
}

bool RegistrationCache::EvictUnused() {
  bool any = false;
  while (EvictOldest()) any = true;
  return any;
}

void RegistrationCache::Drop(Entry* entry) {
  trees_[entry->access].erase(entry->begin);
  entry->cached = false;
  if (last_ == entry) last_ = nullptr;
  if (entry->pins == 0) {
    Destroy(entry);
  } else {
    Append(&retired_, entry);
  }
}

void RegistrationCache::Destroy(Entry* entry) {
  Unlink(entry);
  --statistics_.regions;
  statistics_.bytes -= entry->end - entry->begin;
  // In a child the device would take it from the parent.
  if (fork_detector_.forked()) static_cast<void>(entry->region.release());
  delete entry;
}

void RegistrationCache::DropContained(Tree* tree, uintptr_t begin,
                                      uintptr_t end) {
  auto it = tree->lower_bound(begin);
  while (it != tree->end() && it->second->end <= end) {
    Drop(it->second);
    it = tree->lower_bound(begin);
  }
}

void RegistrationCache::DropOverlapping(Tree* tree, uintptr_t begin,
                                        uintptr_t end) {
  while (true) {
    // The last one that begins before `end` reaches farthest of all those.
    const auto after = tree->lower_bound(end);
    if (after == tree->begin()) return;
    Entry* const entry = std::prev(after)->second;
    if (entry->end <= begin) return;
    ++statistics_.invalidations;
    Drop(entry);
  }
}

size_t RegistrationCache::Invalidate(const void* data, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = begin + size;
  for (Tree& tree : trees_) DropOverlapping(&tree, begin, end);
  size_t in_use = 0;
  for (const Entry* entry = retired_.next; entry != &retired_;
       entry = entry->next) {
    if (entry->begin < end && begin < entry->end) ++in_use;
  }
  return in_use;
}

void RegistrationCache::Pin(Entry* entry) {
  if (entry->pins++ != 0) return;
  Unlink(entry);
  ++statistics_.pinned_regions;
}

void RegistrationCache::Unpin(Entry* entry) {
  if (--entry->pins != 0) return;
  --statistics_.pinned_regions;
  if (!entry->cached) {
    Destroy(entry);
    return;
  }
  Append(&unused_, entry);
}

void RegistrationCache::Append(Entry* list, Entry* entry) {
  entry->previous = list->previous;
  entry->next = list;
  entry->previous->next = entry;
  list->previous = entry;
}

void RegistrationCache::Unlink(Entry* entry) {
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
  entry->previous = entry->next = entry;
}

}  // namespace skiff::transport
