#include "transport/memory/registered_pool.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "transport/memory/memory_test_util.h"

namespace skiff::transport {
namespace {

using testing::HoldsInChild;
using testing::LimitedDomain;
using Buffer = RegisteredPool::Buffer;

class RegisteredPoolTest : public ::testing::Test {
 protected:
  // Slabs of four buffers.
  static RegisteredPoolOptions Small() {
    RegisteredPoolOptions options;
    options.buffer_bytes = 1000;
    options.slab_bytes = 4096;
    options.max_buffers = 10;
    return options;
  }
  void Make(const RegisteredPoolOptions& options) {
    auto made = RegisteredPool::Create(&domain_, options);
    ASSERT_TRUE(made.ok()) << made.status();
    pool_ = *std::move(made);
  }

  LimitedDomain domain_;
  std::unique_ptr<RegisteredPool> pool_;
};

TEST_F(RegisteredPoolTest, CutsBuffersFromSlabs) {
  Make(Small());
  EXPECT_EQ(domain_.calls, 0);
  std::vector<Buffer> buffers;
  std::set<char*> seen;
  for (int i = 0; i < 10; ++i) {
    buffers.push_back(pool_->Get());
    const Buffer& buffer = buffers.back();
    ASSERT_TRUE(buffer) << i;
    EXPECT_EQ(buffer.size(), 1000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::memset(buffer.data(), i, buffer.size());
    EXPECT_TRUE(seen.insert(buffer.data()).second);
    // Within its region.
    const Sge sge = buffer.All();
    const auto* slab = static_cast<char*>(sge.region->data());
    EXPECT_GE(buffer.data(), slab);
    EXPECT_LE(buffer.data() + 1000, slab + sge.region->size());
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(buffers[static_cast<size_t>(i)].data()[999], i);
  }
  EXPECT_EQ(domain_.regions(), 3u);
  EXPECT_EQ(pool_->in_use(), 10u);
  // The limit, which is no error.
  EXPECT_FALSE(pool_->Get());
  EXPECT_TRUE(pool_->growth_error().ok());
  EXPECT_EQ(domain_.calls, 3);
}

TEST_F(RegisteredPoolTest, TheLastOneBackComesFirst) {
  Make(Small());
  Buffer first = pool_->Get();
  Buffer second = pool_->Get();
  char* const at = first.data();
  first.Release();
  EXPECT_FALSE(first);
  first = pool_->Get();
  EXPECT_EQ(first.data(), at);
  Buffer moved = std::move(second);
  EXPECT_EQ(pool_->in_use(), 2u);
  moved = Buffer();
  EXPECT_EQ(pool_->in_use(), 1u);
}

TEST_F(RegisteredPoolTest, NamesBuffersToThePeer) {
  RegisteredPoolOptions options = Small();
  options.access = Access::kRemoteWrite;
  Make(options);
  Buffer first = pool_->Get();
  Buffer second = pool_->Get();
  EXPECT_EQ(first.region(), second.region());
  const RemoteBuffer remote = second.Remote(10);
  EXPECT_EQ(remote.key.value, second.region()->remote_key().value);
  EXPECT_EQ(remote.address - first.Remote(0).address,
            static_cast<uint64_t>(second.data() - first.data()) + 10);
  EXPECT_TRUE(Has(second.region()->access(), Access::kRemoteWrite));
}

TEST_F(RegisteredPoolTest, ReservesAheadOfTime) {
  RegisteredPoolOptions options = Small();
  options.initial_buffers = 5;
  Make(options);
  EXPECT_EQ(pool_->made(), 8u);
  EXPECT_TRUE(pool_->Reserve(8).ok());
  EXPECT_EQ(domain_.calls, 2);
  EXPECT_TRUE(pool_->Reserve(10).ok());
  EXPECT_EQ(pool_->made(), 10u);
  EXPECT_TRUE(absl::IsInvalidArgument(pool_->Reserve(11)));
}

TEST_F(RegisteredPoolTest, StopsGrowingWhenTheMachineRunsOut) {
  domain_.limit = 4096;
  Make(Small());
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(pool_->Get());
  EXPECT_FALSE(pool_->Get());
  EXPECT_TRUE(absl::IsResourceExhausted(pool_->growth_error()));
  EXPECT_NE(pool_->growth_error().message().find(
                "cannot grow beyond 4 buffers: simulated host here: cannot "
                "lock 4096 bytes; raise ulimit -l"),
            absl::string_view::npos)
      << pool_->growth_error();
  const int calls = domain_.calls;
  EXPECT_FALSE(pool_->Get());
  EXPECT_EQ(domain_.calls, calls);  // Not at every Get.
  buffers.pop_back();
  EXPECT_TRUE(pool_->Get());
  domain_.limit = 1 << 20;
  EXPECT_TRUE(pool_->Reserve(8).ok());
  buffers.push_back(pool_->Get());
  buffers.push_back(pool_->Get());
  EXPECT_TRUE(buffers.back());
  EXPECT_TRUE(pool_->growth_error().ok());
}

TEST_F(RegisteredPoolTest, FirstBuffersThatCannotBeAreAnError) {
  domain_.limit = 4096;
  RegisteredPoolOptions options = Small();
  options.initial_buffers = 10;
  EXPECT_TRUE(absl::IsResourceExhausted(
      RegisteredPool::Create(&domain_, options).status()));
  EXPECT_EQ(domain_.regions(), 0u);
}

TEST_F(RegisteredPoolTest, BuffersMayBeLargerThanSlabs) {
  RegisteredPoolOptions options = Small();
  options.buffer_bytes = 10000;
  options.alignment = 4096;
  Make(options);
  Buffer first = pool_->Get();
  Buffer second = pool_->Get();
  EXPECT_NE(first.region(), second.region());
  EXPECT_EQ(first.region()->size(), 12288u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second.data()) % 4096, 0u);
}

TEST_F(RegisteredPoolTest, RefusesOptionsThatMakeNoSense) {
  const auto refused = [this](auto change) {
    RegisteredPoolOptions options = Small();
    change(&options);
    return absl::IsInvalidArgument(
        RegisteredPool::Create(&domain_, options).status());
  };
  using Options = RegisteredPoolOptions;
  EXPECT_TRUE(refused([](Options* o) { o->buffer_bytes = 0; }));
  EXPECT_TRUE(refused([](Options* o) { o->buffer_bytes = ~size_t{0}; }));
  EXPECT_TRUE(refused([](Options* o) { o->slab_bytes = ~size_t{0}; }));
  EXPECT_TRUE(refused([](Options* o) { o->max_buffers = 0; }));
  EXPECT_TRUE(refused([](Options* o) { o->max_buffers = size_t{1} << 40; }));
  EXPECT_TRUE(refused([](Options* o) { o->initial_buffers = 11; }));
  EXPECT_TRUE(refused([](Options* o) { o->alignment = 0; }));
  EXPECT_TRUE(refused([](Options* o) { o->alignment = 48; }));
  EXPECT_TRUE(refused([](Options* o) { o->alignment = 1 << 20; }));
}

TEST_F(RegisteredPoolTest, AForkedChildGetsNothing) {
  Make(Small());
  Buffer buffer = pool_->Get();
  EXPECT_TRUE(HoldsInChild([&] {
    if (pool_->Get() || pool_->Reserve(10).ok()) return false;
    buffer.Release();
    pool_.reset();
    return domain_.regions() == 1;  // Not given back.
  }));
  EXPECT_TRUE(pool_->Get());
}

}  // namespace
}  // namespace skiff::transport
