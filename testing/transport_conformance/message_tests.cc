// SEND and RECEIVE.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::CompletionStatus;
using transport::DamageScope;
using transport::OperationKind;
using transport::PostResult;

class MessageTest : public ConformancePair {
 protected:
  // Sends `length` bytes and checks all there is to check about them.
  void Exchange(EndHandle& from, EndHandle& to, size_t length, uint64_t seed);
  size_t Largest() {
    return std::min(client().capabilities().max_message_bytes, scale().largest);
  }
};

SKIFF_CONFORMANCE_SUITE(MessageTest, RdmaFactories);

void MessageTest::Exchange(EndHandle& from, EndHandle& to, size_t length,
                           uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "a message of " << length << " bytes");
  const MemoryHandle source = from.Memory(length + 1);
  const MemoryHandle sink = to.Memory(length + 16);
  source.Fill(seed);
  const Posted receive = to.Receive({sink.All()});
  const Posted send = from.Send({source.Part(0, length)});
  const Arrived sent = Succeed(from, send, "SEND");
  const Arrived received = Succeed(to, receive, "RECEIVE");
  EXPECT_EQ(sent.kind, OperationKind::kSend);
  EXPECT_EQ(received.kind, OperationKind::kReceive);
  EXPECT_EQ(received.bytes, length)
      << "Completion::bytes is the number of received bytes";
  EXPECT_FALSE(received.invalidated) << "the SEND invalidated nothing";
  ExpectBytes(sink, 0, length, seed);
  ExpectUntouched(sink, length, 16);
}

TEST_P(MessageTest, SizesAroundEveryBoundary) {
  Connect();
  const size_t inline_bytes = client().capabilities().max_inline_bytes;
  std::set<size_t> sizes = {0, 1, 2, 63, 64, 65};
  for (const size_t edge : {inline_bytes, scale().mtu, 2 * scale().mtu}) {
    for (const size_t size : {edge - 1, edge, edge + 1}) {
      if (size <= Largest()) sizes.insert(size);
    }
  }
  uint64_t seed = 1;
  for (const size_t size : sizes) {
    Exchange(client(), server(), size, seed++);
    Exchange(server(), client(), size, seed++);
  }
}

TEST_P(MessageTest, LargestMessage) {
  Connect();
  Exchange(client(), server(), Largest() - 1, 1);
  Exchange(client(), server(), Largest(), 2);
  Exchange(server(), client(), Largest(), 3);
}

TEST_P(MessageTest, LongerThanTheLimitFails) {
  Connect();
  const size_t limit = client().capabilities().max_message_bytes;
  if (limit >= scale().largest) {
    // Never allocated: only a lie about a length can exceed the limit.
    NotSupported("exceeding a limit of " + std::to_string(limit) +
                 " bytes with memory of " + std::to_string(scale().largest));
    return;
  }
  const MemoryHandle source = client().Memory(limit + 1);
  const MemoryHandle sink = server().Memory(limit + 1);
  server().Receive({sink.All()});
  const Arrived sent =
      Await(client(), client().Send({source.All()}), "SEND beyond the limit");
  EXPECT_NE(sent.status, CompletionStatus::kOk);
  ExpectUntouched(sink);
}

TEST_P(MessageTest, GathersAndScatters) {
  EndPlan plan;
  plan.max_sges = std::min({4u, expected().capabilities.max_send_sges,
                            expected().capabilities.max_receive_sges});
  Connect(plan, plan);
  const size_t count = plan.max_sges;
  constexpr size_t kPart = 1000;
  const MemoryHandle source = client().Memory(count * kPart);
  const MemoryHandle sink = server().Memory(count * (kPart + 100));
  // Piece i has the bytes of seed i; pieces are sent from last to first, and
  // meet pieces of other lengths.
  std::vector<Piece> gather;
  std::vector<Piece> scatter;
  for (size_t i = 0; i < count; ++i) {
    source.FillPart(i * kPart, kPart, i);
    gather.push_back(source.Part((count - 1 - i) * kPart, kPart));
    scatter.push_back(sink.Part(i * (kPart + 100), kPart + (i == 0 ? 1 : 0)));
  }
  if (count > 1) --scatter.back().length;
  const Posted receive = server().Receive(scatter);
  Succeed(client(), client().Send(gather), "SEND with a gather list");
  const Arrived received =
      Succeed(server(), receive, "RECEIVE with a scatter list");
  EXPECT_EQ(received.bytes, count * kPart);
  size_t position = 0;  // Of the message.
  for (const Piece& piece : scatter) {
    for (size_t done = 0; done < piece.length;) {
      const size_t from = (position + done) / kPart;
      const size_t skip = (position + done) % kPart;
      const size_t part = std::min(kPart - skip, piece.length - done);
      ExpectBytes(sink, piece.offset + done, part, count - 1 - from, skip);
      done += part;
    }
    position += piece.length;
    ExpectUntouched(sink, piece.offset + piece.length, 99);
  }
}

