#ifndef SKIFF_TESTING_SIM_SIM_MEMORY_H_
#define SKIFF_TESTING_SIM_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "testing/sim/sim_world.h"
#include "transport/memory.h"
#include "transport/rdma_endpoint.h"

namespace skiff::testing {

class SimRegion;
class SimWindow;

// One end of one connection; windows are bound for it alone.
using SimQueuePairId = const void*;

// The protection domain of one simulated host. Unlike its interface, not
// thread-safe: a SimWorld has one thread.
class SimDomain final : public transport::MemoryDomain,
                        public std::enable_shared_from_this<SimDomain> {
 public:
  // `zero_based`: peers count from the start of a region. Regions take their
  // bytes from `lockable_bytes`, and are refused where there are too few.
  SimDomain(SimWorld* world, std::string host,
            const transport::Capabilities& capabilities, bool zero_based,
            std::shared_ptr<size_t> lockable_bytes = nullptr)
      : world_(world),
        host_(std::move(host)),
        capabilities_(capabilities),
        zero_based_(zero_based),
        lockable_bytes_(std::move(lockable_bytes)) {}

  const transport::Capabilities& capabilities() const override {
    return capabilities_;
  }
  std::string name() const override { return "simulated host " + host_; }
  // What was made of it goes on to work: only who asks hears of it.
  void SetRemoved() { removed_ = true; }
  bool removed() const override { return removed_; }

  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> Register(
      void* data, size_t size, transport::Access access) override;
  absl::StatusOr<std::unique_ptr<transport::MemoryWindow>> AllocateWindow()
      override;
  absl::StatusOr<std::shared_ptr<transport::CompletionQueue>>
  CreateCompletionQueue(transport::Reactor* reactor, uint32_t entries) override;
  absl::StatusOr<std::shared_ptr<transport::SharedReceiveQueue>>
  CreateSharedReceiveQueue(transport::Reactor* reactor, uint32_t entries,
                           uint32_t max_sges) override;

  // The memory that the peer of `queue_pair` names, or null if the key, the
  // bounds or the permission is wrong. `check_bounds` false leaves those out.
  char* Find(SimQueuePairId queue_pair, transport::RemoteBuffer buffer,
             size_t size, transport::Access need,
             bool check_bounds = true) const;
  // Takes the key out of use; false if `queue_pair` may not use it.
  bool Invalidate(SimQueuePairId queue_pair, transport::RemoteKey key);
  // The same, for keys of windows only.
  bool InvalidateWindow(SimQueuePairId queue_pair, transport::RemoteKey key);
  bool Bind(SimQueuePairId queue_pair, const SimWindow& window,
            transport::RemoteKey key, const SimRegion& region, size_t offset,
            size_t length, transport::Access access);
  // The key ends with the memory, and no more with its window.
  void Outlast(transport::RemoteKey key);
  // The queue pair is gone, and with it what was bound on it.
  void RemoveQueuePair(SimQueuePairId queue_pair);

  transport::RemoteKey NewKey();
  size_t regions() const { return regions_; }

 private:
  friend class SimRegion;
  friend class SimWindow;

  // What a key in use stands for.
  struct Grant {
    const void* owner;          // The region or the window.
    const SimRegion* region;    // Where the memory is.
    SimQueuePairId queue_pair;  // Null: for all.
    char* data;
    size_t size;
    uint64_t base;
    transport::Access access;
  };

  const Grant* FindGrant(SimQueuePairId queue_pair,
                         transport::RemoteKey key) const;
  template <typename Condition>
  void RemoveGrants(Condition condition);

  SimWorld* const world_;
  const std::string host_;
  const transport::Capabilities capabilities_;
  const bool zero_based_;
  const std::shared_ptr<size_t> lockable_bytes_;
  uint64_t next_index_ = 1;
  size_t regions_ = 0;
  bool removed_ = false;
  std::map<uint64_t, Grant> grants_;  // By key.
};

class SimRegion final : public transport::MemoryRegion {
 public:
  SimRegion(std::shared_ptr<SimDomain> domain, void* data, size_t size,
            transport::Access access, transport::RemoteKey key, uint64_t base);
  // No window may be bound to it, as devices then refuse to deregister it.
  ~SimRegion() override;

  void* data() const override { return data_; }
  size_t size() const override { return size_; }
  transport::Access access() const override { return access_; }
  transport::RemoteKey remote_key() const override { return key_; }
  uint64_t remote_base() const override { return base_; }

 private:
  const std::shared_ptr<SimDomain> domain_;
  void* const data_;
  const size_t size_;
  const transport::Access access_;
  const transport::RemoteKey key_;
  const uint64_t base_;
};

class SimWindow final : public transport::MemoryWindow {
 public:
  explicit SimWindow(std::shared_ptr<SimDomain> domain)
      : domain_(std::move(domain)) {}
  ~SimWindow() override;

  transport::RemoteKey remote_key() const override { return key_; }
  void set_remote_key(transport::RemoteKey key) { key_ = key; }
  const SimDomain* domain() const { return domain_.get(); }

 private:
  const std::shared_ptr<SimDomain> domain_;
  transport::RemoteKey key_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_MEMORY_H_
