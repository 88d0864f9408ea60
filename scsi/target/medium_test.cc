#include "scsi/target/medium.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::Outcome;
using testing::Pattern;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint32_t kBlock = 512;

TEST(MediumTest, OneBackendIsOneMedium) {
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  const auto other = std::make_shared<TestBackend>(ThinInfo(64));
  const std::shared_ptr<Medium> medium = *Medium::Of(backend);
  EXPECT_EQ(*Medium::Of(backend), medium);
  EXPECT_NE(*Medium::Of(other), medium);
  EXPECT_EQ(&medium->backend(), backend.get());
}

TEST(MediumTest, KnowsItsBackendAnewWhenNobodyServedIt) {
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  EXPECT_EQ((*Medium::Of(backend))->block_count(), 64u);
  backend->Resize(65 * kBlock);
  EXPECT_EQ((*Medium::Of(backend))->block_count(), 65u);
}

TEST(MediumTest, InfoIsReadWhileItChanges) {
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  const std::shared_ptr<Medium> medium = *Medium::Of(backend);
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (int i = 0; i < 1000; ++i) {
      BackendInfo info = backend->info();
      info.thin = i % 2 == 0;
      info.description = std::string(i % 50, info.thin ? 't' : 'f');
      backend->SetInfo(info);
      medium->Refresh();
    }
    stop = true;
  });
  while (!stop) {
    const BackendInfo info = medium->info();
    EXPECT_EQ(info.description.find(info.thin ? 'f' : 't'), std::string::npos);
    EXPECT_EQ(medium->block_count(), 64u);
  }
  changer.join();
  EXPECT_FALSE(medium->thin());
}

TEST(MediumTest, AllLogicalUnitsTellOfAnotherCapacity) {
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  TestTarget one(backend);
  ASSERT_TRUE(one.target()->AddLogicalUnit(backend, {.lun = 1}).ok());
  ASSERT_TRUE(one.target()
                  ->AddLogicalUnit(std::make_shared<TestBackend>(ThinInfo(64)),
                                   {.lun = 2})
                  .ok());
  one.nexus().Settle();
  for (const uint64_t lun : {0, 1, 2}) {
    one.nexus().ClearUnitAttentions(lun << 48);
  }
  backend->Resize(65 * kBlock);
  one.target()->NotifyBackendChanged(1);
  one.nexus().Settle();
  for (const uint64_t lun : {0, 1, 2}) {
    TestCommand test_unit_ready(Bytes(6), {}, 0, lun << 48);
    one.nexus().Run(&test_unit_ready);
    EXPECT_EQ(Outcome(test_unit_ready),
              lun == 2 ? "GOOD"
                       : "UNIT ATTENTION, CAPACITY DATA HAS CHANGED (2Ah/09h)")
        << lun;
  }
}

TEST(MediumTest, AMediumWithoutWholeBlocksIsRefused) {
  BackendInfo info = ThinInfo(64);
  info.size_bytes += 1;
  EXPECT_FALSE(Medium::Of(std::make_shared<TestBackend>(info)).ok());
  info = ThinInfo(64);
  info.block_size = 520;
  EXPECT_FALSE(Medium::Of(std::make_shared<TestBackend>(info)).ok());
}

TEST(MediumTest, TheBackendIsToldWhenNobodyServesItAnyMore) {
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  backend->completion = TestBackend::Completion::kHeld;
  TestTarget one(backend);
  TestTarget two(backend);
  EXPECT_EQ(backend->channels.load(), 2);
  TestCommand read(Cdb10(0x28, 0, 1), {}, kBlock);
  one.nexus().Submit(&read);
  ASSERT_TRUE(two.target()->RemoveLogicalUnit(0).ok());
  ASSERT_TRUE(one.target()->RemoveLogicalUnit(0).ok());
  one.nexus().Settle();
  two.nexus().Settle();
  EXPECT_TRUE(backend->unused_with_channels.empty()) << "it has the READ";
  backend->CompleteHeld();
  one.nexus().Settle();
  EXPECT_EQ(backend->unused_with_channels, std::vector<int>{0});

  ASSERT_TRUE(one.target()->AddLogicalUnit(backend, {}).ok());
  ASSERT_TRUE(one.target()->RemoveLogicalUnit(0).ok());
  one.nexus().Settle();
  EXPECT_EQ(backend->unused_with_channels, (std::vector<int>{0, 0}));
}

TEST(MediumTest, ABackendThatWasNeverServedHearsNothing) {
  TestTarget target(std::make_shared<TestBackend>(ThinInfo(64)));
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  EXPECT_TRUE(absl::IsAlreadyExists(
      target.target()->AddLogicalUnit(backend, {.lun = 0})));
  EXPECT_TRUE(backend->unused_with_channels.empty());
}

// Two targets, each with a reactor of its own, serve one backend.
TEST(MediumTest, CompareAndWriteIsAtomicAgainstWritesThroughAnotherTarget) {
  const auto backend = std::make_shared<TestBackend>(ThinInfo(64));
  TestTarget one(backend);
  TestTarget two(backend);
  backend->completion = TestBackend::Completion::kHeld;
  const Bytes before = Pattern(kBlock, 1);
  const Bytes after = Pattern(kBlock, 2);
  TestCommand write(Cdb10(0x2a, 5, 1), before, 0);
  one.nexus().Submit(&write);
  ASSERT_EQ(backend->held(), 1u);

  Bytes cdb = Cdb16(0x89, 5, 0);
  cdb[13] = 1;
  Bytes data = before;
  data.insert(data.end(), after.begin(), after.end());
  TestCommand swap(cdb, data, 0);
  two.nexus().Submit(&swap);
  two.nexus().Settle();
  EXPECT_EQ(backend->held(), 1u) << "it waits for the write";

  EXPECT_EQ(backend->CompleteHeld(), 1u);
  one.nexus().Settle();
  two.nexus().Settle();
  EXPECT_EQ(Outcome(write), "GOOD");
  EXPECT_EQ(backend->CompleteHeld(), 1u);
  EXPECT_EQ(Outcome(swap), "GOOD");
  EXPECT_EQ(Bytes(&backend->bytes()[5 * kBlock], &backend->bytes()[6 * kBlock]),
            after);
}

}  // namespace
}  // namespace skiff::scsi
