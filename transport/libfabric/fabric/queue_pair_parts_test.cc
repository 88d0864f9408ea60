// What a queue pair is made of, without a provider.

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "transport/libfabric/fabric/held_work.h"
#include "transport/libfabric/fabric/operation_counts.h"
#include "transport/libfabric/fabric/operation_ring.h"
#include "transport/libfabric/fabric/shm_reads.h"

namespace skiff::transport {
namespace {

constexpr auto kSend = OperationKind::kSend;
constexpr auto kRead = OperationKind::kRead;
constexpr auto kWrite = OperationKind::kWrite;

OperationSlot SlotOf(OperationKind kind) {
  OperationSlot slot;
  slot.outcome.kind = kind;
  return slot;
}

TEST(OperationCountsTest, AProviderThatKeepsTheOrderNeedsNone) {
  const OperationCounts counts({});
  EXPECT_FALSE(counts.wanted());
  EXPECT_FALSE(counts.Fenced(kSend));
}

TEST(OperationCountsTest, ASendWaitsForWritesThatItMayPass) {
  OperationCounts counts({.send_passes_write = true});
  EXPECT_TRUE(counts.wanted());
  const OperationSlot first = SlotOf(kWrite);
  const OperationSlot second = SlotOf(kWrite);
  counts.Issued(first, 1);
  counts.Issued(second, 1);
  EXPECT_TRUE(counts.Fenced(kSend));
  EXPECT_FALSE(counts.Fenced(kWrite));
  EXPECT_FALSE(counts.Fenced(kRead));
  counts.Done(first);
  EXPECT_TRUE(counts.Fenced(kSend));
  counts.Failed(kWrite);
  EXPECT_FALSE(counts.Fenced(kSend));
}

TEST(OperationCountsTest, NothingIsPostedBehindAReadThatItMustNotPass) {
  OperationCounts counts({.completes_before_reads = true});
  const OperationSlot read = SlotOf(kRead);
  counts.Issued(read, 1);
  EXPECT_TRUE(counts.Fenced(kSend));
  EXPECT_TRUE(counts.Fenced(kWrite));
  EXPECT_FALSE(counts.Fenced(kRead));
  counts.Done(read);
  EXPECT_FALSE(counts.Fenced(kSend));
  counts.NothingIssued();
  EXPECT_TRUE(counts.Fenced(kSend));
  counts.NothingDone();
  EXPECT_FALSE(counts.Fenced(kSend));
}

TEST(OperationCountsTest, ALongWriteIsServedWhenItIsDone) {
  OperationCounts counts({.peer = true, .eager_message_bytes = 100});
  const OperationSlot first = SlotOf(kWrite);
  const OperationSlot second = SlotOf(kWrite);
  counts.Issued(first, 101);
  counts.Issued(second, 101);
  EXPECT_TRUE(counts.unserved_writes());
  counts.Done(first);
  EXPECT_TRUE(counts.unserved_writes());
  counts.Done(second);
  EXPECT_FALSE(counts.unserved_writes());
  EXPECT_EQ(counts.one_sided(), 2u);
}

TEST(OperationCountsTest, AShortWriteIsServedWhenAReadBehindItIsDone) {
  OperationCounts counts({.peer = true, .eager_message_bytes = 100});
  const OperationSlot write = SlotOf(kWrite);
  const OperationSlot read = SlotOf(kRead);
  counts.Issued(write, 100);
  counts.Done(write);
  EXPECT_TRUE(counts.unserved_writes());
  counts.Issued(read, 1);
  counts.Done(read);
  EXPECT_FALSE(counts.unserved_writes());
}

TEST(HeldWorkTest, KeepsACopyOfWhatIsInline) {
  std::vector<uint8_t> memory = {1, 2, 3, 4, 5};
  FabricWork work = {};
  work.pieces[0] = {memory.data(), 2};
  work.pieces[1] = {memory.data() + 2, 3};
  work.count = 2;
  work.length = 5;
  work.is_inline = true;
  HeldWork held(/*indices=*/4, /*inline_bytes=*/8);
  held.Keep(3, work);
  memory.assign(5, 0);
  const FabricPieces pieces = held.Of(3).AsPieces();
  ASSERT_EQ(pieces.count, 1u);
  EXPECT_EQ(pieces.descriptors, nullptr);
  const auto* bytes = static_cast<const uint8_t*>(pieces.iovecs[0].iov_base);
  EXPECT_EQ(std::vector<uint8_t>(bytes, bytes + pieces.iovecs[0].iov_len),
            std::vector<uint8_t>({1, 2, 3, 4, 5}));
}

TEST(HeldWorkTest, ARequestOfNothingNeedsNoRoom) {
  FabricWork work = {};
  work.pieces[0] = {work.pieces, 0};
  work.count = 1;
  work.is_inline = true;
  HeldWork held(/*indices=*/1, /*inline_bytes=*/0);
  held.Keep(0, work);
  EXPECT_EQ(held.Of(0).AsPieces().length, 0u);
}

TEST(HeldWorkTest, AReadThatIsHeldMayBecomeDue) {
  uint8_t memory[8] = {};
  int descriptor = 0;
  FabricWork work = {};
  work.pieces[0] = {memory, sizeof(memory)};
  work.descriptors[0] = &descriptor;
  work.count = 1;
  work.length = sizeof(memory);
  work.remote = {77, {88}};
  HeldWork held(/*indices=*/2, /*inline_bytes=*/0);
  held.Keep(0, work);
  held.KeepRead(0, held.Of(0).AsPieces(), held.Of(0).remote);
  held.KeepRead(1, held.Of(0).AsPieces(), held.Of(0).remote);
  for (const uint32_t index : {0u, 1u}) {
    const FabricWork& kept = held.Of(index);
    EXPECT_EQ(kept.AsPieces().iovecs[0].iov_base, memory);
    EXPECT_EQ(kept.AsPieces().descriptors[0], &descriptor);
    EXPECT_EQ(kept.length, sizeof(memory));
    EXPECT_EQ(kept.remote.address, 77u);
    EXPECT_EQ(kept.remote.key.value, 88u);
  }
}

TEST(ShmReadsTest, WhatIsDueComesInOrderRoundTheRing) {
  ShmReads reads(/*allowance=*/1, /*indices=*/2);
  OperationSlot slots[2];
  EXPECT_FALSE(reads.has_due());
  for (uint64_t round = 0; round < 3; ++round) {
    reads.PutDue(&slots[0]);
    reads.PutDue(&slots[1]);
    EXPECT_EQ(reads.OldestDue(), &slots[0]);
    reads.DueDone();
    EXPECT_EQ(reads.OldestDue(), &slots[1]);
    reads.DueDone();
    EXPECT_FALSE(reads.has_due());
    EXPECT_EQ(reads.due_done(), 2 * (round + 1));
  }
  reads.PutDue(&slots[0]);
  reads.DropDue();
  EXPECT_FALSE(reads.has_due());
}

TEST(ShmReadsTest, ThereIsAlwaysOneReadForALook) {
  const ShmReads reads(/*allowance=*/0, /*indices=*/1);
  EXPECT_TRUE(reads.has_allowance());
  EXPECT_FALSE(reads.available());
  EXPECT_TRUE(reads.why_no_reader().ok());
}

}  // namespace
}  // namespace skiff::transport
