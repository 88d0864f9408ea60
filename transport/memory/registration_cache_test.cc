#include "transport/memory/registration_cache.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "transport/memory/memory_test_util.h"

namespace skiff::transport {
namespace {

using testing::HoldsInChild;
using testing::LimitedDomain;
using Handle = RegistrationCache::Handle;

constexpr size_t kKib = 1024;

class RegistrationCacheTest : public ::testing::Test {
 protected:
  void Limit(size_t bytes, size_t regions) {
    cache_ = std::make_unique<RegistrationCache>(
        &domain_, RegistrationCacheOptions{bytes, regions});
  }
  absl::StatusOr<Handle> Try(size_t kib, size_t length,
                             Access access = Access::kLocal) {
    return cache_->Get(At(kib), length * kKib, access);
  }
  // In KiB of the arena.
  Handle Get(size_t kib, size_t length, Access access = Access::kLocal) {
    auto handle = Try(kib, length, access);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *std::move(handle) : Handle();
  }
  char* At(size_t kib) { return arena_.data() + kib * kKib; }
  const RegistrationCache::Statistics& stats() { return cache_->statistics(); }

  std::vector<char> arena_ = std::vector<char>(1024 * kKib);
  LimitedDomain domain_;
  std::unique_ptr<RegistrationCache> cache_ =
      std::make_unique<RegistrationCache>(&domain_, RegistrationCacheOptions());
};

TEST_F(RegistrationCacheTest, TheSecondTimeIsAHit) {
  const MemoryRegion* first = Get(4, 8).region();
  EXPECT_EQ(first->data(), At(4));
  EXPECT_EQ(Get(4, 8).region(), first);
  EXPECT_EQ(Get(5, 2).region(), first);  // A part.
  EXPECT_EQ(stats().hits, 2u);
  EXPECT_EQ(stats().misses, 1u);
  EXPECT_EQ(domain_.calls, 1);
  Get(3, 2);   // Sticks out in front,
  Get(10, 3);  // and behind.
  EXPECT_EQ(stats().misses, 3u);
  EXPECT_EQ(stats().regions, 3u);
  EXPECT_EQ(stats().bytes, 13 * kKib);
  EXPECT_EQ(domain_.locked(), 13 * kKib);
}

TEST_F(RegistrationCacheTest, AHandleNamesTheMemoryToBothSides) {
  Handle whole = Get(4, 8, Access::kRemoteWrite);
  Handle part = Get(6, 1, Access::kRemoteWrite);
  const Sge sge = part.Part(At(6), 100);
  EXPECT_EQ(sge.data, At(6));
  EXPECT_EQ(sge.length, 100u);
  EXPECT_EQ(sge.region, whole.region());
  const RemoteBuffer remote = part.Remote(At(6));
  EXPECT_EQ(remote.address, whole.region()->remote_base() + 2 * kKib);
  EXPECT_EQ(remote.key.value, whole.region()->remote_key().value);
}

TEST_F(RegistrationCacheTest, MoreAccessServesLess) {
  const Access both = Access::kRemoteRead | Access::kRemoteWrite;
  Get(0, 4, Access::kRemoteRead);
  const MemoryRegion* wide = Get(0, 4, both).region();
  EXPECT_EQ(stats().misses, 2u);
  EXPECT_EQ(Get(0, 4, Access::kRemoteWrite).region(), wide);
  EXPECT_TRUE(Has(Get(0, 4, Access::kRemoteRead).region()->access(),
                  Access::kRemoteRead));
  Get(0, 4);
  EXPECT_EQ(stats().misses, 2u);
  EXPECT_EQ(stats().hits, 3u);
}

TEST_F(RegistrationCacheTest, ALargerOneReplacesWhatItContains) {
  Handle pinned = Get(8, 4);
  Get(13, 1);
  Get(16, 4);
  const MemoryRegion* large = Get(8, 8).region();
  // What was in use stays until it is not; the other neighbour is no part.
  EXPECT_EQ(stats().regions, 3u);
  EXPECT_EQ(pinned.region()->size(), 4 * kKib);
  EXPECT_EQ(Get(8, 4).region(), large);
  pinned.Release();
  EXPECT_EQ(stats().regions, 2u);
  EXPECT_EQ(domain_.regions(), 2u);
}

TEST_F(RegistrationCacheTest, EvictsWhatWasUsedLongestAgo) {
  Limit(64 * kKib, 3);
  Get(0, 4);
  Get(10, 4);
  Get(20, 4);
  Get(0, 4);
  Get(30, 4);  // Evicts 10.
  EXPECT_EQ(stats().evictions, 1u);
  EXPECT_EQ(stats().regions, 3u);
  const uint64_t misses = stats().misses;
  Get(0, 4);
  Get(20, 4);
  EXPECT_EQ(stats().misses, misses);
  Get(10, 4);
  EXPECT_EQ(stats().misses, misses + 1);
}

TEST_F(RegistrationCacheTest, BytesAreBounded) {
  Limit(10 * kKib, 100);
  Get(0, 4);
  Get(10, 4);
  Get(20, 6);  // Evicts 0, which is enough.
  EXPECT_EQ(stats().evictions, 1u);
  EXPECT_EQ(stats().bytes, 10 * kKib);
  const auto large = Try(100, 11);
  EXPECT_TRUE(absl::IsResourceExhausted(large.status()));
  EXPECT_NE(large.status().message().find("holds at most 10240 (max_bytes)"),
            std::string::npos)
      << large.status();
  EXPECT_EQ(stats().evictions, 1u);
}

TEST_F(RegistrationCacheTest, WhatIsInUseIsNotEvicted) {
  Limit(64 * kKib, 2);
  Handle first = Get(0, 4);
  Handle second = Get(10, 4);
  EXPECT_EQ(stats().pinned_regions, 2u);
  auto third = Try(20, 4);
  EXPECT_TRUE(absl::IsResourceExhausted(third.status())) << third.status();
  EXPECT_NE(third.status().message().find("2 of 2 regions (max_regions)"),
            std::string::npos)
      << third.status();
  EXPECT_EQ(stats().failures, 1u);
  Handle again = Get(0, 4);
  first.Release();
  EXPECT_FALSE(Try(20, 4).ok());  // Pinned twice.
  again = Handle();
  EXPECT_TRUE(Try(20, 4).ok());
  EXPECT_EQ(second.region()->data(), At(10));
}

TEST_F(RegistrationCacheTest, InvalidateTakesOutWhatOverlaps) {
  Get(0, 4);
  Get(2, 4);
  Get(5, 4, Access::kRemoteRead);
  Get(20, 4);
  EXPECT_EQ(cache_->Invalidate(At(3), 3 * kKib), 0u);
  EXPECT_EQ(stats().invalidations, 3u);
  EXPECT_EQ(stats().regions, 1u);
  EXPECT_EQ(domain_.regions(), 1u);
  // The borders are no overlap.
  EXPECT_EQ(cache_->Invalidate(At(16), 4 * kKib), 0u);
  EXPECT_EQ(cache_->Invalidate(At(24), 4 * kKib), 0u);
  EXPECT_EQ(stats().regions, 1u);
  Get(0, 4);
  EXPECT_EQ(stats().misses, 5u);
}

TEST_F(RegistrationCacheTest, InvalidateTellsWhatIsInUse) {
  Handle used = Get(0, 4);
  EXPECT_EQ(cache_->Invalidate(At(0), kKib), 1u);
  EXPECT_EQ(domain_.regions(), 1u);
  // Not found any more, though.
  Handle fresh = Get(0, 4);
  EXPECT_NE(fresh.region(), used.region());
  EXPECT_EQ(cache_->Invalidate(At(0), kKib), 2u);
  fresh.Release();
  EXPECT_EQ(cache_->Invalidate(At(0), kKib), 1u);
  used.Release();
  EXPECT_EQ(cache_->Invalidate(At(0), kKib), 0u);
  EXPECT_EQ(domain_.regions(), 0u);
  EXPECT_EQ(stats().bytes, 0u);
}

TEST_F(RegistrationCacheTest, GivesBackWhenTheMachineRunsOut) {
  domain_.limit = 10 * kKib;
  Get(0, 4);
  Get(10, 4);
  const auto handle = Try(20, 4);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(stats().evictions, 1u);
  // With all in use, the domain's own words come through.
  const auto more = Try(30, 7);
  EXPECT_TRUE(absl::IsResourceExhausted(more.status()));
  EXPECT_NE(more.status().message().find("ulimit -l"), std::string::npos);
  EXPECT_EQ(stats().evictions, 2u);
}

TEST_F(RegistrationCacheTest, OtherErrorsEvictNothing) {
  Get(0, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(
      cache_->Get(nullptr, 4, Access::kLocal).status()));
  EXPECT_EQ(stats().evictions, 0u);
}

TEST_F(RegistrationCacheTest, AForkedChildRegistersNothing) {
  Handle used = Get(0, 4);
  Get(10, 4);
  EXPECT_TRUE(HoldsInChild([&] {
    const auto handle = Try(0, 4);
    if (!absl::IsFailedPrecondition(handle.status())) return false;
    used.Release();
    cache_.reset();
    return domain_.regions() == 2;  // Nothing was given back.
  }));
  EXPECT_TRUE(Try(0, 4).ok());
  EXPECT_EQ(domain_.regions(), 2u);
}

// Against a list of what is registered.
TEST_F(RegistrationCacheTest, FindsWhatAListFinds) {
  Limit(200 * kKib, 12);
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  std::vector<Handle> held;
  for (int step = 0; step < 20000; ++step) {
    const size_t begin = below(60);
    const size_t length = 1 + below(16);
    if (below(10) == 0) {
      const size_t in_use = cache_->Invalidate(At(begin), length * kKib);
      std::map<const MemoryRegion*, bool> overlapping;
      for (const Handle& handle : held) {
        const auto* data = static_cast<const char*>(handle.region()->data());
        if (data < At(begin + length) &&
            At(begin) < data + handle.region()->size()) {
          overlapping[handle.region()] = true;
        }
      }
      ASSERT_EQ(in_use, overlapping.size());
    } else if (below(3) == 0 && !held.empty()) {
      held.erase(held.begin() + static_cast<long>(below(held.size())));
    } else {
      const auto access = static_cast<Access>(below(4));
      auto handle = Try(begin, length, access);
      if (!handle.ok()) {
        ASSERT_TRUE(absl::IsResourceExhausted(handle.status()));
        continue;
      }
      const MemoryRegion* region = handle->region();
      const auto* data = static_cast<const char*>(region->data());
      ASSERT_LE(data, At(begin));
      ASSERT_GE(data + region->size(), At(begin + length));
      ASSERT_EQ(static_cast<uint32_t>(access) &
                    ~static_cast<uint32_t>(region->access()),
                0u);
      if (below(2) == 0) held.push_back(*std::move(handle));
    }
    ASSERT_LE(stats().regions, 12u);
    ASSERT_LE(stats().bytes, 200 * kKib);
    ASSERT_EQ(stats().regions, domain_.regions());
    ASSERT_EQ(stats().bytes, domain_.locked());
  }
  EXPECT_GT(stats().hits, 1000u);
  EXPECT_GT(stats().evictions, 1000u);
  held.clear();
}

}  // namespace
}  // namespace skiff::transport