TEST_P(MessageTest, EmptyPiecesOfAGatherListAreNothing) {
  Connect();
  if (expected().capabilities.max_send_sges < 3) {
    NotSupported("gather lists of three");
    return;
  }
  const MemoryHandle source = client().Memory(300);
  const MemoryHandle sink = server().Memory(300);
  source.Fill(9);
  const Posted receive = server().Receive({sink.All()});
  Succeed(client(),
          client().Send({source.Part(0, 100), source.Part(100, 0),
                         source.Part(100, 200)}),
          "SEND");
  EXPECT_EQ(Succeed(server(), receive, "RECEIVE").bytes, 300u);
  ExpectBytes(sink, 0, 300, 9);
}

TEST_P(MessageTest, InlineFromUnregisteredMemoryThatIsReused) {
  EndPlan plan;
  plan.inline_bytes = 64;
  Connect(plan, plan);
  const size_t size = client().capabilities().max_inline_bytes;
  if (expected().capabilities.max_inline_bytes == 0) {
    EXPECT_EQ(size, 0u) << "the table declares no inline data";
    NotSupported("inline data");
    return;
  }
  ASSERT_GT(size, 0u) << "the table declares inline data";
  const MemoryHandle source = client().Unregistered(size);
  const MemoryHandle sink = server().Memory(size);
  const Posted receive = server().Receive({sink.All()});
  source.Fill(3);
  Operation send;
  send.pieces = {source.All()};
  send.pieces[0].unregistered = true;
  const Posted posted = client().Post(send);
  // The memory is free again when the post returns, even before Flush().
  source.Fill(4);
  client().Flush();
  Succeed(client(), posted, "inline SEND from unregistered memory");
  Succeed(server(), receive, "RECEIVE");
  ExpectBytes(sink, 0, size, 3);
}

TEST_P(MessageTest, KeepTheirOrder) {
  constexpr uint32_t kDepth = 16;
  constexpr size_t kSize = 200;
  const uint32_t total = static_cast<uint32_t>(scale().operations);
  Connect();
  const MemoryHandle source = client().Memory(kDepth * kSize);
  const MemoryHandle sink = server().Memory(kDepth * kSize);
  std::vector<Posted> receives;
  auto post_receive = [&](uint32_t i) {
    receives.push_back(
        server().Receive({sink.Part(i % kDepth * kSize, kSize)}));
  };
  for (uint32_t i = 0; i < kDepth; ++i) post_receive(i);
  std::vector<Posted> sends;
  for (uint32_t i = 0; i < total && !HasFailure(); ++i) {
    if (i >= kDepth) {
      // What message i - kDepth left there is checked before it is used again.
      const uint32_t old = i - kDepth;
      const Arrived received =
          Succeed(server(), receives[old], "RECEIVE in a row");
      EXPECT_EQ(received.bytes, 1 + old % kSize);
      ExpectBytes(sink, old % kDepth * kSize, received.bytes, old);
      Succeed(client(), sends[old], "SEND in a row");
      post_receive(i);
    }
    source.FillPart(i % kDepth * kSize, 1 + i % kSize, i);
    sends.push_back(
        client().Send({source.Part(i % kDepth * kSize, 1 + i % kSize)}));
  }
}

TEST_P(MessageTest, SourceIsUsedUntilTheCompletionAndNotAfter) {
  Connect();
  const size_t size = std::min<size_t>(Largest(), 64 << 10);
  const MemoryHandle source = client().Memory(size);
  for (uint64_t round = 0; round < 20 && !HasFailure(); ++round) {
    const MemoryHandle sink = server().Memory(size);
    const Posted receive = server().Receive({sink.All()});
    source.Fill(round);
    Succeed(client(), client().Send({source.All()}), "SEND");
    source.Fill(1000 + round);  // Ours again.
    Succeed(server(), receive, "RECEIVE");
    ExpectBytes(sink, 0, size, round);
  }
}

