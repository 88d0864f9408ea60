// Queues fill, say so, and lose no slot.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Access;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;

class FlowControlTest : public ConformancePair {
 protected:
  // WRITEs until the send queue is full, waits for all of them; how many there
  // were.
  uint32_t FillSendQueue();
  uint32_t FillReceiveQueue(EndHandle& end, const MemoryHandle& memory);
};

SKIFF_CONFORMANCE_SUITE(FlowControlTest, RdmaFactories);

constexpr uint32_t kFarTooMany = 100'000;

uint32_t FlowControlTest::FillSendQueue() {
  const MemoryHandle source = client().Memory(64);
  const MemoryHandle target = server().Memory(64, Access::kRemoteWrite);
  Operation write;
  write.kind = OperationKind::kWrite;
  write.pieces = {source.All()};
  write.remote = target.Remote();
  std::vector<Posted> posted;
  Posted last;
  do {
    last = client().Post(write);
    if (last.result == PostResult::kAccepted) posted.push_back(last);
    if (posted.size() % 8 == 0) client().Flush();
  } while (last.result == PostResult::kAccepted && posted.size() < kFarTooMany);
  EXPECT_EQ(last.result, PostResult::kWouldBlock)
      << "a full send queue answers kWouldBlock";
  client().Flush();
  for (const Posted& one : posted) Succeed(client(), one, "WRITE");
  return static_cast<uint32_t>(posted.size());
}

uint32_t FlowControlTest::FillReceiveQueue(EndHandle& end,
                                           const MemoryHandle& memory) {
  uint32_t accepted = 0;
  PostResult last = PostResult::kAccepted;
  while (accepted < kFarTooMany) {
    last = end.Receive({memory.All()}).result;
    if (last != PostResult::kAccepted) break;
    ++accepted;
  }
  EXPECT_EQ(last, PostResult::kWouldBlock)
      << "a full receive queue answers kWouldBlock";
  return accepted;
}

TEST_P(FlowControlTest, SendQueueFillsAndEmpties) {
  EndPlan plan;
  plan.send_queue = 16;
  Connect(plan);
  const uint32_t limit = client().capabilities().max_send_queue;
  for (int round = 0; round < 4; ++round) {
    const uint32_t room = FillSendQueue();
    EXPECT_GE(room, 16u) << "room for 16 requests was asked for";
    EXPECT_LE(room, limit) << "more than capabilities().max_send_queue";
  }
}

TEST_P(FlowControlTest, ReceiveQueueFillsAndEmpties) {
  EndPlan plan;
  plan.receive_queue = 16;
  Connect({}, plan);
  const MemoryHandle sink = server().Memory(64);
  const MemoryHandle source = client().Memory(64);
  const uint32_t room = FillReceiveQueue(server(), sink);
  EXPECT_GE(room, 16u) << "room for 16 receives was asked for";
  EXPECT_LE(room, server().capabilities().max_receive_queue)
      << "more than capabilities().max_receive_queue";
  // Every message makes room for one more.
  for (uint32_t i = 0; i < room; ++i) {
    Succeed(client(), client().Send({source.All()}), "SEND");
    Succeed(server(), {PostResult::kAccepted, i}, "RECEIVE");
    ASSERT_EQ(server().Receive({sink.All()}).result, PostResult::kAccepted)
        << "message " << i << " gave no slot back";
  }
}

// Whoever knows the device chooses: ConnectOptions::receive_queue would be more
// than it has.
TEST_P(FlowControlTest, ReceiveQueueIsAsLongAsTheDeviceMakesIt) {
  EndPlan plan;
  plan.receive_queue = UINT32_MAX / 2;
  plan.receive_queue_of_device = 16;
  Connect(plan, plan);
  const MemoryHandle sink = server().Memory(64);
  const uint32_t room = FillReceiveQueue(server(), sink);
  EXPECT_GE(room, 16u) << "room for 16 receives was asked for";
  EXPECT_LE(room, server().capabilities().max_receive_queue)
      << "more than capabilities().max_receive_queue";
  for (EndHandle* end : {&client(), &server()}) {
    EXPECT_LT(end->capabilities().max_receive_queue,
              expected().capabilities.max_receive_queue)
        << "as long as the device allows";
  }
}

