#include "protocol/datamover/stream/send_queue.h"

#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/codec/wire_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Recorder : public SendQueue::Listener {
 public:
  void OnSent(TaskSlot task, SendQueue::Notice notice, uint32_t bytes,
              bool sent) override {
    notices.push_back(std::to_string(task) +
                      (notice == SendQueue::Notice::kPut ? "p" : "t") +
                      std::to_string(bytes) + (sent ? "+" : "-"));
  }
  std::vector<std::string> notices;
};

// Takes up to `n` bytes off the queue, as a socket would.
std::string Take(SendQueue* queue, size_t n) {
  std::string out = CopyOut(queue->Spans(), n);
  queue->BytesSent(out.size());
  return out;
}

std::string TakeAll(SendQueue* queue, size_t step) {
  std::string out;
  while (!queue->empty()) out += Take(queue, step);
  return out;
}

void Append(SendQueue* queue, const std::string& data, TaskSlot task,
            SendQueue::Notice notice = SendQueue::Notice::kTask) {
  ScsiDataInPdu pdu;
  pdu.initiator_task_tag = task;
  Encode(pdu, queue->Begin());
  queue->Commit(AsBytes(data), task, notice);
}

// What the wire must carry for Append(): built without the queue.
std::string Expected(const std::string& data, TaskSlot task, bool header_digest,
                     bool data_digest) {
  ScsiDataInPdu pdu;
  pdu.initiator_task_tag = task;
  return ToWire(pdu, data, {header_digest, data_digest});
}

TEST(SendQueueTest, CarriesPdusUnchangedInPiecesOfAnySize) {
  for (const bool digests : {false, true}) {
    for (const size_t step : {1, 7, 48, 53, 1000, 100000}) {
      Recorder recorder;
      BlockPool blocks(1 << 20);
      SendQueue queue(&recorder, &blocks);
      const Digest digest = digests ? Digest::kCrc32c : Digest::kNone;
      queue.SetDigests(digest, digest);
      std::string expected;
      std::vector<std::string> data;
      for (uint32_t i = 0; i < 40; ++i)
        data.push_back(RandomBytes(i * 13 % 200, i));
      for (uint32_t i = 0; i < data.size(); ++i) {
        Append(&queue, data[i], i);
        expected += Expected(data[i], i, digests, digests);
      }
      EXPECT_EQ(queue.bytes(), expected.size());
      EXPECT_EQ(TakeAll(&queue, step), expected) << "step " << step;
      EXPECT_EQ(queue.bytes(), 0u);
      EXPECT_EQ(recorder.notices.size(), data.size());
    }
  }
}

TEST(SendQueueTest, GathersPiecesWithAndWithoutDigestsAndAhs) {
  const std::string all = RandomBytes(1000, 1);
  // Pieces of uneven size, an empty one among them.
  std::vector<iovec> pieces;
  size_t at = 0;
  for (const size_t n : {100, 0, 1, 399, 500}) {
    pieces.push_back({const_cast<char*>(all.data()) + at, n});
    at += n;
  }
  for (const bool digests : {false, true}) {
    for (const size_t ahs_size : {0, 8}) {
      for (const size_t offset : {0, 99, 100, 101, 499, 999}) {
        for (const size_t length : {0, 1, 2, 400, 1000}) {
          if (offset + length > all.size()) continue;
          Recorder recorder;
          BlockPool blocks(1 << 20);
          SendQueue queue(&recorder, &blocks);
          const Digest digest = digests ? Digest::kCrc32c : Digest::kNone;
          queue.SetDigests(digest, digest);
          const std::string ahs(ahs_size, 'a');
          ScsiDataOutPdu pdu;
          Encode(pdu, queue.Begin());
          queue.CommitPieces(AsBytes(ahs), pieces.data(),
                             static_cast<int>(pieces.size()), offset,
                             static_cast<uint32_t>(length), 3,
                             SendQueue::Notice::kTask);
          const std::string wire = TakeAll(&queue, 64);
          const size_t header = kBhsSize + ahs_size + (digests ? 4 : 0);
          ASSERT_GE(wire.size(), header);
          EXPECT_EQ(wire.substr(kBhsSize, ahs_size), ahs);
          EXPECT_EQ(wire.substr(header, length), all.substr(offset, length));
          const BhsFrame frame =
              DecodeFrame(reinterpret_cast<const uint8_t*>(wire.data()));
          EXPECT_EQ(frame.data_segment_length, length);
          EXPECT_EQ(frame.ahs_bytes, ahs_size);
          EXPECT_EQ(wire.size(), header + length + PaddingFor(length) +
                                     (digests && length > 0 ? 4 : 0));
          EXPECT_THAT(recorder.notices,
                      ElementsAre("3t" + std::to_string(length) + "+"));
        }
      }
    }
  }
}