TEST_P(MessageTest, ReceivesPostedInPrepareMeetTheFirstMessage) {
  EndPlan client_plan;
  client_plan.receives = 4;
  client_plan.receive_bytes = 100;
  Connect(client_plan);
  const MemoryHandle source = server().Memory(400);
  source.Fill(5);
  std::vector<Posted> sends;
  for (size_t i = 0; i < 4; ++i) {
    sends.push_back(server().Send({source.Part(i * 100, 100)}));
  }
  for (const Posted& send : sends) Succeed(server(), send, "SEND");
  const MemoryHandle sink = {&client_host(), client().State().receive_buffer,
                             400};
  for (uint32_t i = 0; i < 4; ++i) {
    const Arrived received = Succeed(client(), {PostResult::kAccepted, i},
                                     "RECEIVE that was posted in prepare()");
    EXPECT_EQ(received.bytes, 100u);
  }
  ExpectBytes(sink, 0, 400, 5);
}

TEST_P(MessageTest, ReceiverThatIsNotReady) {
  Connect();
  const MemoryHandle source = client().Memory(100);
  const MemoryHandle sink = server().Memory(100);
  source.Fill(1);
  const Posted send = client().Send({source.All()});
  if (expected().capabilities.receiver_not_ready_retry) {
    // It waits; a RECEIVE that comes soon is soon enough.
    world().RunUntil([] { return false; }, absl::Milliseconds(2));
    const Posted receive = server().Receive({sink.All()});
    Succeed(client(), send, "SEND that had to wait for a RECEIVE");
    Succeed(server(), receive, "late RECEIVE");
    ExpectBytes(sink, 0, 100, 1);
    return;
  }
  const Arrived sent = Await(client(), send, "SEND that met no RECEIVE");
  // The sender may have completed before the receiver broke the connection.
  if (sent.status != CompletionStatus::kOk) {
    EXPECT_EQ(sent.scope, DamageScope::kConnection);
  }
  AwaitEnd(server());
  AwaitEnd(client());
  ExpectUntouched(sink);
}

TEST_P(MessageTest, TooLongForThePostedBuffer) {
  Connect();
  const MemoryHandle source = client().Memory(1000);
  const MemoryHandle sink = server().Memory(1000);
  source.Fill(1);
  const Posted receive = server().Receive({sink.Part(0, 999)});
  const Posted send = client().Send({source.All()});
  const Arrived received =
      Await(server(), receive, "RECEIVE that is too short");
  EXPECT_EQ(received.status, CompletionStatus::kTooLong)
      << "the status says that the message did not fit";
  EXPECT_EQ(received.scope, DamageScope::kConnection);
  Await(client(), send, "SEND that is too long for its RECEIVE");
  AwaitEnd(server());
  AwaitEnd(client());
  ExpectUntouched(sink, 999, 1);
}

TEST_P(MessageTest, BothWaysAtOnce) {
  Connect();
  constexpr uint32_t kCount = 32;
  const MemoryHandle client_memory = client().Memory(kCount * 128);
  const MemoryHandle server_memory = server().Memory(kCount * 128);
  const MemoryHandle source_a = client().Memory(128);
  const MemoryHandle source_b = server().Memory(128);
  source_a.Fill(1);
  source_b.Fill(2);
  std::vector<Posted> receives[2];
  std::vector<Posted> sends[2];
  for (uint32_t i = 0; i < kCount; ++i) {
    receives[0].push_back(client().Receive({client_memory.Part(i * 128, 128)}));
    receives[1].push_back(server().Receive({server_memory.Part(i * 128, 128)}));
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    sends[0].push_back(client().Send({source_a.All()}));
    sends[1].push_back(server().Send({source_b.All()}));
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    Succeed(client(), sends[0][i], "SEND of the connecting side");
    Succeed(server(), sends[1][i], "SEND of the listening side");
    Succeed(client(), receives[0][i], "RECEIVE of the connecting side");
    Succeed(server(), receives[1][i], "RECEIVE of the listening side");
    ExpectBytes(client_memory, i * 128, 128, 2);
    ExpectBytes(server_memory, i * 128, 128, 1);
  }
}

}  // namespace
}  // namespace skiff::testing
