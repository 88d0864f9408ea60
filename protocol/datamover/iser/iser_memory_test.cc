#include "protocol/datamover/iser/iser_memory.h"

#include <limits>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/sim/sim_memory.h"
#include "testing/sim/sim_rdma.h"
#include "testing/sim/sim_world.h"
#include "transport/memory/memory_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using transport::Access;

class IserMemoryTest : public ::testing::Test {
 protected:
  IserMemoryTest() : world_(1), bytes_(16384) {
    domain_ = std::make_shared<testing::SimDomain>(
        &world_, "host", testing::SimRdmaOptions::InfiniBand().capabilities,
        false);
  }
  void Make(const IserMemoryOptions& options = {}) {
    memory_ = IserMemory::Create(domain_.get(), options).value();
    registered_ = domain_->regions();
  }
  IserMemory::Pin Get(const void* data, size_t size, Access access,
                      bool exclusive = false) {
    IserMemory::Pin pin;
    EXPECT_TRUE(memory_->Get(data, size, access, exclusive, &pin).ok());
    return pin;
  }
  size_t registered() const { return domain_->regions() - registered_; }

  testing::SimWorld world_;
  std::shared_ptr<testing::SimDomain> domain_;
  std::unique_ptr<IserMemory> memory_;
  std::vector<char> bytes_;
  size_t registered_ = 0;
};

TEST_F(IserMemoryTest, RefusesKeysThatDoNotFitAnStag) {
  transport::Capabilities wide =
      testing::SimRdmaOptions::InfiniBand().capabilities;
  wide.remote_key_bits = 64;
  const auto domain =
      std::make_shared<testing::SimDomain>(&world_, "host", wide, false);
  const auto memory = IserMemory::Create(domain.get(), {});
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(memory.status().message(), HasSubstr("64 bits"));
}

TEST_F(IserMemoryTest, RefusesMessagesThatAreTooLong) {
  transport::Capabilities narrow =
      testing::SimRdmaOptions::InfiniBand().capabilities;
  narrow.max_message_bytes = 4096;
  const auto domain =
      std::make_shared<testing::SimDomain>(&world_, "host", narrow, false);
  EXPECT_THAT(IserMemory::Create(domain.get(), {}).status().message(),
              HasSubstr("at most 4096 bytes"));
}

TEST_F(IserMemoryTest, ArenasAreRegisteredOnce) {
  Make();
  const auto owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data(), 8192, owner).ok());
  ASSERT_TRUE(memory_->AddArena(bytes_.data(), 8192, owner).ok());
  EXPECT_EQ(registered(), 1u);
  {
    EXPECT_FALSE(Get(bytes_.data() + 100, 8092, Access::kLocal).exclusive());
    EXPECT_EQ(registered(), 1u);
  }
  // One byte beyond it, another access, or a key of its own is another one.
  for (const bool exclusive : {false, true}) {
    const IserMemory::Pin pin = Get(bytes_.data() + 100, exclusive ? 8 : 8093,
                                    Access::kLocal, exclusive);
    EXPECT_TRUE(pin.exclusive());
    EXPECT_EQ(registered(), 2u);
  }
  EXPECT_TRUE(Get(bytes_.data(), 8, Access::kRemoteWrite).exclusive());
  EXPECT_EQ(memory_->single_registrations(), 3u);
}

TEST_F(IserMemoryTest, FindsTheArenaThatMemoryLiesIn) {
  Make();
  const auto owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data(), 4096, owner).ok());
  ASSERT_TRUE(memory_->AddArena(bytes_.data() + 8192, 4096, owner).ok());
  const auto arena_of = [this](size_t offset, size_t size) {
    return memory_->ArenaOf(bytes_.data() + offset, size);
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(arena_of(0, 4096)->data(), bytes_.data());
    EXPECT_EQ(arena_of(4095, 1)->data(), bytes_.data());
    EXPECT_EQ(arena_of(4095, 2), nullptr);
    EXPECT_EQ(arena_of(4096, 1), nullptr);
    EXPECT_EQ(arena_of(8191, 1), nullptr);
    EXPECT_EQ(arena_of(8192, 4096)->data(), bytes_.data() + 8192);
    EXPECT_EQ(arena_of(8200, 4089), nullptr);
  }
}

TEST_F(IserMemoryTest, ForgetsTheLastArenaWithItsOwner) {
  Make();
  auto owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data(), 4096, owner).ok());
  EXPECT_NE(memory_->ArenaOf(bytes_.data(), 1), nullptr);
  owner.reset();
  const auto other = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data() + 8192, 4096, other).ok());
  EXPECT_EQ(memory_->ArenaOf(bytes_.data(), 1), nullptr);
}

