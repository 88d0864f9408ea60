// Receivers that are not ready, completion queues, determinism and defects.
#include <sys/epoll.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "testing/sim/sim_rdma_test_util.h"

namespace skiff::testing {
namespace {

using transport::Access;
using transport::Completion;
using transport::CompletionStatus;
using transport::PostResult;

TEST(SimRdmaNotReadyTest, InfiniBandWaitsForAReceive) {
  RdmaPair pair(1);
  ASSERT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  RdmaParty server(&pair.world, pair.server.get());
  Buffer from(&client, 100, 'a');
  Buffer to(&server, 100, '.', Access::kRemoteWrite);
  client.endpoint()->PostSend({1, 0}, from.All());
  // Does not overtake the SEND.
  client.endpoint()->PostWrite({2, 0}, from.All(), to.Remote(0));
  client.endpoint()->Flush();
  pair.world.RunFor(absl::Milliseconds(400));
  EXPECT_EQ(to.text()[0], '.');
  server.endpoint()->PostReceive({1, 0}, to.All());
  EXPECT_EQ(client.Next().status, CompletionStatus::kOk);
  EXPECT_EQ(client.Next().status, CompletionStatus::kOk);
  EXPECT_EQ(server.Next().bytes, 100u);
  // The timer of the first wait does not end the second one early.
  client.endpoint()->PostSend({3, 0}, from.All());
  client.endpoint()->Flush();
  pair.world.RunFor(absl::Milliseconds(400));
  EXPECT_TRUE(client.endpoint()->connected());
}

TEST(SimRdmaNotReadyTest, InfiniBandRunsOutOfRetries) {
  RdmaPair pair(1);
  ASSERT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  Buffer from(&client, 100, 'a');
  client.endpoint()->PostSend({1, 0}, from.All());
  client.endpoint()->PostSend({2, 0}, from.All());
  client.endpoint()->Flush();
  const absl::Time start = pair.world.now();
  EXPECT_EQ(client.Next().status, CompletionStatus::kRemoteNotReady);
  EXPECT_GE(pair.world.now() - start,
            SimRdmaOptions().receiver_not_ready_timeout);
  EXPECT_EQ(client.Next().status, CompletionStatus::kFlushed);
  EXPECT_TRUE(absl::StrContains(pair.server->error().message(),
                                "met no posted RECEIVE"))
      << pair.server->error();
}

TEST(SimRdmaNotReadyTest, IwarpKillsTheConnectionAtOnce) {
  SimTransportOptions options;
  options.rdma = SimRdmaOptions::Iwarp();
  RdmaPair pair(1, options);
  ASSERT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  Buffer from(&client, 100, 'a');
  client.endpoint()->PostSend({1, 0}, from.All());
  client.endpoint()->Flush();
  const absl::Time start = pair.world.now();
  EXPECT_EQ(client.Next().status, CompletionStatus::kRemoteNotReady);
  EXPECT_LT(pair.world.now() - start, absl::Milliseconds(1));
  EXPECT_FALSE(pair.server->connected());
}

// Even on iWARP, nothing arrives before the callback of Connect or Accept had
// the chance to post receives.
TEST(SimRdmaNotReadyTest, FirstReceivesArePostedInTime) {
  SimTransportOptions options;
  options.rdma = SimRdmaOptions::Iwarp();
  RdmaPair pair(1, options);
  char text[] = "early";
  const transport::Sge sge = {text, 5, nullptr};
  auto listener = pair.transport->Listen(
      pair.server_reactor, transport::Address::Parse(RdmaPair::Uri()).value(),
      {}, [&](std::unique_ptr<transport::ConnectionRequest> request) {
        request->Accept(pair.server_reactor, {},
                        [&](absl::StatusOr<transport::Endpoint> made) {
                          ASSERT_TRUE(made.ok()) << made.status();
                          pair.server =
                              std::get<RdmaPair::Pointer>(*std::move(made));
                          pair.server->PostSend({1, 0}, {&sge, 1});
                          pair.server->Flush();
                        });
      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  pair.listener = *std::move(listener);
  pair.client_reactor->StallUntil(pair.world.now() + absl::Seconds(1));
  ASSERT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  Buffer to(&client, 100, '.');
  client.endpoint()->PostReceive({1, 0}, to.All());
  EXPECT_EQ(client.Next().bytes, 5u);
}

class QueueWaiter : public transport::FdHandler {
 public:
  explicit QueueWaiter(transport::CompletionQueue* queue) : queue_(queue) {}
  void OnFdReady(uint32_t /*events*/) override {
    queue_->Disarm();
    Completion completion;
    while (queue_->Poll({&completion, 1}) == 1) ++completions;
    ++wakeups;
  }
  int completions = 0;
  int wakeups = 0;

 private:
  transport::CompletionQueue* const queue_;
};

TEST(SimCompletionQueueTest, ArmedDescriptorWakesTheReactor) {
  RdmaPair pair(1);
  ASSERT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  RdmaParty server(&pair.world, pair.server.get());
  Buffer from(&client, 100, 'a');
  Buffer to(&server, 100, '.');
  transport::CompletionQueue* queue = server.endpoint()->completion_queue();
  QueueWaiter waiter(queue);
  ASSERT_TRUE(pair.server_reactor->WatchFd(queue->fd(), EPOLLIN, &waiter).ok());
  for (uint32_t i = 0; i < 3; ++i) {
    server.endpoint()->PostReceive({i, 0}, to.All());
  }
  auto send = [&] {
    client.endpoint()->PostSend({1, 0}, from.All());
    client.endpoint()->Flush();
    pair.world.RunFor(absl::Seconds(1));
  };
  ASSERT_TRUE(queue->Arm());
  send();
  EXPECT_EQ(waiter.completions, 1);
  // Once per Arm().
  send();
  EXPECT_EQ(waiter.wakeups, 1);
  EXPECT_FALSE(queue->Arm());  // One is waiting.
  Completion completion;
  EXPECT_EQ(queue->Poll({&completion, 1}), 1);
  EXPECT_TRUE(queue->Arm());
  send();
  EXPECT_EQ(waiter.wakeups, 2);
  pair.server_reactor->UnwatchFd(queue->fd());
}

TEST(SimCompletionQueueTest, ManyEndpointsShareOne) {
  RdmaPair pair(1);
  auto queue = ShareQueue(pair.client_reactor, &pair.connect_options);
  ASSERT_TRUE(pair.Connect().ok());
  auto first = std::move(pair.client);
  auto first_server = std::move(pair.server);
  ASSERT_TRUE(pair.Connect().ok());
  EXPECT_EQ(first->completion_queue(), queue->get());
  EXPECT_EQ(pair.client->completion_queue(), queue->get());
  RdmaParty party(&pair.world, first.get());
  Buffer to(&party, 100, '.');
  first->PostReceive({1, 0}, to.All());
  pair.client->PostReceive({2, 0}, to.All());
  pair.client->Disconnect();
  Completion completion = party.Next();
  EXPECT_EQ(completion.endpoint, pair.client.get());
  EXPECT_EQ(completion.id.index, 2u);
  // An endpoint that is destroyed early still completes, without a name.
  first.reset();
  ASSERT_EQ((*queue)->Poll({&completion, 1}), 1);
  EXPECT_EQ(completion.endpoint, nullptr);
  EXPECT_EQ(completion.id.index, 1u);
  EXPECT_EQ(completion.status, CompletionStatus::kFlushed);

  // A queue of another reactor does not fit.
  auto foreign = ShareQueue(pair.server_reactor, &pair.connect_options);
  EXPECT_EQ(pair.Connect().code(), absl::StatusCode::kInvalidArgument);
}

// A random mix of everything; returns the fingerprint of the run.
uint64_t RandomTraffic(uint64_t seed, const SimTransportOptions& options,
                       bool* in_order) {
  RdmaPair pair(seed, options);
  EXPECT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  RdmaParty server(&pair.world, pair.server.get());
  Buffer local(&client, 10000, 'a', Access::kRemoteWrite);
  Buffer remote(&server, 10000, 'b',
                Access::kRemoteRead | Access::kRemoteWrite);
  for (uint32_t i = 0; i < 100; ++i) {
    server.endpoint()->PostReceive({i, 1}, remote.All());
  }
  SimRandom& random = pair.world.random();
  uint32_t posted = 0;
  uint32_t completed = 0;
  uint32_t sends = 0;
  *in_order = true;
  auto poll = [&] {
    Completion completion;
    while (client.endpoint()->completion_queue()->Poll({&completion, 1}) == 1) {
      *in_order = *in_order && completion.id.index == completed &&
                  completion.status == CompletionStatus::kOk;
      ++completed;
    }
    return completed >= posted;
  };
  while (posted < 200) {
    const size_t size = random.Between(0, 10000);
    const transport::OperationId id = {posted, 0};
    PostResult result = PostResult::kWouldBlock;
    if (random.Chance(0.4) && sends < 100) {
      result = client.endpoint()->PostSend(id, local.Parts(0, size));
      sends += result == PostResult::kAccepted ? 1 : 0;
    } else if (random.Chance(0.5)) {
      result = client.endpoint()->PostRead(id, local.Parts(0, size),
                                           remote.Remote(0));
    } else {
      result = client.endpoint()->PostWrite(id, local.Parts(0, size),
                                            remote.Remote(0));
    }
    posted += result == PostResult::kAccepted ? 1 : 0;
    if (result == PostResult::kWouldBlock || random.Chance(0.3)) {
      client.endpoint()->Flush();
      pair.world.RunFor(
          random.Between(absl::ZeroDuration(), absl::Microseconds(20)));
      poll();
    }
  }
  client.endpoint()->Flush();
  *in_order = pair.world.RunUntil(poll, absl::Minutes(1)) && *in_order &&
              client.Idle() && completed == posted;
  return pair.world.trace_hash();
}

TEST(SimRdmaDeterminismTest, SameSeedSameRun) {
  const uint64_t first = SimWorld::SeedFromEnvironment(100);
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    bool in_order = false;
    const uint64_t fingerprint = RandomTraffic(seed, {}, &in_order);
    EXPECT_TRUE(in_order) << seed;
    EXPECT_EQ(fingerprint, RandomTraffic(seed, {}, &in_order));
    EXPECT_NE(fingerprint, RandomTraffic(seed + 1, {}, &in_order));
  }
}

// Each of these is seen by counting completions and looking at their order.
TEST(SimRdmaDefectTest, CompletionDefectsShow) {
  for (const SimDefect defect :
       {SimDefect::kNone, SimDefect::kDoubleCompletion,
        SimDefect::kLostCompletion, SimDefect::kReorderedCompletions}) {
    SimTransportOptions options;
    options.defect = defect;
    bool in_order = false;
    RandomTraffic(1, options, &in_order);
    EXPECT_EQ(in_order, defect == SimDefect::kNone) << static_cast<int>(defect);
  }
}

// Runs one SEND, READ and bad WRITE with a defect; what was wrong.
std::string Symptoms(SimDefect defect) {
  SimTransportOptions options;
  options.defect = defect;
  RdmaPair pair(1, options);
  pair.world.network().SetDefaultLink(LinkOptions::Calm());
  EXPECT_TRUE(pair.Connect().ok());
  RdmaParty client(&pair.world, pair.client.get());
  RdmaParty server(&pair.world, pair.server.get());
  std::string symptoms;
  Buffer from(&client, 100, 'a', Access::kRemoteRead | Access::kRemoteWrite);
  Buffer to(&server, 100, '.', Access::kRemoteRead);
  server.endpoint()->PostReceive({1, 0}, to.All());
  const bool armed = server.endpoint()->completion_queue()->Arm();
  QueueWaiter waiter(server.endpoint()->completion_queue());
  EXPECT_TRUE(pair.server_reactor
                  ->WatchFd(server.endpoint()->completion_queue()->fd(),
                            EPOLLIN, &waiter)
                  .ok());
  client.endpoint()->PostSend({1, 0}, from.All());
  client.endpoint()->Flush();
  client.Next();
  from.data()[0] = 'x';  // Ours again.
  pair.world.RunFor(absl::Seconds(1));
  if (to.text()[0] != 'a') symptoms += "early send ";
  if (!armed || waiter.completions != 1) symptoms += "no wakeup ";
  pair.server_reactor->UnwatchFd(server.endpoint()->completion_queue()->fd());
  client.endpoint()->PostRead({2, 0}, from.Parts(0, 50), to.Remote(50));
  client.endpoint()->Flush();
  from.data()[1] = '?';
  client.Next();
  if (from.data()[1] == '?') symptoms += "early read ";
  pair.world.RunFor(absl::Seconds(1));
  client.endpoint()->PostWrite({3, 0}, from.All(), to.Remote(0));
  client.endpoint()->Flush();
  if (client.Next().status != CompletionStatus::kRemoteAccess) {
    symptoms += "unchecked access ";
  }
  return symptoms;
}

TEST(SimRdmaDefectTest, DataDefectsShow) {
  EXPECT_EQ(Symptoms(SimDefect::kNone), "");
  EXPECT_EQ(Symptoms(SimDefect::kEarlySendCompletion), "early send ");
  EXPECT_EQ(Symptoms(SimDefect::kEarlyReadCompletion), "early read ");
  EXPECT_EQ(Symptoms(SimDefect::kMissedArm), "no wakeup ");
  EXPECT_EQ(Symptoms(SimDefect::kUncheckedRemoteAccess), "unchecked access ");
}

TEST(SimRdmaDefectTest, ReceiveAndDisconnectDefectsShow) {
  for (const SimDefect defect :
       {SimDefect::kNone, SimDefect::kWrongByteCount,
        SimDefect::kIgnoredInvalidate, SimDefect::kNoFlush,
        SimDefect::kUnboundedReadDepth, SimDefect::kDanglingEndpoint}) {
    SimTransportOptions options;
    options.defect = defect;
    RdmaPair pair(1, options);
    auto queue = ShareQueue(pair.server_reactor, &pair.accept_options);
    ASSERT_TRUE(pair.Connect().ok());
    RdmaParty client(&pair.world, pair.client.get());
    RdmaParty server(&pair.world, pair.server.get());
    Buffer from(&client, 100, 'a', Access::kRemoteWrite);
    Buffer to(&server, 200, '.', Access::kRemoteRead);
    server.endpoint()->PostReceive({1, 0}, to.All());
    server.endpoint()->PostReceive({2, 0}, to.All());
    client.endpoint()->PostSendWithInvalidate({1, 0}, from.All(),
                                              to.region()->remote_key());
    client.endpoint()->Flush();
    const Completion received = server.Next();
    EXPECT_EQ(received.bytes != 100, defect == SimDefect::kWrongByteCount);
    EXPECT_EQ(received.invalidated, defect != SimDefect::kIgnoredInvalidate);
    for (int i = 0; i < 16; ++i) {
      client.endpoint()->PostRead({1, 0}, from.All(), to.Remote(0));
    }
    EXPECT_EQ(client.endpoint()->PostRead({1, 0}, from.All(), to.Remote(0)) ==
                  PostResult::kAccepted,
              defect == SimDefect::kUnboundedReadDepth);
    pair.server.reset();
    Completion flushed;
    EXPECT_EQ((*queue)->Poll({&flushed, 1}) == 0,
              defect == SimDefect::kNoFlush);
    EXPECT_EQ(flushed.endpoint != nullptr,
              defect == SimDefect::kDanglingEndpoint);
  }
}

}  // namespace
}  // namespace skiff::testing
