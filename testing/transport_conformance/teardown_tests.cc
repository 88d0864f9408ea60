// The end, with everything in flight.
#include <cstdint>
#include <utility>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

class TeardownTest : public ConformancePair {
 protected:
  // A plan with a queue that outlives the endpoint.
  EndPlan Shared(ConformanceHost& host) {
    EndPlan plan;
    if (expected().shared_completion_queues) plan.queue = host.NewQueue(512, 0);
    return plan;
  }
};

SKIFF_CONFORMANCE_SUITE(TeardownTest, RdmaFactories);

TEST_P(TeardownTest, DisconnectWithEverythingInFlight) {
  Connect();
  PutEverythingInFlight(client(), server());
  client().Disconnect();
  AwaitAll(client());
  AwaitAll(server());
  AwaitEnd(server());
}

TEST_P(TeardownTest, PeersDisconnectWithEverythingInFlight) {
  Connect();
  PutEverythingInFlight(client(), server());
  server().Disconnect();
  AwaitAll(server());
  AwaitAll(client());
  AwaitEnd(client());
}

TEST_P(TeardownTest, EndpointDestroyedWithEverythingInFlight) {
  const EndPlan near = Shared(client_host());
  const EndPlan far = Shared(server_host());
  Connect(near, far);
  PutEverythingInFlight(client(), server());
  client().Destroy();
  AwaitAll(client());
  AwaitAll(server());
  AwaitEnd(server());
}

TEST_P(TeardownTest, BothEndpointsDestroyedWithEverythingInFlight) {
  const EndPlan near = Shared(client_host());
  const EndPlan far = Shared(server_host());
  Connect(near, far);
  PutEverythingInFlight(client(), server());
  client().Destroy();
  server().Destroy();
  AwaitAll(client());
  AwaitAll(server());
}

TEST_P(TeardownTest, AfterSomeOfItHappened) {
  // Each round ends at another moment of the traffic.
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    auto [near, far] = ConnectAnother(Shared(client_host()));
    ASSERT_NE(far.host(), nullptr);
    PutEverythingInFlight(near, far);
    world().RunUntil([] { return false; }, absl::Microseconds(20 * round));
    if (round % 2 == 0) {
      near.Destroy();
    } else {
      far.Disconnect();
    }
    AwaitAll(near);
    AwaitAll(far);
  }
}

TEST_P(TeardownTest, OnDisconnectIsSilentOnceTheEndpointIsGone) {
  Connect();
  server().Disconnect();
  client().Destroy();
  Quiet();
  EXPECT_EQ(client().State().disconnects, 0)
      << "on_disconnect ran for an endpoint that was destroyed";
}

TEST_P(TeardownTest, OtherConnectionsGoOn) {
  Connect();
  auto [near, far] = ConnectAnother();
  ASSERT_NE(far.host(), nullptr);
  PutEverythingInFlight(near, far);
  far.Destroy();
  AwaitAll(near);
  const MemoryHandle source = client().Memory(100);
  const MemoryHandle sink = server().Memory(100);
  source.Fill(1);
  const Posted receive = server().Receive({sink.All()});
  Succeed(client(), client().Send({source.All()}), "SEND");
  Succeed(server(), receive, "RECEIVE");
  ExpectBytes(sink, 0, 100, 1);
}

TEST_P(TeardownTest, AttemptsAndListenersUnderWay) {
  ListenPlan plan;
  plan.answer = Answer::kIgnore;
  const auto listener = server_host().Listen(plan);
  ASSERT_TRUE(listener.ok()) << listener.status();
  for (int i = 0; i < 10; ++i) {
    client_host().Connect(server_host().ListenAddress(*listener),
                          Shared(client_host()));
  }
  world().RunUntil([] { return false; }, absl::Microseconds(50));
  // The rest is what every test ends with.
}

}  // namespace
}  // namespace skiff::testing
