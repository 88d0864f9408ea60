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
  bool noteworthy = false;
  taken.resize(ring->Take(absl::MakeSpan(taken), &noteworthy));
  std::string text;
  for (const Completion& completion : taken) {
    absl::StrAppend(&text, text.empty() ? "" : " ", completion.id.index, "=",
                    static_cast<int>(completion.status));
  }
  return text;
}

WorkSlot* Push(WorkRing* ring, uint32_t index, bool signalled = true) {
  return ring->Push({index, 0}, OperationKind::kSend,
                    signalled ? WorkSlot::kSignalled : 0);
}

TEST(WorkRingTest, SignalledOperationsWaitForTheirOwnCompletion) {
  WorkRing ring(4, nullptr);
  WorkSlot* first = Push(&ring, 1);
  WorkSlot* second = Push(&ring, 2);
  EXPECT_EQ(Take(&ring), "");
  ring.Complete(first);
  EXPECT_EQ(Take(&ring), "1=0");
  ring.Complete(second);
  EXPECT_EQ(Take(&ring), "2=0");
  EXPECT_TRUE(ring.empty());
}

TEST(WorkRingTest, OneCompletionRetiresTheUnsignalledBeforeIt) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  Push(&ring, 2, false);
  WorkSlot* third = Push(&ring, 3);
  Push(&ring, 4, false);
  ring.Complete(third);
  EXPECT_EQ(Take(&ring), "1=0 2=0 3=0");
  EXPECT_EQ(ring.size(), 1u);
}

TEST(WorkRingTest, AnUnsignalledFailureShowsItselfAndLeavesTheEarlierGood) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* bad = Push(&ring, 2, false);
  WorkSlot* last = Push(&ring, 3);
  ring.Fail(bad, CompletionStatus::kRemoteAccess, 10);
  EXPECT_EQ(Take(&ring, 1), "1=0");
  Completion failed;
  bool noteworthy = false;
  ASSERT_EQ(ring.Take({&failed, 1}, &noteworthy), 1u);
  EXPECT_TRUE(noteworthy);
  EXPECT_EQ(failed.status, CompletionStatus::kRemoteAccess);
  EXPECT_EQ(failed.provider_code, 10);
  EXPECT_EQ(Take(&ring), "");
  ring.Fail(last, kFlushed, 5);
  EXPECT_EQ(Take(&ring), "3=1");
}

// As Soft-iWARP does.
TEST(WorkRingTest, WhatOvertakesASignalledOperationWaitsForIt) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* read = Push(&ring, 2);
  Push(&ring, 3, false);
  WorkSlot* send = Push(&ring, 4);
  ring.Complete(send);
  EXPECT_EQ(Take(&ring), "1=0");
  ring.Fail(read, kFlushed, 5);
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
    ring.Complete(last);
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
  ring.Fail(posted, kFlushed, 5);
  EXPECT_EQ(Take(&ring), "1=1 2=2 3=1");
}

TEST(WorkRingTest, FlushAllKeepsWhatIsKnown) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* done = Push(&ring, 2);
  Push(&ring, 3, false);
  Push(&ring, 4);
  ring.Complete(done);
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

TEST(WorkRingTest, TheOldestIsRetiredWithWhatWasReportedBehindIt) {
  WorkRing ring(4, nullptr);
  WorkSlot* first = Push(&ring, 1);
  WorkSlot* second = Push(&ring, 2);
  WorkSlot* third = Push(&ring, 3);
  Completion out;
  EXPECT_FALSE(ring.RetireIfOldest(second, &out));
  ring.Retire(second);
  ASSERT_TRUE(ring.RetireIfOldest(first, &out));
  EXPECT_EQ(out.id.index, 1u);
  EXPECT_EQ(ring.size(), 1u);
  ASSERT_TRUE(ring.RetireIfOldest(third, &out));
  EXPECT_TRUE(ring.empty());
}

