#include "scsi/backend/provisioning_map.h"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

TEST(ProvisioningMapTest, AgreesWithAModel) {
  constexpr uint64_t kGranules = 1000;  // Not a multiple of 64.
  ProvisioningMap map;
  ASSERT_TRUE(map.Init(kGranules).ok());
  std::vector<bool> model(kGranules);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t first = random() % kGranules;
    const uint64_t count = random() % (kGranules - first + 1);
    const bool set = random() % 2 == 0;
    set ? map.Set(first, count) : map.Clear(first, count);
    for (uint64_t g = first; g < first + count; ++g) model[g] = set;

    const uint64_t probe = random() % kGranules;
    ASSERT_EQ(map.IsSet(probe), model[probe]);
    uint64_t run = 0;
    while (probe + run < kGranules && model[probe + run] == model[probe]) ++run;
    ASSERT_EQ(map.RunLength(probe, kGranules), run) << "from " << probe;
    ASSERT_EQ(map.RunLength(probe, 3), std::min<uint64_t>(run, 3));
  }
}

TEST(ProvisioningMapTest, ThreadsOnOneWordLoseNothing) {
  ProvisioningMap map;
  ASSERT_TRUE(map.Init(64).ok());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&map, t] {
      for (int i = 0; i < 1000; ++i) {
        for (uint64_t g = t; g < 64; g += 4) {
          map.Set(g, 1);
          map.Clear(g, 1);
          map.Set(g, 1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(map.IsSet(0));
  EXPECT_EQ(map.RunLength(0, 64), 64u);
}

}  // namespace
}  // namespace skiff::scsi
