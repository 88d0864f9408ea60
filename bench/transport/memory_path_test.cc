// Getting registered memory allocates nothing once it is there.
#include <memory>
#include <vector>

#include "bench/protocol/count_allocations.h"
#include "bench/transport/null_domain.h"
#include "gtest/gtest.h"
#include "transport/memory/registered_pool.h"
#include "transport/memory/registration_cache.h"

namespace skiff::transport {
namespace {

using protocol::AllocationCount;

TEST(MemoryPathTest, ARegistrationThatIsThereCostsNoAllocation) {
  NullDomain domain;
  RegistrationCache cache(&domain, {});
  std::vector<char> memory(64 << 10);
  const auto use_all = [&] {
    for (size_t at = 0; at < memory.size(); at += 1024) {
      auto handle = cache.Get(&memory[at], 1024, Access::kRemoteWrite);
      ASSERT_TRUE(handle.ok());
    }
  };
  use_all();
  const uint64_t before = AllocationCount();
  use_all();
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(cache.statistics().hits, 64u);
  // The count counts.
  ASSERT_TRUE(cache.Get(&memory[0], 2048, Access::kRemoteWrite).ok());
  EXPECT_GT(AllocationCount(), before);
}

TEST(MemoryPathTest, ABufferThatIsThereCostsNoAllocation) {
  NullDomain domain;
  RegisteredPoolOptions options;
  options.initial_buffers = options.max_buffers = 300;
  auto pool = RegisteredPool::Create(&domain, options).value();
  std::vector<RegisteredPool::Buffer> buffers(301);
  const uint64_t before = AllocationCount();
  for (int round = 0; round < 3; ++round) {
    for (RegisteredPool::Buffer& buffer : buffers) buffer = pool->Get();
    EXPECT_FALSE(buffers.back());  // The limit costs nothing, either.
    for (RegisteredPool::Buffer& buffer : buffers) buffer.Release();
  }
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace skiff::transport