TEST(WorkRingTest, WhatWasReportedTakesNoRoomOfWhatIsTaken) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1);
  WorkSlot* second = Push(&ring, 2);
  WorkSlot* third = Push(&ring, 3);
  Push(&ring, 4);
  ring.Retire(second);
  ring.Retire(third);
  ring.FlushAll();
  EXPECT_EQ(Take(&ring, 2), "1=1 4=1");
  EXPECT_TRUE(ring.empty());
}

TEST(WorkRingTest, NoteworthyIsWhatWasPushedSoAndWhatFailed) {
  WorkRing ring(8, nullptr);
  Completion taken[4];
  bool noteworthy = true;
  Push(&ring, 1, false);
  ring.Complete(Push(&ring, 2));
  EXPECT_EQ(ring.Take(absl::MakeSpan(taken), &noteworthy), 2u);
  EXPECT_FALSE(noteworthy);
  WorkSlot* read = ring.Push({3, 0}, OperationKind::kRead,
                             WorkSlot::kSignalled | WorkSlot::kNoteworthy);
  ring.Complete(read);
  EXPECT_EQ(ring.Take(absl::MakeSpan(taken), &noteworthy), 1u);
  EXPECT_TRUE(noteworthy);
  Push(&ring, 4, false);
  ring.FlushAll();
  EXPECT_EQ(ring.Take(absl::MakeSpan(taken), &noteworthy), 1u);
  EXPECT_TRUE(noteworthy);
}

TEST(WorkRingTest, AFailureIsNotSeenInTheNextOfItsSlot) {
  WorkRing ring(1, nullptr);
  ring.Fail(Push(&ring, 1), CompletionStatus::kRemoteAccess, 10);
  EXPECT_EQ(Take(&ring), "1=3");
  ring.Complete(Push(&ring, 2));
  Completion next;
  bool noteworthy = true;
  ASSERT_EQ(ring.Take({&next, 1}, &noteworthy), 1u);
  EXPECT_FALSE(noteworthy);
  EXPECT_EQ(next.status, kOk);
  EXPECT_EQ(next.provider_code, 0);
}

TEST(WorkRingTest, TheOldestIsTakenAtOnce) {
  WorkRing ring(8, nullptr);
  WorkSlot* read = Push(&ring, 1);
  WorkSlot* send = Push(&ring, 2);
  Completion taken;
  bool more = true;
  EXPECT_FALSE(ring.TakeIfOldest(send, &taken, &more));
  // It overtakes the READ.
  ring.Complete(send);
  ASSERT_TRUE(ring.TakeIfOldest(read, &taken, &more));
  EXPECT_EQ(taken.id.index, 1u);
  EXPECT_TRUE(more);
  EXPECT_EQ(Take(&ring), "2=0");
  ASSERT_TRUE(ring.TakeIfOldest(Push(&ring, 3), &taken, &more));
  EXPECT_EQ(taken.id.index, 3u);
  EXPECT_FALSE(more);
  EXPECT_TRUE(ring.empty());
}

TEST(WorkRingTest, WhatIsUnsignalledBeforeItIsNotSkipped) {
  WorkRing ring(8, nullptr);
  Push(&ring, 1, false);
  WorkSlot* signalled = Push(&ring, 2);
  Completion taken;
  bool more = false;
  EXPECT_FALSE(ring.TakeIfOldest(signalled, &taken, &more));
  ring.Complete(signalled);
  EXPECT_EQ(Take(&ring), "1=0 2=0");
}

TEST(WorkRingTest, CompletionsSayWhoseTheyAre) {
  WorkRing ring(4, nullptr);
  auto* const endpoint = reinterpret_cast<RdmaEndpoint*>(&ring);
  ring.SetEndpoint(endpoint);
  ring.Complete(Push(&ring, 1));
  Completion taken;
  bool noteworthy = false;
  ASSERT_EQ(ring.Take({&taken, 1}, &noteworthy), 1u);
  EXPECT_EQ(taken.endpoint, endpoint);
  Push(&ring, 2);
  ring.SetEndpoint(nullptr);
  ring.FlushAll();
  ASSERT_EQ(ring.Take({&taken, 1}, &noteworthy), 1u);
  EXPECT_EQ(taken.endpoint, nullptr);
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
