#ifndef SKIFF_TRANSPORT_MEMORY_MEMORY_TEST_UTIL_H_
#define SKIFF_TRANSPORT_MEMORY_MEMORY_TEST_UTIL_H_

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_memory.h"
#include "testing/sim/sim_rdma.h"
#include "testing/sim/sim_world.h"
#include "transport/memory.h"

namespace skiff::testing {

// The simulated domain, with a limit on what can be registered, as
// RLIMIT_MEMLOCK is one.
class LimitedDomain final : public transport::MemoryDomain {
 public:
  LimitedDomain()
      : world_(1),
        sim_(std::make_shared<SimDomain>(
            &world_, "here", SimRdmaOptions::InfiniBand().capabilities,
            /*zero_based=*/false)) {}

  const transport::Capabilities& capabilities() const override {
    return sim_->capabilities();
  }
  std::string name() const override { return sim_->name(); }
  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> Register(
      void* data, size_t size, transport::Access access) override {
    ++calls;
    if (size > limit - locked_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          name(), ": cannot lock ", size, " bytes; raise ulimit -l"));
    }
    auto region = sim_->Register(data, size, access);
    if (!region.ok()) return region.status();
    return std::make_unique<Region>(this, *std::move(region));
  }

  size_t regions() const { return sim_->regions(); }
  size_t locked() const { return locked_; }

  size_t limit = std::numeric_limits<size_t>::max();
  int calls = 0;

 private:
  class Region final : public transport::MemoryRegion {
   public:
    Region(LimitedDomain* domain,
           std::unique_ptr<transport::MemoryRegion> region)
        : MemoryRegion(domain), domain_(domain), region_(std::move(region)) {
      domain_->locked_ += region_->size();
    }
    ~Region() override { domain_->locked_ -= region_->size(); }
    void* data() const override { return region_->data(); }
    size_t size() const override { return region_->size(); }
    transport::Access access() const override { return region_->access(); }
    transport::RemoteKey remote_key() const override {
      return region_->remote_key();
    }
    uint64_t remote_base() const override { return region_->remote_base(); }

   private:
    LimitedDomain* const domain_;
    const std::unique_ptr<transport::MemoryRegion> region_;
  };

  SimWorld world_;
  const std::shared_ptr<SimDomain> sim_;
  size_t locked_ = 0;
};

// Whether `check` holds in a fork of this process.
inline bool HoldsInChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child &&
         WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace skiff::testing

#endif  // SKIFF_TRANSPORT_MEMORY_MEMORY_TEST_UTIL_H_