TEST(SendQueueTest, TellsOfAPduWhenItsLastByteHasLeft) {
  Recorder recorder;
  BlockPool blocks(1 << 20);
  SendQueue queue(&recorder, &blocks);
  const std::string data = RandomBytes(10, 1);
  Append(&queue, data, 1, SendQueue::Notice::kPut);
  const size_t size = queue.bytes();
  Take(&queue, size - 1);
  EXPECT_THAT(recorder.notices, IsEmpty());
  Take(&queue, 1);
  EXPECT_THAT(recorder.notices, ElementsAre("1p10+"));
}

TEST(SendQueueTest, CancelDropsWhatHasNotBegunAndFinishesTheRestFromACopy) {
  Recorder recorder;
  BlockPool blocks(1 << 20);
  SendQueue queue(&recorder, &blocks);
  std::string first = RandomBytes(1000, 1);
  std::string second = RandomBytes(500, 2);
  const std::string other = RandomBytes(300, 3);
  const std::string expected =
      Expected(first, 1, false, false) + Expected(other, 2, false, false);
  Append(&queue, first, 1, SendQueue::Notice::kPut);
  Append(&queue, second, 1);
  Append(&queue, other, 2);
  std::string wire = Take(&queue, 200);
  queue.Cancel(1);
  EXPECT_THAT(recorder.notices, ElementsAre("1p1000-", "1t500-"));
  // The memory is ours again: what follows must not come from it.
  std::fill(first.begin(), first.end(), 'x');
  std::fill(second.begin(), second.end(), 'x');
  wire += TakeAll(&queue, 77);
  EXPECT_EQ(wire, expected);
  EXPECT_EQ(queue.bytes(), 0u);
}

TEST(SendQueueTest, CancelOfAPduInPiecesKeepsTheStreamWhole) {
  const std::string a = RandomBytes(100, 1);
  const std::string b = RandomBytes(100, 2);
  for (size_t sent = 0; sent <= 248; sent += 31) {
    Recorder recorder;
    BlockPool blocks(1 << 20);
    SendQueue queue(&recorder, &blocks);
    std::string x = a;
    std::string y = b;
    const iovec pieces[] = {{x.data(), x.size()}, {y.data(), y.size()}};
    ScsiDataOutPdu pdu;
    Encode(pdu, queue.Begin());
    queue.CommitPieces({}, pieces, 2, 0, 200, 1, SendQueue::Notice::kTask);
    std::string wire = Take(&queue, sent);
    queue.Cancel(1);
    std::fill(x.begin(), x.end(), 'x');
    std::fill(y.begin(), y.end(), 'x');
    wire += TakeAll(&queue, 50);
    if (sent == 0) {
      EXPECT_EQ(wire, "");
    } else {
      ASSERT_EQ(wire.size(), 248u) << sent;
      EXPECT_EQ(wire.substr(kBhsSize), a + b) << sent;
    }
    EXPECT_EQ(recorder.notices.size(), 1u);
  }
}

// Cancels another task when it is told of one.
class Canceller : public SendQueue::Listener {
 public:
  void OnSent(TaskSlot task, SendQueue::Notice, uint32_t, bool sent) override {
    ++notices;
    if (task == 1 && sent) queue->Cancel(2);
  }
  SendQueue* queue = nullptr;
  int notices = 0;
};

