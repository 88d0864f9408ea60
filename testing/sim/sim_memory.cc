#include "testing/sim/sim_memory.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "testing/sim/sim_completion_queue.h"
#include "testing/sim/sim_shared_receive_queue.h"

namespace skiff::testing {

using transport::Access;
using transport::RemoteBuffer;
using transport::RemoteKey;

namespace {

constexpr uint32_t kMaxQueueEntries = 1 << 20;

}  // namespace

// Like hardware: an index that is not soon used again, and a few bits of
// chance, so that a guessed or stale key does not work.
RemoteKey SimDomain::NewKey() {
  RemoteKey key;
  key.value = next_index_++ << 8 | world_->random().Below(256);
  const int key_bits = capabilities_.remote_key_bits;
  if (key_bits < 64) key.value &= (uint64_t{1} << key_bits) - 1;
  return key;
}

absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> SimDomain::Register(
    void* data, size_t size, Access access) {
  if (data == nullptr || size == 0) {
    return absl::InvalidArgumentError(
        "cannot register memory: it is empty or at the null address");
  }
  if (lockable_bytes_ != nullptr) {
    if (size > *lockable_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name(), " cannot lock ", size, " bytes more"));
    }
    *lockable_bytes_ -= size;
  }
  const RemoteKey key = NewKey();
  const uint64_t base = zero_based_ ? 0 : reinterpret_cast<uintptr_t>(data);
  auto region = std::make_unique<SimRegion>(shared_from_this(), data, size,
                                            access, key, base);
  grants_[key.value] = {
      region.get(), region.get(), nullptr, static_cast<char*>(data),
      size,         base,         access};
  ++regions_;
  return region;
}

absl::StatusOr<std::unique_ptr<transport::MemoryWindow>>
SimDomain::AllocateWindow() {
  if (!capabilities_.memory_windows) return MemoryDomain::AllocateWindow();
  return std::make_unique<SimWindow>(shared_from_this());
}

absl::StatusOr<std::shared_ptr<transport::CompletionQueue>>
SimDomain::CreateCompletionQueue(transport::Reactor* reactor,
                                 uint32_t entries) {
  auto* sim_reactor = dynamic_cast<SimReactor*>(reactor);
  if (sim_reactor == nullptr || sim_reactor->world() != world_) {
    return absl::InvalidArgumentError(
        "a simulated completion queue needs a SimReactor of its world");
  }
  if (entries == 0 || entries > kMaxQueueEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " has completion queues of 1 to ",
                     kMaxQueueEntries, " entries, not of ", entries));
  }
  return std::make_shared<SimCompletionQueue>(sim_reactor, entries);
}

absl::StatusOr<std::shared_ptr<transport::SharedReceiveQueue>>
SimDomain::CreateSharedReceiveQueue(transport::Reactor* reactor,
                                    uint32_t entries, uint32_t max_sges) {
  if (!capabilities_.shared_receive_queue) {
    return MemoryDomain::CreateSharedReceiveQueue(reactor, entries, max_sges);
  }
  auto* sim_reactor = dynamic_cast<SimReactor*>(reactor);
  if (sim_reactor == nullptr || sim_reactor->world() != world_) {
    return absl::InvalidArgumentError(
        "a simulated receive queue needs a SimReactor of its world");
  }
  if (entries == 0 || entries > kMaxQueueEntries ||
      max_sges > capabilities_.max_receive_sges) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), " has shared receive queues of 1 to ", kMaxQueueEntries,
        " entries of at most ", capabilities_.max_receive_sges,
        " scatter entries, not of ", entries, " with ", max_sges));
  }
  return std::make_shared<SimSharedReceiveQueue>(shared_from_this(),
                                                 sim_reactor, entries);
}

const SimDomain::Grant* SimDomain::FindGrant(SimQueuePairId queue_pair,
                                             RemoteKey key) const {
  auto found = grants_.find(key.value);
  if (found == grants_.end()) return nullptr;
  const Grant& grant = found->second;
  const bool allowed =
      grant.queue_pair == nullptr || grant.queue_pair == queue_pair;
  return allowed ? &grant : nullptr;
}

char* SimDomain::Find(SimQueuePairId queue_pair, RemoteBuffer buffer,
                      size_t size, Access need, bool check_bounds) const {
  const Grant* grant = FindGrant(queue_pair, buffer.key);
  if (grant == nullptr || !Has(grant->access, need)) return nullptr;
  const uint64_t offset = buffer.address - grant->base;
  if (check_bounds && (buffer.address < grant->base || offset > grant->size ||
                       size > grant->size - offset)) {
    return nullptr;
  }
  // Without the check it may lie before the start.
  return grant->data + static_cast<int64_t>(offset);
}

template <typename Condition>
void SimDomain::RemoveGrants(Condition condition) {
  for (auto it = grants_.begin(); it != grants_.end();) {
    it = condition(it->second) ? grants_.erase(it) : std::next(it);
  }
}

bool SimDomain::Invalidate(SimQueuePairId queue_pair, RemoteKey key) {
  if (FindGrant(queue_pair, key) == nullptr) return false;
  grants_.erase(key.value);
  return true;
}

bool SimDomain::InvalidateWindow(SimQueuePairId queue_pair, RemoteKey key) {
  const Grant* grant = FindGrant(queue_pair, key);
  if (grant == nullptr || grant->queue_pair == nullptr) return false;
  grants_.erase(key.value);
  return true;
}

bool SimDomain::Bind(SimQueuePairId queue_pair, const SimWindow& window,
                     RemoteKey key, const SimRegion& region, size_t offset,
                     size_t length, Access access) {
  const uint32_t wanted = static_cast<uint32_t>(access);
  const uint32_t given = static_cast<uint32_t>(region.access());
  if (region.domain() != this || window.domain() != this || length == 0 ||
      offset > region.size() || length > region.size() - offset ||
      (wanted & ~given) != 0) {
    return false;
  }
  // A window that is bound has to be invalidated first.
  for (const auto& [value, grant] : grants_) {
    if (grant.owner == &window) return false;
  }
  grants_[key.value] = {&window,    &region,
                        queue_pair, static_cast<char*>(region.data()) + offset,
                        length,     region.remote_base() + offset,
                        access};
  return true;
}

void SimDomain::Outlast(RemoteKey key) {
  Grant& grant = grants_.at(key.value);
  grant.owner = grant.region;
}

void SimDomain::RemoveQueuePair(SimQueuePairId queue_pair) {
  RemoveGrants([&](const Grant& grant) {
    return grant.queue_pair != nullptr && grant.queue_pair == queue_pair;
  });
}

SimRegion::SimRegion(std::shared_ptr<SimDomain> domain, void* data, size_t size,
                     Access access, RemoteKey key, uint64_t base)
    : MemoryRegion(domain.get()),
      domain_(std::move(domain)),
      data_(data),
      size_(size),
      access_(access),
      key_(key),
      base_(base) {}

SimRegion::~SimRegion() {
  --domain_->regions_;
  if (domain_->lockable_bytes_ != nullptr) *domain_->lockable_bytes_ += size_;
  domain_->RemoveGrants(
      [&](const SimDomain::Grant& grant) { return grant.owner == this; });
  for (const auto& [key, grant] : domain_->grants_) {
    if (grant.region != this) continue;
    std::fprintf(stderr,
                 "simulated memory of %zu bytes is deregistered while "
                 "a window is bound to it\n",
                 size_);
    std::abort();
  }
}

SimWindow::~SimWindow() {
  domain_->RemoveGrants(
      [&](const SimDomain::Grant& grant) { return grant.owner == this; });
}

}  // namespace skiff::testing
