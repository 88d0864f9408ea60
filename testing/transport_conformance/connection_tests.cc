// The life of a connection.
#include <sys/uio.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/child_process.h"
#include "testing/transport_conformance/conformance_pair.h"
#include "testing/transport_conformance/remote_host.h"

namespace skiff::testing {
namespace {

bool EndsInAPort(const std::string& address) {
  const size_t digits = address.find_last_not_of("0123456789");
  return digits != std::string::npos && address[digits] == ':' &&
         digits + 1 < address.size();
}

class ConnectionTest : public ConformancePair {
 protected:
  bool rdma() const { return expected().capabilities.rdma; }
  // Listens; the listener, or -1.
  int Listen(const ListenPlan& plan) {
    auto listener = server_host().Listen(plan);
    EXPECT_TRUE(listener.ok()) << "cannot listen: " << listener.status();
    return listener.ok() ? *listener : -1;
  }
  EndHandle StartConnect(int listener, const EndPlan& plan = {}) {
    return {&client_host(),
            client_host().Connect(server_host().ListenAddress(listener), plan)};
  }
  bool AwaitOutcome(const EndHandle& end) {
    return Wait([&] { return end.State().phase != EndPhase::kConnecting; });
  }
  // Expects that the attempt fails with a message for people.
  EndState ExpectFailure(const EndHandle& end) {
    EXPECT_TRUE(AwaitOutcome(end)) << "the attempt has no outcome";
    EndState state = end.State();
    EXPECT_EQ(state.phase, EndPhase::kFailed) << "the attempt succeeded";
    EXPECT_GT(state.status.message().size(), 10u)
        << "the error has to say what failed and where: " << state.status;
    return state;
  }
  // Expects that a byte stream ends, which the system may have opened before
  // anybody asked the peer.
  void ExpectNoStream(const EndHandle& end, const char* why) {
    ASSERT_TRUE(AwaitOutcome(end)) << "the attempt has no outcome";
    auto* const host = dynamic_cast<LocalHost*>(end.host());
    if (end.State().phase == EndPhase::kFailed || host == nullptr) return;
    transport::ByteStream* const stream = host->stream(end.number());
    EXPECT_TRUE(Wait([stream] {
      char byte;
      const iovec one = {&byte, 1};
      return stream->Readv({&one, 1}).status >=
             transport::StreamStatus::kClosed;
    })) << why
        << " is still connected";
  }
};

SKIFF_CONFORMANCE_SUITE(ConnectionTest, AllFactories);

class RdmaConnectionTest : public ConnectionTest {
 protected:
  // What arrived is what was sent, possibly with zeros behind it.
  void ExpectPrivateData(const std::string& got, const std::string& sent) {
    if (!expected().private_data_padded) {
      EXPECT_EQ(got, sent) << "private data arrives as it was sent";
      return;
    }
    ASSERT_GE(got.size(), sent.size()) << "private data was cut off";
    EXPECT_EQ(got.substr(0, sent.size()), sent);
    EXPECT_EQ(got.substr(sent.size()), std::string(got.size() - sent.size(), 0))
        << "padding consists of zeros";
  }
  size_t Limit() const {
    return expected().capabilities.max_private_data_bytes;
  }
  static std::string Data(size_t size) {
    std::string data;
    for (size_t i = 0; i < size; ++i) {
      data.push_back(static_cast<char>(1 + i % 255));
    }
    return data;
  }
};

SKIFF_CONFORMANCE_SUITE(RdmaConnectionTest, RdmaFactories);

TEST_P(ConnectionTest, ConnectAndAccept) {
  Connect();
  const EndState near = client().State();
  const EndState far = server().State();
  EXPECT_TRUE(near.connected);
  EXPECT_TRUE(far.connected);
  EXPECT_TRUE(near.error.ok()) << "error() while it lives: " << near.error;
  EXPECT_FALSE(near.local_address.empty());
  if (!rdma()) {
    const auto listening =
        transport::Address::Parse(server_host().ListenAddress(/*listener=*/0));
    EXPECT_TRUE(absl::EndsWith(near.peer_address,
                               absl::StrCat(":", listening.value().port)))
        << "peer_address() \"" << near.peer_address
        << "\" is not where the other end listens";
  }
  EXPECT_EQ(near.peer_address, far.local_address)
      << "both ends have to name the listening side alike";
  EXPECT_FALSE(far.peer_address.empty());
  for (const std::string& address :
       {near.local_address, near.peer_address, far.peer_address}) {
    EXPECT_TRUE(EndsInAPort(address))
        << "\"" << address << "\" is not of the form host:port";
  }
  EXPECT_EQ(near.disconnects + far.disconnects, 0);
}

TEST_P(ConnectionTest, NobodyListens) {
  const int listener = Listen({});
  const std::string address = server_host().ListenAddress(listener);
  server_host().CloseListener(listener);
  EndPlan plan;
  plan.timeout = absl::Seconds(5);
  const EndHandle end(&client_host(), client_host().Connect(address, plan));
  const absl::Status status = ExpectFailure(end).status;
  const std::string port =
      std::to_string(transport::Address::Parse(address).value().port);
  EXPECT_NE(status.message().find(port), std::string::npos)
      << "the error of Connect() has to name the address: " << status;
}

TEST_P(ConnectionTest, RejectedByThePeer) {
  ListenPlan plan;
  plan.answer = Answer::kReject;
  const int listener = Listen(plan);
  EndHandle end = StartConnect(listener);
  if (rdma()) {
    ExpectFailure(end);
    return;
  }
  ASSERT_TRUE(Wait([&] {
    return !server_host().StateOfListener(listener).private_data.empty();
  })) << "the request never arrived";
  ExpectNoStream(end, "who was rejected");
}

TEST_P(ConnectionTest, RequestDestroyedUnanswered) {
  ListenPlan plan;
  plan.answer = Answer::kDrop;
  EndHandle end = StartConnect(Listen(plan));
  if (rdma()) {
    ExpectFailure(end);
  } else {
    ExpectNoStream(end, "whose request was destroyed unanswered");
  }
}

TEST_P(ConnectionTest, UnansweredUntilTheTimeout) {
  EndPlan client;
  client.timeout = absl::Milliseconds(300);
  std::string address;
  if (rdma()) {
    ListenPlan plan;
    plan.answer = Answer::kIgnore;
    address = server_host().ListenAddress(Listen(plan));
  } else {
    // Byte streams are accepted by the system: it has to be silent.
    const auto silent = world().SilentAddress();
    if (absl::IsUnimplemented(silent.status())) {
      NotSupported("leaving a byte stream unanswered: " +
                   std::string(silent.status().message()));
      return;
    }
    ASSERT_TRUE(silent.ok()) << silent.status();
    address = silent->ToString();
  }
  transport::Reactor* const reactor = world().reactor(Side::kConnecting);
  const absl::Time began = reactor->Now();
  const EndHandle end(&client_host(), client_host().Connect(address, client));
  ASSERT_TRUE(AwaitOutcome(end))
      << "the timeout of a connect, " << client.timeout << ", is ignored";
  const absl::Status status = ExpectFailure(end).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded)
      << "the timeout's error: " << status;
  EXPECT_LT(reactor->Now() - began, client.timeout + scale().patience / 4)
      << "giving up took the reactor's thread";
}

TEST_P(ConnectionTest, CancelledAttemptIsSilent) {
  ListenPlan plan;
  plan.answer = Answer::kIgnore;
  const int listener = Listen(plan);
  EndPlan client;
  client.receives = 4;  // They end with the attempt.
  client.receive_bytes = 64;
  const EndHandle end = StartConnect(listener, client);
  client_host().CancelConnect(end.number());
  Quiet();
  EXPECT_EQ(end.State().phase, EndPhase::kConnecting)
      << "`done` ran after the attempt was destroyed";
}

TEST_P(ConnectionTest, ListenerClosedWithConnectionsPending) {
  ListenPlan plan;
  plan.answer = Answer::kIgnore;
  const int listener = Listen(plan);
  EndPlan client;
  client.timeout = absl::Seconds(5);
  std::vector<EndHandle> ends;
  for (int i = 0; i < 4; ++i) ends.push_back(StartConnect(listener, client));
  ASSERT_TRUE(Wait([&] {
    return server_host().StateOfListener(listener).private_data.size() == 4;
  })) << "not every request arrived";
  server_host().CloseListener(listener);
  for (EndHandle& end : ends) {
    if (rdma()) {
      ExpectFailure(end);
    } else {
      ExpectNoStream(end, "who waited for a listener that was closed");
    }
  }
}

TEST_P(ConnectionTest, AcceptedOntoAnotherReactor) {
  ListenPlan plan;
  plan.answer = Answer::kAcceptOnOtherReactor;
  const int listener = Listen(plan);
  EndHandle near = StartConnect(listener);
  ASSERT_TRUE(AwaitOutcome(near));
  ASSERT_EQ(near.State().phase, EndPhase::kOpen) << near.State().status;
  ASSERT_TRUE(Wait([&] {
    const ListenerState state = server_host().StateOfListener(listener);
    return !state.ends.empty() &&
           server_host().State(state.ends[0]).phase != EndPhase::kConnecting;
  }));
  EndHandle far(&server_host(),
                server_host().StateOfListener(listener).ends[0]);
  ASSERT_EQ(far.State().phase, EndPhase::kOpen) << far.State().status;
  if (!rdma()) return;
  const MemoryHandle source = near.Memory(50);
  const MemoryHandle sink = far.Memory(50);
  source.Fill(1);
  const Posted receive = far.Receive({sink.All()});
  Succeed(near, near.Send({source.All()}), "SEND to the other reactor");
  Succeed(far, receive, "RECEIVE on the other reactor");
  ExpectBytes(sink, 0, 50, 1);
}

TEST_P(ConnectionTest, ManyConnectsInARow) {
  const int listener = Listen({});
  for (int i = 0; i < scale().connects_in_a_row && !HasFailure(); ++i) {
    EndHandle near = StartConnect(listener);
    ASSERT_TRUE(AwaitOutcome(near)) << "connect " << i;
    ASSERT_EQ(near.State().phase, EndPhase::kOpen)
        << "connect " << i << ": " << near.State().status;
    ASSERT_TRUE(Wait([&] {
      const ListenerState state = server_host().StateOfListener(listener);
      return state.ends.size() == static_cast<size_t>(i) + 1 &&
             server_host().State(state.ends.back()).phase == EndPhase::kOpen;
    })) << "connect "
        << i << " was not accepted";
    server_host().Destroy(server_host().StateOfListener(listener).ends.back());
    near.Destroy();
  }
}

TEST_P(ConnectionTest, ManyOpenAtOnce) {
  const int listener = Listen({});
  const size_t count = static_cast<size_t>(scale().connections_at_once);
  // Smaller queues: a thousand times the usual ones is a lot of memory.
  EndPlan plan;
  plan.send_queue = 4;
  plan.receive_queue = 4;
  plan.read_depth = 1;
  std::vector<EndHandle> ends;
  for (size_t i = 0; i < count && !HasFailure(); ++i) {
    ends.push_back(StartConnect(listener, plan));
    // No more than a few under way, so that no backlog overflows.
    if (i % 16 != 15 && i + 1 != count) continue;
    for (size_t j = i / 16 * 16; j <= i; ++j) {
      ASSERT_TRUE(AwaitOutcome(ends[j])) << "connection " << j;
      ASSERT_EQ(ends[j].State().phase, EndPhase::kOpen)
          << "connection " << j << ": " << ends[j].State().status;
    }
  }
  ASSERT_TRUE(Wait([&] {
    return server_host().StateOfListener(listener).ends.size() == count;
  }));
  for (const EndHandle& end : ends) {
    EXPECT_TRUE(end.State().connected) << "end " << end.number();
  }
}

TEST_P(RdmaConnectionTest, PrivateDataBothWays) {
  for (const size_t size : {size_t{0}, size_t{1}, Limit() - 1, Limit()}) {
    SCOPED_TRACE(::testing::Message() << size << " bytes of private data");
    ListenPlan plan;
    plan.accept.private_data = Data(size);
    std::reverse(plan.accept.private_data.begin(),
                 plan.accept.private_data.end());
    const int listener = Listen(plan);
    EndPlan client;
    client.private_data = Data(size);
    const EndHandle end = StartConnect(listener, client);
    ASSERT_TRUE(AwaitOutcome(end));
    ASSERT_EQ(end.State().phase, EndPhase::kOpen) << end.State().status;
    const ListenerState state = server_host().StateOfListener(listener);
    ASSERT_TRUE(Wait([&] {
      return server_host().State(state.ends.at(0)).phase == EndPhase::kOpen;
    })) << "the accepting side is not told of the connection";
    ExpectPrivateData(state.private_data.at(0), client.private_data);
    ExpectPrivateData(end.State().peer_private_data, plan.accept.private_data);
    ExpectPrivateData(server_host().State(state.ends.at(0)).peer_private_data,
                      client.private_data);
  }
}

TEST_P(RdmaConnectionTest, PrivateDataOfThePreparedEndpointBothWays) {
  ListenPlan plan;
  plan.accept.private_data = "accepted by any";
  plan.accept.private_data_when_prepared = "accepted by this device";
  const int listener = Listen(plan);
  EndPlan client;
  client.private_data = "asked by any";
  client.private_data_when_prepared = "asked by this device";
  const EndHandle end = StartConnect(listener, client);
  ASSERT_TRUE(AwaitOutcome(end));
  const EndState state = end.State();
  ASSERT_EQ(state.phase, EndPhase::kOpen) << state.status;
  ExpectPrivateData(state.peer_private_data,
                    plan.accept.private_data_when_prepared);
  ExpectPrivateData(server_host().StateOfListener(listener).private_data.at(0),
                    client.private_data_when_prepared);
}

TEST_P(RdmaConnectionTest, TooMuchPrivateDataOfThePreparedIsRefused) {
  const int listener = Listen({});
  EndPlan client;
  client.private_data_when_prepared = Data(Limit() + 1);
  const absl::Status status =
      ExpectFailure(StartConnect(listener, client)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_P(RdmaConnectionTest, TooMuchPrivateDataOfThePreparedFailsTheAccept) {
  ListenPlan plan;
  plan.accept.private_data_when_prepared = Data(Limit() + 1);
  const int listener = Listen(plan);
  ExpectFailure(StartConnect(listener));
  const ListenerState state = server_host().StateOfListener(listener);
  ASSERT_EQ(state.ends.size(), 1u);
  const EndState far = server_host().State(state.ends[0]);
  EXPECT_EQ(far.phase, EndPhase::kFailed);
  EXPECT_EQ(far.status.code(), absl::StatusCode::kInvalidArgument)
      << far.status;
}

TEST_P(RdmaConnectionTest, TooMuchPrivateDataIsRefused) {
  const int listener = Listen({});
  EndPlan client;
  client.private_data = Data(Limit() + 1);
  const EndHandle end = StartConnect(listener, client);
  const absl::Status status = ExpectFailure(end).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_P(RdmaConnectionTest, RejectCarriesPrivateData) {
  ListenPlan plan;
  plan.answer = Answer::kReject;
  plan.reject_private_data = "come back tomorrow";
  const EndHandle end = StartConnect(Listen(plan));
  const absl::Status status = ExpectFailure(end).status;
  const auto payload = status.GetPayload(transport::kRejectPrivateData);
  if (!expected().reject_private_data) {
    EXPECT_FALSE(payload.has_value())
        << "the table declares no private data with a rejection";
    NotSupported("private data with a rejection");
    return;
  }
  ASSERT_TRUE(payload.has_value()) << "no private data with: " << status;
  ExpectPrivateData(std::string(*payload), plan.reject_private_data);
}

TEST_P(RdmaConnectionTest, PrepareFailsTheConnect) {
  const int listener = Listen({});
  EndPlan plan;
  plan.prepare_error = "nothing is ready here";
  plan.receives = 2;
  plan.receive_bytes = 100;
  const EndHandle end = StartConnect(listener, plan);
  const absl::Status status = ExpectFailure(end).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("nothing is ready here"), std::string::npos)
      << "the attempt ends with the error that prepare() gave: " << status;
}

TEST_P(RdmaConnectionTest, PrepareFailsTheAccept) {
  ListenPlan plan;
  plan.accept.prepare_error = "nothing is ready here";
  const int listener = Listen(plan);
  const EndHandle end = StartConnect(listener);
  ExpectFailure(end);
  const ListenerState state = server_host().StateOfListener(listener);
  ASSERT_EQ(state.ends.size(), 1u);
  const EndState far = server_host().State(state.ends[0]);
  EXPECT_EQ(far.phase, EndPhase::kFailed);
  EXPECT_NE(far.status.message().find("nothing is ready here"),
            std::string::npos)
      << far.status;
}

TEST_P(RdmaConnectionTest, QueuesBeyondTheLimitAreRefused) {
  const int listener = Listen({});
  EndPlan plan;
  plan.send_queue = 1 << 30;
  const absl::Status status =
      ExpectFailure(StartConnect(listener, plan)).status;
  EXPECT_NE(status.code(), absl::StatusCode::kDeadlineExceeded)
      << "the error has to name the limit: " << status;
}

// As long as resources() says, whose answer comes when the device is known.
TEST_P(RdmaConnectionTest, ReceiveQueueBeyondTheLimitIsRefused) {
  EndPlan too_long;
  too_long.receive_queue_of_device = 1 << 30;
  const absl::Status connecting =
      ExpectFailure(StartConnect(Listen({}), too_long)).status;
  EXPECT_NE(connecting.code(), absl::StatusCode::kDeadlineExceeded)
      << "the error has to name the limit: " << connecting;

  ListenPlan plan;
  plan.accept = too_long;
  const int listener = Listen(plan);
  ExpectFailure(StartConnect(listener));
  const ListenerState state = server_host().StateOfListener(listener);
  ASSERT_EQ(state.ends.size(), 1u);
  EXPECT_EQ(server_host().State(state.ends[0]).phase, EndPhase::kFailed);
}

TEST_P(RdmaConnectionTest, OnDisconnectRunsOnceAtBothEnds) {
  Connect();
  client().Disconnect();
  EXPECT_EQ(client().State().disconnects, 0)
      << "on_disconnect ran from inside Disconnect()";
  AwaitEnd(client());
  AwaitEnd(server());
  EXPECT_TRUE(Wait([&] {
    return client().State().disconnects > 0 && server().State().disconnects > 0;
  })) << "on_disconnect did not run: "
      << client().State().disconnects
      << " times where Disconnect() was called, "
      << server().State().disconnects << " times at the peer";
  client().Disconnect();
  server().Disconnect();
  Quiet();
  EXPECT_EQ(client().State().disconnects, 1);
  EXPECT_EQ(server().State().disconnects, 1);
}

TEST_P(RdmaConnectionTest, BothSidesDisconnectAtOnce) {
  Connect();
  const MemoryHandle near = client().Memory(100);
  const MemoryHandle far = server().Memory(100);
  for (int i = 0; i < 4; ++i) {
    client().Receive({near.All()});
    server().Receive({far.All()});
  }
  client().Disconnect();
  server().Disconnect();
  AwaitEnd(client());
  AwaitEnd(server());
  EXPECT_TRUE(Wait([&] {
    client().Poll();
    server().Poll();
    return client().State().outstanding + server().State().outstanding == 0;
  })) << "what was outstanding did not complete";
}

TEST_P(RdmaConnectionTest, DestroyedEndEndsThePeer) {
  Connect();
  const MemoryHandle far = server().Memory(100);
  const Posted receive = server().Receive({far.All()});
  client().Destroy();
  Await(server(), receive, "RECEIVE of the peer of a destroyed endpoint");
  AwaitEnd(server());
  EXPECT_TRUE(Wait([&] { return server().State().disconnects == 1; }));
}

TEST_P(RdmaConnectionTest, CablePulled) {
  Connect();
  const absl::Status cut = world().CutCable();
  if (absl::IsUnimplemented(cut)) {
    NotSupported(std::string(cut.message()));
    return;
  }
  ASSERT_TRUE(cut.ok()) << cut;
  const MemoryHandle source = client().Memory(100);
  const MemoryHandle sink = client().Memory(100);
  const Posted receive = client().Receive({sink.All()});
  const Posted send = client().Send({source.All()});
  const Arrived sent = Await(client(), send, "SEND into a cut cable");
  EXPECT_NE(sent.status, transport::CompletionStatus::kOk);
  Await(client(), receive, "RECEIVE behind a cut cable");
  AwaitEnd(client());
}

TEST_P(RdmaConnectionTest, PeerKilled) {
  std::unique_ptr<PeerProcess> process;
  if (world().real_time()) {
    auto started = PeerProcess::Start();
    ASSERT_TRUE(started.ok()) << started.status();
    process = *std::move(started);
    auto host = RemoteHost::Begin(process->link(), factory().name());
    ASSERT_TRUE(host.ok()) << host.status();
    const auto listener = (*host)->Listen({});
    ASSERT_TRUE(listener.ok()) << listener.status();
    client() =
        EndHandle(&client_host(),
                  client_host().Connect((*host)->ListenAddress(*listener), {}));
    ASSERT_TRUE(AwaitOutcome(client()));
    ASSERT_EQ(client().State().phase, EndPhase::kOpen)
        << client().State().status;
    (*host)->Abandon();
  } else {
    Connect();
  }
  const MemoryHandle sink = client().Memory(100);
  const MemoryHandle source = client().Memory(100);
  const Posted receive = client().Receive({sink.All()});
  if (process != nullptr) {
    process->Kill();
  } else {
    const absl::Status killed = world().KillPeer();
    ASSERT_TRUE(killed.ok()) << killed;
  }
  // A dead host may say nothing; then only what is sent to it finds out.
  Quiet();
  const Posted send = client().Send({source.All()});
  if (send.result == transport::PostResult::kAccepted) {
    Await(client(), send, "SEND to a peer that is gone");
  }
  const Arrived received =
      Await(client(), receive, "RECEIVE from a peer that is gone");
  EXPECT_NE(received.status, transport::CompletionStatus::kOk);
  AwaitEnd(client());
}

}  // namespace
}  // namespace skiff::testing