TEST(SendQueueTest, CancelFromANoticeKeepsTheStreamWhole) {
  const std::string data = RandomBytes(100, 1);
  const std::string expected =
      Expected(data, 1, false, false) + Expected(data, 2, false, false);
  Canceller canceller;
  BlockPool blocks(1 << 20);
  SendQueue queue(&canceller, &blocks);
  canceller.queue = &queue;
  Append(&queue, data, 1);
  Append(&queue, data, 2);
  // The first PDU and half of the second leave together.
  std::string wire = Take(&queue, expected.size() - 60);
  wire += TakeAll(&queue, 1000);
  EXPECT_EQ(wire, expected);
  EXPECT_EQ(canceller.notices, 2);
}

TEST(SendQueueTest, ClearTellsOfEverything) {
  Recorder recorder;
  BlockPool blocks(1 << 20);
  SendQueue queue(&recorder, &blocks);
  const std::string data = RandomBytes(10, 1);
  Append(&queue, data, 1);
  Append(&queue, data, 2, SendQueue::Notice::kNone);
  Append(&queue, data, 3);
  queue.Clear();
  EXPECT_THAT(recorder.notices, ElementsAre("1t10-", "3t10-"));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes(), 0u);
}

// The ring is charged while it is big, and given back.
TEST(SendQueueTest, GivesABigRingBack) {
  Recorder recorder;
  MemoryBudget budget(1 << 20);
  BlockPool blocks(0, &budget);
  SendQueue queue(&recorder, &blocks);
  const size_t small = queue.capacity();
  for (int i = 0; i < 2000; ++i) Append(&queue, "", 1);
  EXPECT_GE(queue.capacity(), 2000u);
  EXPECT_GT(budget.use().charged, 100u << 10);
  EXPECT_TRUE(queue.exceeds(100 << 10)) << "more than its bytes are";
  EXPECT_LT(queue.bytes(), 100u << 10);
  TakeAll(&queue, 100000);
  EXPECT_EQ(recorder.notices.size(), 2000u);
  EXPECT_EQ(queue.capacity(), small);
  EXPECT_EQ(budget.use().charged, 0u);
}

// Without memory for the ring nothing leaves; what was taken is told of, and
// what could not be is said at once.
TEST(SendQueueTest, WithoutMemoryForTheRingNothingLeaves) {
  Recorder recorder;
  MemoryBudget budget(1 << 20);
  BlockPool blocks(0, &budget);
  SendQueue queue(&recorder, &blocks);
  for (size_t i = 0; i < queue.capacity(); ++i) Append(&queue, "", 1);
  const size_t taken = queue.capacity();
  budget.RefuseEvery(1);
  ScsiDataInPdu pdu;
  Encode(pdu, queue.Begin());
  EXPECT_FALSE(queue.Commit({}, 2, SendQueue::Notice::kPut));
  EXPECT_TRUE(queue.out_of_memory());
  EXPECT_TRUE(queue.Spans().empty());
  std::array<uint8_t, kBhsSize> bhs = {};
  const std::string data = "more";
  EXPECT_FALSE(queue.AppendCopy(bhs.data(), {}, AsBytes(data), 2,
                                SendQueue::Notice::kTask));
  queue.Clear();
  EXPECT_EQ(recorder.notices.size(), taken);
}

// A PDU without memory for its data has no size: it keeps its notice when
// another task is cancelled.
TEST(SendQueueTest, APduWithoutMemoryKeepsItsNotice) {
  Recorder recorder;
  MemoryBudget budget(1 << 20);
  BlockPool blocks(0, &budget);
  SendQueue queue(&recorder, &blocks);
  queue.SetDigests(Digest::kNone, Digest::kCrc32c);
  budget.RefuseEvery(1);
  Append(&queue, "data", 1);
  EXPECT_TRUE(queue.out_of_memory());
  queue.Cancel(2);
  queue.Clear();
  EXPECT_THAT(recorder.notices, ElementsAre("1t4-"));
}

}  // namespace
}  // namespace skiff::protocol
