// Completions: exactly one each, in order, and how to sleep until they come.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Access;
using transport::CompletionStatus;
using transport::DamageScope;
using transport::PostResult;

class CompletionTest : public ConformancePair {
 protected:
  // Nothing more completes than what was waited for; duplicates are found by
  // the hosts.
  void ExpectNothingOutstanding() {
    Quiet();
    EXPECT_EQ(client().State().outstanding, 0u);
    EXPECT_EQ(server().State().outstanding, 0u);
  }
};

SKIFF_CONFORMANCE_SUITE(CompletionTest, RdmaFactories);

TEST_P(CompletionTest, ExactlyOneForEveryPost) {
  Connect();
  constexpr uint32_t kBatch = 16;
  const MemoryHandle source = client().Memory(100, Access::kRemoteWrite);
  const MemoryHandle sink = server().Memory(kBatch * 100);
  const MemoryHandle target =
      server().Memory(100, Access::kRemoteRead | Access::kRemoteWrite);
  for (int round = 0; round < 8 && !HasFailure(); ++round) {
    std::vector<Posted> receives;
    std::vector<Posted> requests;
    for (uint32_t i = 0; i < kBatch; ++i) {
      receives.push_back(server().Receive({sink.Part(i * 100, 100)}));
      requests.push_back(client().Send({source.All()}));
      if (i % 4 == 0) {
        requests.push_back(client().Write({source.All()}, target.Remote()));
      }
      if (i % 8 == 0) {
        requests.push_back(client().Read({source.All()}, target.Remote()));
      }
    }
    for (const Posted& posted : requests) Succeed(client(), posted, "request");
    for (const Posted& posted : receives) Succeed(server(), posted, "RECEIVE");
  }
  ExpectNothingOutstanding();
}

TEST_P(CompletionTest, RequestsOfAllKindsCompleteInPostingOrder) {
  Connect();
  const MemoryHandle big = client().Memory(64 << 10, Access::kRemoteWrite);
  const MemoryHandle target =
      server().Memory(64 << 10, Access::kRemoteRead | Access::kRemoteWrite);
  const MemoryHandle sink = server().Memory(100);
  // A READ has the longer way; the SEND behind it still completes after it.
  // That it does is checked for every completion.
  std::vector<Posted> posted;
  for (int i = 0; i < 8; ++i) {
    server().Receive({sink.All()});
    posted.push_back(client().Read({big.All()}, target.Remote()));
    posted.push_back(client().Send({big.Part(0, 10)}));
    posted.push_back(client().Write({big.Part(0, 10)}, target.Remote()));
  }
  for (const Posted& one : posted) Succeed(client(), one, "request");
}

TEST_P(CompletionTest, ASmallPollTakesNoMoreThanItHasRoomFor) {
  Connect();
  constexpr uint32_t kCount = 20;
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle sink = server().Memory(10);
  for (uint32_t i = 0; i < kCount; ++i) {
    server().Receive({sink.All()});
    client().Send({source.All()});
  }
  auto* host = dynamic_cast<LocalHost*>(&client_host());
  ASSERT_NE(host, nullptr);
  transport::CompletionQueue* queue =
      host->endpoint(client().number())->completion_queue();
  uint32_t taken = 0;
  transport::Completion completions[4];
  completions[3].id = {12345, 54321};
  EXPECT_EQ(queue->Poll({}), 0) << "Poll() of nothing takes nothing";
  EXPECT_TRUE(Wait([&] {
    const int count = queue->Poll(absl::MakeSpan(completions, 3));
    EXPECT_GE(count, 0);
    EXPECT_LE(count, 3);
    for (int i = 0; i < count; ++i) {
      host->Account(completions[i]);
      ++taken;
    }
    return taken == kCount;
  }));
  EXPECT_EQ(completions[3].id.index, 12345u) << "Poll() wrote behind its span";
}