TEST_F(IserMemoryTest, ArenasGoWhenNobodyElseHoldsThem) {
  Make();
  auto owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data(), 4096, owner).ok());
  owner.reset();
  const auto other = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data() + 8192, 4096, other).ok());
  EXPECT_EQ(registered(), 1u);
  // Somebody may be at work in what a new one would overlap.
  for (const size_t begin : {4096, 8192 + 2048, 0}) {
    EXPECT_TRUE(absl::IsAlreadyExists(
        memory_->AddArena(bytes_.data() + begin, 8192 + 1, other)))
        << begin;
  }
  EXPECT_EQ(registered(), 1u);
  EXPECT_TRUE(memory_->AddArena(bytes_.data() + 4096, 4096, other).ok());
  EXPECT_EQ(registered(), 2u);
}

TEST_F(IserMemoryTest, ForgettingAnythingLetsArenasWithoutOwnersGo) {
  Make();
  auto owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data(), 4096, owner).ok());
  memory_->Forget(bytes_.data(), 4096);
  EXPECT_EQ(registered(), 1u);
  owner.reset();
  memory_->Forget(bytes_.data(), 4096);
  EXPECT_EQ(registered(), 0u);
}

TEST_F(IserMemoryTest, KeepsRegistrationsWhenTold) {
  IserMemoryOptions options;
  options.keep_registrations = true;
  Make(options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Get(bytes_.data(), 4096, Access::kRemoteRead).exclusive());
  }
  EXPECT_EQ(registered(), 1u);
  memory_->Forget(bytes_.data() + 4095, 1);
  EXPECT_EQ(registered(), 0u);
}

TEST_F(IserMemoryTest, SaysWhatIsRegisteredForAPin) {
  IserMemoryOptions options;
  options.keep_registrations = true;
  Make(options);
  const auto owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory_->AddArena(bytes_.data() + 8192, 4096, owner).ok());
  for (const bool first : {true, false}) {
    EXPECT_EQ(Get(bytes_.data(), 4096, Access::kRemoteRead).fresh(), first);
    EXPECT_TRUE(Get(bytes_.data(), 4096, Access::kRemoteRead, true).fresh());
    EXPECT_FALSE(Get(bytes_.data() + 8192, 4096, Access::kLocal).fresh());
  }
}

// Where no more memory may be locked, what is kept goes, unless it is in use.
TEST(IserMemoryLimitTest, WhatIsKeptGivesWay) {
  testing::LimitedDomain domain;
  IserMemoryOptions options;
  options.keep_registrations = true;
  const auto memory = IserMemory::Create(&domain, options).value();
  std::vector<char> bytes(3 * 4096);
  domain.limit = domain.locked() + 2 * 4096;
  const auto get = [&](size_t page, bool exclusive, IserMemory::Pin* pin) {
    pin->Release();
    return memory->Get(bytes.data() + page * 4096, 4096, Access::kRemoteRead,
                       exclusive, pin);
  };
  const auto owner = std::make_shared<int>(0);
  IserMemory::Pin used;
  IserMemory::Pin other;
  ASSERT_TRUE(get(0, false, &used).ok());
  ASSERT_TRUE(get(1, false, &other).ok());
  other.Release();
  EXPECT_TRUE(get(2, true, &other).ok());
  other.Release();
  ASSERT_TRUE(get(1, false, &other).ok());
  other.Release();
  EXPECT_TRUE(memory->AddArena(bytes.data() + 8192, 4096, owner).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(get(1, true, &other)));
}

// Messages cannot wait for it either: their buffers come by slabs of 2 MiB.
TEST(IserMemoryLimitTest, WhatIsKeptGivesWayToMessages) {
  constexpr size_t kBytes = size_t{3} << 20;
  testing::LimitedDomain domain;
  IserMemoryOptions options;
  options.keep_registrations = true;
  const auto memory = IserMemory::Create(&domain, options).value();
  std::vector<char> bytes(kBytes);
  domain.limit = domain.locked() + kBytes;
  const size_t made = (size_t{2} << 20) / kIserMessageBytes;
  std::vector<IserMemory::Buffer> buffers;
  for (size_t i = 0; i < made; ++i) {
    buffers.push_back(memory->GetMessageBuffer());
    ASSERT_TRUE(buffers.back()) << i;
  }
  IserMemory::Pin pin;
  const auto keep = [&] {
    return memory->Get(bytes.data(), kBytes, Access::kRemoteRead, false, &pin);
  };
  ASSERT_TRUE(keep().ok());
  EXPECT_FALSE(memory->GetMessageBuffer());  // It is in use.
  pin.Release();
  EXPECT_TRUE(memory->GetMessageBuffer());
  EXPECT_TRUE(absl::IsResourceExhausted(keep()));
}

