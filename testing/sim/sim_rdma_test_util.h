#ifndef SKIFF_TESTING_SIM_SIM_RDMA_TEST_UTIL_H_
#define SKIFF_TESTING_SIM_SIM_RDMA_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_test_util.h"
#include "transport/rdma_endpoint.h"

namespace skiff::testing {

using RdmaPair = SimPair<transport::RdmaEndpoint>;

// Makes every endpoint of these options complete on one queue, which exists
// from the first of them on.
inline std::shared_ptr<std::shared_ptr<transport::CompletionQueue>> ShareQueue(
    transport::Reactor* reactor, transport::ConnectOptions* options,
    uint32_t entries = 4096) {
  auto queue = std::make_shared<std::shared_ptr<transport::CompletionQueue>>();
  options->resources = [=](transport::MemoryDomain& domain)
      -> absl::StatusOr<transport::EndpointResources> {
    if (*queue == nullptr) {
      auto created = domain.CreateCompletionQueue(reactor, entries);
      if (!created.ok()) return created.status();
      *queue = *std::move(created);
    }
    transport::EndpointResources resources;
    resources.completion_queue = queue->get();
    return resources;
  };
  return queue;
}

// One end of a connection, and its completions.
class RdmaParty {
 public:
  RdmaParty(SimWorld* world, transport::RdmaEndpoint* endpoint)
      : world_(world), endpoint_(endpoint) {}

  transport::RdmaEndpoint* endpoint() const { return endpoint_; }

  // Waits for the next completion.
  transport::Completion Next() {
    transport::Completion completion;
    EXPECT_TRUE(world_->RunUntil(
        [&] {
          return endpoint_->completion_queue()->Poll({&completion, 1}) == 1;
        },
        absl::Hours(1)))
        << "no completion comes";
    return completion;
  }

  // Nothing completes any more.
  bool Idle() {
    world_->RunFor(absl::Minutes(1));
    transport::Completion completion;
    return endpoint_->completion_queue()->Poll({&completion, 1}) == 0;
  }

 private:
  SimWorld* const world_;
  transport::RdmaEndpoint* const endpoint_;
};

// Registered memory of one party.
class Buffer {
 public:
  Buffer(RdmaParty* party, size_t size, char fill,
         transport::Access access = transport::Access::kLocal)
      : memory_(size, fill),
        region_(party->endpoint()
                    ->domain()
                    ->Register(memory_.data(), size, access)
                    .value()) {}

  char* data() { return memory_.data(); }
  std::string text() const { return {memory_.begin(), memory_.end()}; }
  const transport::MemoryRegion* region() const { return region_.get(); }

  transport::Sge Part(size_t offset, size_t length) {
    return {memory_.data() + offset, length, region_.get()};
  }
  // Lists of one entry; valid until the next call.
  absl::Span<const transport::Sge> Parts(size_t offset, size_t length) {
    part_ = Part(offset, length);
    return {&part_, 1};
  }
  absl::Span<const transport::Sge> All() { return Parts(0, memory_.size()); }
  transport::RemoteBuffer Remote(size_t offset) const {
    return {region_->remote_base() + offset, region_->remote_key()};
  }

 private:
  std::vector<char> memory_;
  const std::unique_ptr<transport::MemoryRegion> region_;
  transport::Sge part_;
};

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_SIM_SIM_RDMA_TEST_UTIL_H_