TEST_P(CompletionTest, FlushedAtDisconnect) {
  Connect();
  const MemoryHandle sink = server().Memory(100);
  const MemoryHandle near = client().Memory(100);
  std::vector<Posted> far;
  std::vector<Posted> receives;
  for (int i = 0; i < 10; ++i) {
    far.push_back(server().Receive({sink.All()}));
    receives.push_back(client().Receive({near.All()}));
  }
  client().Disconnect();
  for (const Posted& posted : receives) {
    EXPECT_EQ(Await(client(), posted, "RECEIVE at our Disconnect()").status,
              CompletionStatus::kFlushed);
  }
  for (const Posted& posted : far) {
    EXPECT_EQ(
        Await(server(), posted, "RECEIVE at the peer's Disconnect()").status,
        CompletionStatus::kFlushed);
  }
  AwaitEnd(server());
  EXPECT_FALSE(client().State().connected);
  EXPECT_EQ(client().Receive({near.All()}).result, PostResult::kClosed)
      << "posts after the end answer kClosed";
  EXPECT_EQ(client().Send({near.All()}).result, PostResult::kClosed)
      << "posts after the end answer kClosed";
  EXPECT_EQ(server().Send({sink.All()}).result, PostResult::kClosed)
      << "posts after the end answer kClosed";
}

TEST_P(CompletionTest, RequestsInFlightCompleteAtDisconnect) {
  Connect();
  const size_t size = std::min<size_t>(scale().largest, 64 << 10);
  const MemoryHandle source = client().Memory(size);
  const MemoryHandle target = server().Memory(size, Access::kRemoteWrite);
  std::vector<Posted> posted;
  for (int i = 0; i < 32; ++i) {
    posted.push_back(client().Write({source.All()}, target.Remote()));
  }
  client().Disconnect();
  bool flushed = false;
  for (const Posted& one : posted) {
    const Arrived arrived = Await(client(), one, "WRITE at Disconnect()");
    if (arrived.status == CompletionStatus::kFlushed) flushed = true;
    if (flushed) {
      EXPECT_NE(arrived.status, CompletionStatus::kOk)
          << "an operation ran behind one that was flushed";
    }
  }
}

TEST_P(CompletionTest, LocalErrorsCompleteAndEndTheConnection) {
  Connect();
  const MemoryHandle local = client().Memory(4096);
  Piece wrong = local.All();
  wrong.unregistered = true;
  Operation send;
  send.pieces = {wrong};
  if (client().capabilities().max_inline_bytes >= 4096) {
    NotSupported("a message that is too long to be inline");
    return;
  }
  const Posted posted = client().Post(send);
  client().Flush();
  if (posted.result == PostResult::kAccepted) {
    const Arrived arrived =
        Await(client(), posted, "SEND from memory that is not registered");
    EXPECT_EQ(arrived.status, CompletionStatus::kLocalError);
    EXPECT_NE(arrived.scope, DamageScope::kNone);
  } else {
    EXPECT_EQ(posted.result, PostResult::kClosed)
        << "waiting would not make this post better";
  }
}

TEST_P(CompletionTest, ArmedDescriptorWakes) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle sink = server().Memory(10);
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const Posted receive = server().Receive({sink.All()});
    ASSERT_TRUE(server_host().Arm(server().number()))
        << "Arm() says that completions wait, and none can";
    client().Send({source.All()});
    EXPECT_TRUE(Wait([&] { return server_host().Woken(server().number()); }))
        << "the descriptor of an armed queue did not become readable";
    Succeed(server(), receive, "RECEIVE after a wake-up");
  }
}

TEST_P(CompletionTest, ArmSeesWhatCameBefore) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle sink = server().Memory(10);
  const Posted receive = server().Receive({sink.All()});
  Succeed(client(), client().Send({source.All()}), "SEND");
  Quiet();  // The RECEIVE has completed, and Quiet() polled it.
  EXPECT_TRUE(server().Has(receive.id));
  const Posted second = server().Receive({sink.All()});
  Succeed(client(), client().Send({source.All()}), "SEND");
  world().RunUntil([] { return false; }, scale().quiet);
  // Either Arm() says so, or the descriptor does.
  const bool armed = server_host().Arm(server().number());
  if (armed) {
    EXPECT_TRUE(Wait([&] { return server_host().Woken(server().number()); }))
        << "a completion that came before Arm() was never announced";
  }
  Succeed(server(), second, "RECEIVE before Arm()");
}

