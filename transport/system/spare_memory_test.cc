#include "transport/system/spare_memory.h"

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "testing/refusing_memory.h"
#include "transport/log/log.h"

namespace skiff::transport {
namespace {

constexpr uint32_t kBlocks = 8;

bool Always() { return true; }

// Every allocation is refused, as if the system had nothing left.
class NoMemory {
 public:
  NoMemory() { testing::RefuseAllEvery(1, &Always); }
  ~NoMemory() { testing::RefuseAllEvery(0, nullptr); }
};

class SpareMemoryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetProcessLog([](LogLevel, absl::string_view line) {
      log.append(line.data(), line.size());
    });
    SpareMemory::Keep(kBlocks * SpareMemory::kBlockBytes);
  }
  void TearDown() override { SpareMemory::Refill(); }

  static std::string log;
};
std::string SpareMemoryTest::log;

TEST_F(SpareMemoryTest, SmallThingsGoOnAndTheirPeerIsKnown) {
  const SpareMemory::Watch before;
  std::unique_ptr<std::string> text;
  bool ran_out = false;
  {
    const SpareMemory::Watch watch;
    const NoMemory none;
    text = std::make_unique<std::string>("whole");
    ran_out = watch.ran_out();
  }
  EXPECT_TRUE(ran_out);
  EXPECT_TRUE(before.ran_out());
  EXPECT_EQ(*text, "whole");
  EXPECT_EQ(SpareMemory::missing(), 1u);
  SpareMemory::Refill();
  EXPECT_EQ(SpareMemory::missing(), 0u);
  EXPECT_NE(log.find("no memory left"), std::string::npos) << log;
  const SpareMemory::Watch after;
  EXPECT_FALSE(after.ran_out());
}

TEST_F(SpareMemoryTest, WhatMayFailTakesNone) {
  const NoMemory none;
  const SpareMemory::NotForThis not_for_this;
  EXPECT_EQ(::operator new(100, std::nothrow), nullptr);
  bool thrown = false;
  try {
    ::operator delete(::operator new(100));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(SpareMemory::missing(), 0u);
}

// How many allocations are served although there is no memory.
uint32_t Served() {
  std::vector<void*> served;
  served.reserve(100);
  const NoMemory none;
  try {
    while (served.size() < 100) served.push_back(::operator new(16));
  } catch (const std::bad_alloc&) {
  }
  for (void* memory : served) ::operator delete(memory);
  return static_cast<uint32_t>(served.size());
}

TEST_F(SpareMemoryTest, AQuarterIsLeftToWhatIsNobodys) {
  {
    const SpareMemory::Watch watch;
    EXPECT_EQ(Served(), kBlocks - kBlocks / 4);
  }
  EXPECT_EQ(Served(), kBlocks / 4);
  EXPECT_EQ(Served(), 0u);
  EXPECT_EQ(SpareMemory::missing(), kBlocks);
  SpareMemory::Refill();
  EXPECT_EQ(Served(), kBlocks);
}

}  // namespace
}  // namespace skiff::transport
