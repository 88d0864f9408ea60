// A nexus that closes where memory runs out in the middle.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"
#include "testing/refusing_memory.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint32_t kBlock = 512;

// The allocation that is refused, of those since it was set.
uint32_t refused = 0;
uint32_t asked = 0;

bool IsTheOne() { return ++asked == refused; }

class NexusMemoryTest : public ::testing::Test {
 protected:
  NexusMemoryTest()
      : backend_(std::make_shared<TestBackend>(ThinInfo(64))),
        target_(backend_) {
    // What the reactor's queue of functions needs is there.
    for (int turn = 0; turn < 2; ++turn) {
      for (int i = 0; i < 64; ++i) target_.reactor().reactor()->Post([] {});
      target_.reactor().Turn();
    }
  }
  std::unique_ptr<TestNexus> LogIn(const std::string& name) {
    auto nexus =
        std::make_unique<TestNexus>(target_.target(), &target_.reactor(),
                                    "iqn.2026-01.example:" + name + ",i,0x1");
    nexus->ClearUnitAttentions();
    return nexus;
  }
  TestCommand* Submit(TestNexus* nexus, const Bytes& cdb, size_t data_out) {
    commands_.push_back(std::make_unique<TestCommand>(
        cdb, Bytes(data_out), data_out > 0 ? 0 : kBlock));
    nexus->Submit(commands_.back().get());
    return commands_.back().get();
  }
  TestCommand* Swap(TestNexus* nexus) {
    Bytes cdb = Cdb16(0x89, 0, 0);
    cdb[13] = 1;
    return Submit(nexus, cdb, 2 * size_t{kBlock});
  }
  // Closes, and the `nth` allocation is refused. Whether it threw.
  bool CloseWithout(uint32_t nth, TestNexus* nexus, bool* closed) {
    refused = nth;
    asked = 0;
    skiff::testing::RefuseAllEvery(1, &IsTheOne);
    bool thrown = false;
    try {
      nexus->nexus()->Close([closed] { *closed = true; });
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    skiff::testing::RefuseAllEvery(0, nullptr);
    return thrown;
  }

  const std::shared_ptr<TestBackend> backend_;
  TestTarget target_;
  std::vector<std::unique_ptr<TestCommand>> commands_;
};

// The line for exclusivity asks for memory for many requests at a time, so that
// it takes some rounds to be refused it.
TEST_F(NexusMemoryTest, ClosesWhenThereIsMemoryAgain) {
  const auto first = LogIn("first");
  const auto last = LogIn("last");
  std::vector<int> thrown(4);
  constexpr uint32_t kRounds = 40;
  for (uint32_t round = 0; round < 4 * kRounds; ++round) {
    SCOPED_TRACE(round);
    const auto nexus = LogIn("it");
    backend_->completion = TestBackend::Completion::kHeld;
    TestCommand* const exclusive = Swap(first.get());
    TestCommand* const read = Submit(nexus.get(), Cdb10(0x28, 0, 1), 0);
    TestCommand* const head = Swap(nexus.get());
    TestCommand* const tail = Swap(nexus.get());
    TestCommand* const waits = Swap(last.get());
    bool closed = false;
    const uint32_t nth = round / kRounds;
    if (CloseWithout(nth, nexus.get(), &closed)) {
      ++thrown[nth];
      target_.reactor().Turn();
      EXPECT_FALSE(closed);
      EXPECT_FALSE(CloseWithout(0, nexus.get(), &closed));
    }
    EXPECT_TRUE(head->aborted && tail->aborted);
    target_.reactor().Turn();
    EXPECT_FALSE(closed) << "the medium has the read still";
    backend_->completion = TestBackend::Completion::kPosted;
    backend_->CompleteHeld();
    for (int i = 0; i < 8; ++i) target_.reactor().Turn();
    EXPECT_TRUE(closed && read->aborted);
    EXPECT_TRUE(exclusive->completed && waits->completed);
    nexus->Abandon();
    commands_.clear();
  }
  EXPECT_EQ(thrown[0], 0);
  EXPECT_GT(thrown[1], 0);
  EXPECT_GT(thrown[2], 0);
  EXPECT_GT(thrown[3], 0);
}

}  // namespace
}  // namespace skiff::scsi