TEST_P(CompletionTest, NoWakeUpIsLostInAThousandSleeps) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle sink = server().Memory(10);
  // Sender and sleeper race: the message is on its way while Arm() runs.
  const int rounds = scale().operations;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const Posted receive = server().Receive({sink.All()});
    const Posted send = client().Send({source.All()});
    if (server_host().Arm(server().number())) {
      ASSERT_TRUE(Wait([&] { return server_host().Woken(server().number()); }))
          << "lost wake-up in round " << round;
    }
    Succeed(server(), receive, "RECEIVE after a sleep");
    Succeed(client(), send, "SEND");
  }
}

TEST_P(CompletionTest, ManyEndsShareAQueue) {
  EndPlan shared;
  shared.send_queue = 16;
  shared.receive_queue = 16;
  shared.queue = server_host().NewQueue(4 * 32, 0);
  if (!expected().shared_completion_queues) {
    NotSupported("completion queues of the caller's own");
    return;
  }
  EndPlan plan;
  Connect(plan, shared);
  std::vector<std::pair<EndHandle, EndHandle>> pairs;
  pairs.emplace_back(client(), server());
  for (int i = 0; i < 3; ++i) pairs.push_back(ConnectAnother(plan, shared));
  uint64_t seed = 1;
  for (auto& [near, far] : pairs) {
    ASSERT_NE(far.host(), nullptr);
    const MemoryHandle source = near.Memory(100);
    const MemoryHandle sink = far.Memory(100);
    source.Fill(seed);
    const Posted receive = far.Receive({sink.All()});
    Succeed(near, near.Send({source.All()}), "SEND to a shared queue");
    // That the completion names this endpoint is checked for every one.
    Succeed(far, receive, "RECEIVE on a shared queue");
    ExpectBytes(sink, 0, 100, seed++);
  }
}

TEST_P(CompletionTest, QueueThatIsTooSmallIsRefused) {
  if (!expected().shared_completion_queues) {
    NotSupported("completion queues of the caller's own");
    return;
  }
  EndPlan shared;
  shared.send_queue = 16;
  shared.receive_queue = 16;
  // Queues may be made bigger than asked for, but not without bound: what an
  // endpoint takes is counted against what was asked for.
  shared.queue = client_host().NewQueue(2 * 32, 0);
  Connect(shared);
  auto [second, second_server] = ConnectAnother(shared);
  ASSERT_NE(second_server.host(), nullptr);
  ListenPlan listen;
  const auto listener = server_host().Listen(listen);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const EndHandle third(
      &client_host(),
      client_host().Connect(server_host().ListenAddress(*listener), shared));
  ASSERT_TRUE(
      Wait([&] { return third.State().phase != EndPhase::kConnecting; }));
  EXPECT_EQ(third.State().phase, EndPhase::kFailed)
      << "a third endpoint of 32 entries fits no queue of 64: it could "
         "overflow";
  EXPECT_EQ(third.State().status.code(), absl::StatusCode::kResourceExhausted)
      << third.State().status;
  EXPECT_GT(third.State().status.message().size(), 20u)
      << "the message has to name the limit";
  // One that is gone gives its room back, if not at once.
  second.Disconnect();
  ASSERT_TRUE(Wait([&, &gone = second] {
    gone.Poll();
    return gone.State().outstanding == 0;
  }));
  second.Destroy();
  Quiet();
  ConnectAnother(shared);
}

TEST_P(CompletionTest, EndpointDestroyedEarlyStillCompletes) {
  if (!expected().shared_completion_queues) {
    NotSupported("completion queues of the caller's own");
    return;
  }
  EndPlan shared;
  shared.send_queue = 16;
  shared.receive_queue = 16;
  shared.queue = client_host().NewQueue(2 * 32, 0);
  Connect(shared);
  const MemoryHandle sink = client().Memory(100);
  std::vector<Posted> posted;
  for (int i = 0; i < 10; ++i) posted.push_back(client().Receive({sink.All()}));
  client().Destroy();
  for (const Posted& one : posted) {
    const Arrived arrived =
        Await(client(), one, "RECEIVE of an endpoint that was destroyed");
    EXPECT_EQ(arrived.status, CompletionStatus::kFlushed);
    EXPECT_TRUE(arrived.orphan)
        << "it has to come with a null endpoint, not a dangling one";
  }
  AwaitEnd(server());
}

}  // namespace
}  // namespace skiff::testing