// Whoever gave memory to AddArena() need not say when it goes: nothing of it
// may be found when other memory is there.
TEST(IserMemoryLimitTest, KeepsNothingOfWhatAddArenaWasToldOf) {
  constexpr size_t kPage = 4096;
  testing::LimitedDomain domain;
  IserMemoryOptions options;
  options.keep_registrations = true;
  const auto memory = IserMemory::Create(&domain, options).value();
  std::vector<char> bytes(4 * kPage);
  IserMemory::Pin pin;
  const auto is_kept = [&](size_t page, size_t pages) {
    pin.Release();
    EXPECT_TRUE(memory
                    ->Get(bytes.data() + page * kPage, pages * kPage,
                          Access::kRemoteRead, false, &pin)
                    .ok());
    return !pin.exclusive();
  };
  const size_t before = domain.regions();

  // It is refused.
  domain.limit = domain.locked() + 3 * kPage;
  EXPECT_TRUE(is_kept(0, 1));  // And stays in use.
  auto owner = std::make_shared<int>(0);
  EXPECT_FALSE(memory->AddArena(bytes.data(), 3 * kPage, owner).ok());
  EXPECT_FALSE(is_kept(0, 1));
  EXPECT_FALSE(is_kept(2, 2));
  EXPECT_TRUE(is_kept(3, 1));
  // As long as it is there. What comes then is new.
  owner.reset();
  EXPECT_TRUE(is_kept(0, 1));
  EXPECT_TRUE(pin.fresh());

  // It was used before it was told of, and together with what is beside it.
  domain.limit = std::numeric_limits<size_t>::max();
  owner = std::make_shared<int>(0);
  ASSERT_TRUE(memory->AddArena(bytes.data(), 3 * kPage, owner).ok());
  EXPECT_TRUE(is_kept(2, 2));
  owner.reset();
  owner = std::make_shared<int>(0);
  std::vector<char> other(kPage);
  pin.Release();
  ASSERT_TRUE(memory->AddArena(other.data(), kPage, owner).ok());
  EXPECT_EQ(domain.regions() - before, 1u);  // The other arena.
}

TEST_F(IserMemoryTest, SaysWhereThePeerFindsIt) {
  Make();
  const IserMemory::Pin pin = Get(bytes_.data(), 4096, Access::kRemoteRead);
  EXPECT_EQ(pin.Remote(bytes_.data() + 17).address,
            pin.region()->remote_base() + 17);
  EXPECT_EQ(pin.Remote(bytes_.data()).key.value,
            pin.region()->remote_key().value);
}

TEST_F(IserMemoryTest, SharesAreSetApart) {
  IserMemoryOptions options;
  options.rdma.message_memory = 10 * IserMemory::kPairBytes + 1;
  Make(options);
  std::vector<IserMemory::Buffer> buffers;
  IserMemory::Share first(memory_.get());
  {
    IserMemory::Share second(memory_.get());
    EXPECT_TRUE(first.Grow(4).ok());
    EXPECT_TRUE(second.Grow(5).ok());
    // As before.
    EXPECT_TRUE(second.Grow(4).ok());
    EXPECT_EQ(second.buffers(), 5u);
    // Of which four are its own.
    const absl::Status refused = first.Grow(6);
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(refused.message(),
              "a connection needs 6 buffers for messages, and of 10 there are "
              "5 left: raise message_memory");
    EXPECT_EQ(first.buffers(), 4u);
    EXPECT_TRUE(first.Grow(5).ok());
  }
  EXPECT_TRUE(first.Grow(10).ok());
  for (int i = 0; i < 10; ++i) {
    for (const bool small : {false, true}) {
      buffers.push_back(small ? memory_->GetSmallBuffer()
                              : memory_->GetMessageBuffer());
      EXPECT_TRUE(static_cast<bool>(buffers.back()));
      EXPECT_EQ(buffers.back().size(),
                small ? IserMemory::kSmallBytes : kIserMessageBytes);
    }
  }
}

}  // namespace
}  // namespace skiff::protocol