TEST_P(FlowControlTest, ProgressAfterWouldBlock) {
  EndPlan plan;
  plan.send_queue = 4;
  plan.receive_queue = 64;
  Connect(plan, plan);
  const MemoryHandle source = client().Memory(1000);
  const MemoryHandle sink = server().Memory(1000);
  const uint32_t total = static_cast<uint32_t>(scale().operations);
  const uint32_t window = std::min(64u, total);
  for (uint32_t i = 0; i < window; ++i) server().Receive({sink.All()});
  uint32_t sent = 0;
  uint32_t blocked = 0;
  uint32_t received = 0;
  EXPECT_TRUE(Wait([&] {
    while (sent < total && sent < received + window) {
      const PostResult result = client().Send({source.All()}).result;
      if (result == PostResult::kWouldBlock) ++blocked;
      if (result != PostResult::kAccepted) break;
      ++sent;
    }
    client().Poll();
    server().Poll();
    const uint32_t arrived = static_cast<uint32_t>(server().arrived().size());
    for (; received < arrived; ++received) server().Receive({sink.All()});
    return received == total;
  })) << received
      << " of " << total << " messages arrived, " << sent << " were accepted";
  EXPECT_GT(blocked, 0u) << "a send queue of 4 never filled";
}

// The loop under a whole stack: a window of receives, each posted again when
// its message was taken.
TEST_P(FlowControlTest, NoCreditIsLostInManyMessages) {
  constexpr uint32_t kWindow = 32;
  constexpr size_t kSize = 64;
  EndPlan plan;
  plan.send_queue = kWindow;
  plan.receive_queue = kWindow;
  Connect(plan, plan);
  const uint32_t room_before = FillSendQueue();
  const MemoryHandle source = client().Memory(kWindow * kSize);
  const MemoryHandle sink = server().Memory(kWindow * kSize);
  auto* near = &client_host();
  auto* far = &server_host();
  Operation send;
  Operation receive;
  receive.kind = OperationKind::kReceive;
  const auto post_receive = [&](uint32_t i) {
    receive.pieces = {sink.Part(i % kWindow * kSize, kSize)};
    return far->Post(server().number(), receive).result;
  };
  for (uint32_t i = 0; i < kWindow; ++i) {
    ASSERT_EQ(post_receive(i), PostResult::kAccepted);
  }
  const uint32_t total = static_cast<uint32_t>(scale().messages);
  uint32_t sent = 0;
  uint32_t acknowledged = 0;
  uint32_t received = 0;
  uint32_t last_received = ~0u;
  const auto progress = [&] {
    while (sent < total && sent < received + kWindow &&
           sent < acknowledged + kWindow) {
      const size_t offset = sent % kWindow * kSize;
      near->Fill(source.id, offset, 8, sent);
      send.pieces = {source.Part(offset, kSize)};
      if (near->Post(client().number(), send).result != PostResult::kAccepted) {
        break;
      }
      ++sent;
    }
    near->Flush(client().number());
    for (const Arrived& done : near->Poll(client().number())) {
      if (done.status != CompletionStatus::kOk) return true;
      ++acknowledged;
    }
    for (const Arrived& done : far->Poll(server().number())) {
      if (done.status != CompletionStatus::kOk) return true;
      const size_t offset = received % kWindow * kSize;
      if (far->Mismatch(sink.id, offset, 8, received, 0) >= 0) {
        ADD_FAILURE() << "message " << received << " is another one";
        return true;
      }
      ++received;
      if (post_receive(received - 1) != PostResult::kAccepted) {
        ADD_FAILURE() << "message " << received << " gave no slot back";
        return true;
      }
    }
    far->Flush(server().number());
    return received == total && acknowledged == total;
  };
  // As long as something moves, there is time.
  bool done = false;
  while (!done && received != last_received && !HasFailure()) {
    last_received = received;
    done = Wait([&] { return progress() || received - last_received > 10000; });
    done = received == total && acknowledged == total;
  }
  EXPECT_TRUE(done) << "stuck after " << sent << " messages posted, "
                    << acknowledged << " completed, " << received
                    << " received";
  EXPECT_EQ(FillSendQueue(), room_before)
      << "the send queue has less room than before: slots were lost";
}

}  // namespace
}  // namespace skiff::testing
