// Receives that many endpoints share.
#include <cstdint>
#include <utility>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;

constexpr uint32_t kReceives = 8;
constexpr size_t kBytes = 128;

class SharedReceiveTest : public ConformancePair {
 protected:
  // Connects two pairs whose listening ends share kReceives receives, of which
  // none is posted yet. False: there are none, which is then tested instead.
  bool ConnectShared();
  void PostReceives(uint32_t count) {
    if (sink_.host == nullptr) sink_ = server().Memory(kReceives * kBytes);
    for (uint32_t i = 0; i < count; ++i) {
      Operation receive;
      receive.kind = OperationKind::kReceive;
      receive.pieces = {sink_.Part(i * kBytes, kBytes)};
      const Posted posted = server_host().PostShared(queue_, receive);
      EXPECT_EQ(posted.result, PostResult::kAccepted) << "RECEIVE " << i;
    }
  }

  int queue_ = -1;
  MemoryHandle sink_;
  EndHandle other_client_;
  EndHandle other_server_;
};

SKIFF_CONFORMANCE_SUITE(SharedReceiveTest, RdmaFactories);

bool SharedReceiveTest::ConnectShared() {
  queue_ = server_host().NewQueue(256, kReceives);
  EndPlan shared;
  shared.send_queue = 16;
  shared.receive_queue = 16;
  shared.queue = queue_;
  shared.share_receives = true;
  if (!expected().capabilities.shared_receive_queue) {
    ListenPlan plan;
    plan.accept = shared;
    const auto listener = server_host().Listen(plan);
    EXPECT_TRUE(listener.ok()) << listener.status();
    if (!listener.ok()) return false;
    client_host().Connect(server_host().ListenAddress(*listener), {});
    EXPECT_TRUE(Wait([&] {
      const ListenerState state = server_host().StateOfListener(*listener);
      return !state.ends.empty() &&
             server_host().State(state.ends[0]).phase != EndPhase::kConnecting;
    }));
    const EndState far = server_host().State(
        server_host().StateOfListener(*listener).ends.at(0));
    EXPECT_EQ(far.phase, EndPhase::kFailed);
    EXPECT_EQ(far.status.code(), absl::StatusCode::kUnimplemented)
        << "CreateSharedReceiveQueue() has to be refused: " << far.status;
    NotSupported("shared receive queues");
    return false;
  }
  Connect({}, shared);
  std::tie(other_client_, other_server_) = ConnectAnother({}, shared);
  return other_server_.host() != nullptr;
}

TEST_P(SharedReceiveTest, MessagesOfManyEndpointsTakeTheOldest) {
  if (!ConnectShared()) return;
  PostReceives(kReceives);
  const MemoryHandle source = client().Memory(kBytes);
  const MemoryHandle other = other_client_.Memory(kBytes);
  for (uint32_t i = 0; i < kReceives && !HasFailure(); ++i) {
    EndHandle& from = i % 2 == 0 ? client() : other_client_;
    EndHandle& to = i % 2 == 0 ? server() : other_server_;
    const MemoryHandle& memory = i % 2 == 0 ? source : other;
    memory.Fill(i);
    Succeed(from, from.Send({memory.All()}), "SEND to a shared queue");
    const size_t before = i / 2;
    ASSERT_TRUE(Wait([&] {
      to.Poll();
      return to.shared_arrived().size() > before;
    })) << "message "
        << i << " did not complete with the endpoint that received it";
    const Arrived& received = to.shared_arrived().back();
    EXPECT_EQ(received.status, CompletionStatus::kOk);
    EXPECT_EQ(received.id, i) << "a message has to take the oldest RECEIVE";
    EXPECT_EQ(received.bytes, kBytes);
    ExpectBytes(sink_, i * kBytes, kBytes, i);
  }
}

TEST_P(SharedReceiveTest, FullQueueWouldBlock) {
  if (!ConnectShared()) return;
  PostReceives(kReceives);
  Operation receive;
  receive.kind = OperationKind::kReceive;
  receive.pieces = {sink_.Part(0, kBytes)};
  uint32_t more = 0;
  while (more < 10000 && server_host().PostShared(queue_, receive).result ==
                             PostResult::kAccepted) {
    ++more;
  }
  EXPECT_LT(more, 10000u) << "a queue of " << kReceives << " never fills";
}

TEST_P(SharedReceiveTest, EndpointsHaveNoReceivesOfTheirOwn) {
  if (!ConnectShared()) return;
  const MemoryHandle memory = server().Memory(kBytes);
  EXPECT_EQ(server().Receive({memory.All()}).result, PostResult::kClosed)
      << "with a shared receive queue, receives are posted there";
}

TEST_P(SharedReceiveTest, AnEndpointsEndLeavesTheQueueAlone) {
  if (!ConnectShared()) return;
  PostReceives(kReceives);
  client().Disconnect();
  AwaitEnd(server());
  Quiet();
  EXPECT_TRUE(server().shared_arrived().empty())
      << "RECEIVEs of a shared queue stay in it when a connection ends";
  const MemoryHandle source = other_client_.Memory(kBytes);
  source.Fill(3);
  Succeed(other_client_, other_client_.Send({source.All()}),
          "SEND of the connection that is left");
  EXPECT_TRUE(Wait([&] {
    other_server_.Poll();
    return other_server_.shared_arrived().size() == 1;
  }));
  ExpectBytes(sink_, 0, kBytes, 3);
}

TEST_P(SharedReceiveTest, WhatIsLeftIsFlushedWhenTheQueueGoes) {
  if (!ConnectShared()) return;
  PostReceives(kReceives);
  for (EndHandle* end : {&server(), &other_server_}) {
    end->Disconnect();
    AwaitEnd(*end);
    end->Destroy();
  }
  server_host().DropSharedReceives(queue_);
  std::vector<Arrived> left;
  EXPECT_TRUE(Wait([&] {
    for (const Arrived& arrived : server_host().PollShared(queue_)) {
      left.push_back(arrived);
    }
    return left.size() == kReceives;
  })) << left.size()
      << " of " << kReceives << " RECEIVEs completed";
  for (const Arrived& arrived : left) {
    EXPECT_EQ(arrived.status, CompletionStatus::kFlushed);
    EXPECT_TRUE(arrived.orphan) << "these belong to no endpoint";
  }
}

}  // namespace
}  // namespace skiff::testing
