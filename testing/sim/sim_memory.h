#ifndef SKIFF_TESTING_SIM_SIM_MEMORY_H_
#define SKIFF_TESTING_SIM_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "testing/sim/sim_world.h"
#include "transport/memory.h"
#include "transport/rdma_endpoint.h"

namespace skiff::testing {

class SimRegion;

// The protection domain of one simulated host. Unlike its interface, not
// thread-safe: a SimWorld has one thread.
class SimDomain final : public transport::MemoryDomain,
                        public std::enable_shared_from_this<SimDomain> {
 public:
  // `key_bits` wide keys; `zero_based`: peers count from the start of a region.
  SimDomain(SimWorld* world, int key_bits, bool zero_based)
      : world_(world), key_bits_(key_bits), zero_based_(zero_based) {}

  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> Register(
      void* data, size_t size, transport::Access access) override;

  // The memory that a peer names, or null if the key, the bounds or the
  // permission is wrong.
  char* Find(transport::RemoteBuffer buffer, size_t size,
             transport::Access need) const;
  // The region of a key that peers may use, or null.
  const SimRegion* FindKey(transport::RemoteKey key) const;
  // Takes the key out of use; false if it was not in use.
  bool Invalidate(transport::RemoteKey key);

  size_t regions() const { return regions_; }

 private:
  friend class SimRegion;

  SimWorld* const world_;
  const int key_bits_;
  const bool zero_based_;
  uint64_t next_index_ = 1;
  size_t regions_ = 0;
  std::map<uint64_t, const SimRegion*> keys_;  // Those in use.
};

class SimRegion final : public transport::MemoryRegion {
 public:
  SimRegion(std::shared_ptr<SimDomain> domain, void* data, size_t size,
            transport::Access access, transport::RemoteKey key, uint64_t base);
  ~SimRegion() override;

  void* data() const override { return data_; }
  size_t size() const override { return size_; }
  transport::Access access() const override { return access_; }
  transport::RemoteKey remote_key() const override { return key_; }
  uint64_t remote_base() const override { return base_; }

  const SimDomain* domain() const { return domain_.get(); }

 private:
  const std::shared_ptr<SimDomain> domain_;
  void* const data_;
  const size_t size_;
  const transport::Access access_;
  const transport::RemoteKey key_;
  const uint64_t base_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_MEMORY_H_
