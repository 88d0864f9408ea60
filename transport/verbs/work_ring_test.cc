#include "transport/verbs/work_ring.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

constexpr auto kOk = CompletionStatus::kOk;
constexpr auto kFlushed = CompletionStatus::kFlushed;

// Takes what is over, `most` at most: "index=status", separated by spaces.
std::string Take(WorkRing* ring, size_t most = 16) {
  std::vector<Completion> taken(most);
  taken.resize(ring->Take(absl::MakeSpan(taken)));
  std::string text;
  for (const Completion& completion : taken) {
    absl::StrAppend(&text, text.empty() ? "" : " ", completion.id.index, "=",
                    static_cast<int>(completion.status));
  }
  return text;
}

WorkSlot* Push(WorkRing* ring, uint32_t index, bool signalled = true) {
  return ring->Push({index, 0}, OperationKind::kSend, signalled);
}

TEST(WorkRingTest, SignalledOperationsWaitForTheirOwnCompletion) {
  WorkRing ring(4, nullptr);
  WorkSlot* first = Push(&ring, 1);
  WorkSlot* second = Push(&ring, 2);
  EXPECT_EQ(Take(&ring), "");
  ring.Complete(first, kOk, 0);
  EXPECT_EQ(Take(&ring), "1=0");
  ring.Complete(second, kOk, 0);
  EXPECT_EQ(Take(&ring), "2=0");
  EXPECT_TRUE(ring.empty());
}

TEST(WorkRingTest, OneCompletionRetiresTheUnsignalledBeforeIt) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  Push(&ring, 2, false);
  WorkSlot* third = Push(&ring, 3);
  Push(&ring, 4, false);
  ring.Complete(third, kOk, 0);
  EXPECT_EQ(Take(&ring), "1=0 2=0 3=0");
  EXPECT_EQ(ring.size(), 1u);
}

TEST(WorkRingTest, AnUnsignalledFailureShowsItselfAndLeavesTheEarlierGood) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* bad = Push(&ring, 2, false);
  WorkSlot* last = Push(&ring, 3);
  ring.Complete(bad, CompletionStatus::kRemoteAccess, 10);
  EXPECT_EQ(Take(&ring, 1), "1=0");
  Completion failed;
  ASSERT_EQ(ring.Take({&failed, 1}), 1u);
  EXPECT_EQ(failed.status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(failed.provider_code, 10);
  EXPECT_EQ(Take(&ring), "");
  ring.Complete(last, kFlushed, 5);
  EXPECT_EQ(Take(&ring), "3=1");
}

// As Soft-iWARP does.
TEST(WorkRingTest, WhatOvertakesASignalledOperationWaitsForIt) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* read = Push(&ring, 2);
  Push(&ring, 3, false);
  WorkSlot* send = Push(&ring, 4);
  ring.Complete(send, kOk, 0);
  EXPECT_EQ(Take(&ring), "1=0");
  ring.Complete(read, kFlushed, 5);
  EXPECT_EQ(Take(&ring), "2=1 3=0 4=0");
}

TEST(WorkRingTest, SlotsAreFreeOnceTheyWereTaken) {
  WorkRing ring(3, nullptr);
  for (uint32_t i = 0; i < 3; ++i) Push(&ring, i, false);
  EXPECT_TRUE(ring.full());
  WorkRing* same = &ring;
  // Round and round, one always in the ring.
  for (uint32_t i = 3; i < 50; ++i) {
    same->FailNewest(1, kFlushed);
    ring.FlushAll();
    EXPECT_EQ(Take(&ring, 1), absl::StrCat(i - 3, "=1"));
    EXPECT_FALSE(ring.full());
    Push(&ring, i);
    EXPECT_TRUE(ring.full());
  }
}

TEST(WorkRingTest, CompletionsFindTheirSlotAfterAWrap) {
  WorkRing ring(3, nullptr);
  for (uint32_t i = 0; i < 20; ++i) {
    Push(&ring, 2 * i, false);
    WorkSlot* last = Push(&ring, 2 * i + 1);
    ring.Complete(last, kOk, 0);
    EXPECT_EQ(Take(&ring), absl::StrCat(2 * i, "=0 ", 2 * i + 1, "=0"));
  }
}

TEST(WorkRingTest, WhatNeverReachedTheDeviceIsOverAfterWhatDid) {
  WorkRing ring(8, nullptr);
  WorkSlot* posted = Push(&ring, 1);
  Push(&ring, 2);
  Push(&ring, 3, false);
  ring.FailNewest(2, CompletionStatus::kLocalError);
  EXPECT_EQ(Take(&ring), "");
  ring.Complete(posted, kFlushed, 5);
  EXPECT_EQ(Take(&ring), "1=1 2=2 3=1");
}

TEST(WorkRingTest, FlushAllKeepsWhatIsKnown) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* done = Push(&ring, 2);
  Push(&ring, 3, false);
  Push(&ring, 4);
  ring.Complete(done, kOk, 0);
  ring.FlushAll();
  EXPECT_EQ(Take(&ring), "1=0 2=0 3=1 4=1");
}

TEST(WorkRingTest, WhatWasReportedIsNotReportedAgain) {
  WorkRing ring(4, nullptr);
  WorkSlot* first = Push(&ring, 1);
  WorkSlot* second = Push(&ring, 2);
  Push(&ring, 3);
  ring.Retire(second);
  EXPECT_EQ(ring.size(), 3u);
  ring.Retire(first);
  EXPECT_EQ(ring.size(), 1u);
  ring.FlushAll();
  EXPECT_EQ(Take(&ring), "3=1");
}

TEST(WorkRingTest, BuriedSlotsOutliveTheRingAndAreRecognized) {
  std::shared_ptr<void> slots;
  WorkSlot* slot = nullptr;
  {
    WorkRing ring(4, nullptr);
    slot = Push(&ring, 1);
    ring.FlushAll();
    EXPECT_EQ(Take(&ring), "1=1");
    EXPECT_FALSE(slot->buried());
    slots = ring.Bury();
  }
  EXPECT_TRUE(slot->buried());
  // So that only those of shared receive queues need to ask.
  EXPECT_EQ(slot->kind, OperationKind::kReceive);
  EXPECT_EQ(slot->queue_pair, nullptr);
}

}  // namespace
}  // namespace skiff::transport
