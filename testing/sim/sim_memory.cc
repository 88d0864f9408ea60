#include "testing/sim/sim_memory.h"

#include <utility>

#include "absl/status/status.h"

namespace skiff::testing {

using transport::Access;
using transport::RemoteBuffer;
using transport::RemoteKey;

absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> SimDomain::Register(
    void* data, size_t size, Access access) {
  if (data == nullptr || size == 0) {
    return absl::InvalidArgumentError(
        "cannot register memory: it is empty or at the null address");
  }
  // Like hardware: an index that is not soon used again, and a few bits of
  // chance, so that a guessed or stale key does not work.
  RemoteKey key;
  key.value = next_index_++ << 8 | world_->random().Below(256);
  if (key_bits_ < 64) key.value &= (uint64_t{1} << key_bits_) - 1;
  const uint64_t base = zero_based_ ? 0 : reinterpret_cast<uintptr_t>(data);
  auto region = std::make_unique<SimRegion>(shared_from_this(), data, size,
                                            access, key, base);
  keys_[key.value] = region.get();
  ++regions_;
  return region;
}

const SimRegion* SimDomain::FindKey(RemoteKey key) const {
  auto found = keys_.find(key.value);
  return found == keys_.end() ? nullptr : found->second;
}

char* SimDomain::Find(RemoteBuffer buffer, size_t size, Access need) const {
  const SimRegion* region = FindKey(buffer.key);
  if (region == nullptr || !Has(region->access(), need) ||
      buffer.address < region->remote_base()) {
    return nullptr;
  }
  const uint64_t offset = buffer.address - region->remote_base();
  if (offset > region->size() || size > region->size() - offset) {
    return nullptr;
  }
  return static_cast<char*>(region->data()) + offset;
}

bool SimDomain::Invalidate(RemoteKey key) { return keys_.erase(key.value) > 0; }

SimRegion::SimRegion(std::shared_ptr<SimDomain> domain, void* data, size_t size,
                     Access access, RemoteKey key, uint64_t base)
    : domain_(std::move(domain)),
      data_(data),
      size_(size),
      access_(access),
      key_(key),
      base_(base) {}

SimRegion::~SimRegion() {
  --domain_->regions_;
  if (domain_->FindKey(key_) == this) domain_->keys_.erase(key_.value);
}

}  // namespace skiff::testing
