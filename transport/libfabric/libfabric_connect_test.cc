// Connections: how they begin and end.

#include <unistd.h>

#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "transport/libfabric/libfabric_test_util.h"

namespace skiff::transport {
namespace {

class ConnectTest : public LibfabricTest {};

std::vector<uint8_t> Bytes(size_t size) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(i * 7 + 1);
  return out;
}

std::vector<uint8_t> AsVector(absl::Span<const uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST_P(ConnectTest, PrivateDataGoesBothWaysUpToItsLimit) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const size_t limit = [&] {
    for (const DeviceReport& report : transport_->Devices()) {
      if (absl::StartsWith(GetParam(), "provider=") &&
          absl::StartsWith(
              report.name,
              std::string(GetParam() + std::strlen("provider=")) + "/")) {
        return report.capabilities.max_private_data_bytes;
      }
    }
    return size_t{0};
  }();
  ASSERT_GT(limit, 0u);
  for (const size_t size : {size_t{0}, size_t{1}, limit}) {
    ConnectOptions connect;
    connect.private_data_of = [size](RdmaEndpoint&) { return Bytes(size); };
    absl::StatusOr<EndpointPtr> client;
    absl::StatusOr<EndpointPtr> server;
    const auto attempt = Connect(&client, connect);
    ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));
    EXPECT_EQ(AsVector(requests_[0]->private_data()), Bytes(size));
    AcceptOptions accept;
    accept.private_data_of = [rest = limit - size](RdmaEndpoint&) {
      return Bytes(rest);
    };
    Accept(&server, accept);
    ASSERT_TRUE(
        RunUntil([&] { return Concluded(client) && Concluded(server); }));
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ(AsVector((*client)->peer_private_data()), Bytes(limit - size));
    EXPECT_EQ(AsVector((*server)->peer_private_data()), Bytes(size));
    EXPECT_EQ((*client)->capabilities().max_private_data_bytes, limit);
    EXPECT_EQ((*client)->peer_address(), (*server)->local_address());
  }
  ConnectOptions too_much;
  too_much.private_data = Bytes(limit + 1);
  absl::StatusOr<EndpointPtr> client;
  const auto attempt = Connect(&client, too_much);
  ASSERT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ConnectTest, RejectCarriesPrivateData) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  absl::StatusOr<EndpointPtr> client;
  const auto attempt = Connect(&client);
  ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));
  requests_[0]->Reject(Bytes(20));
  ASSERT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  const auto payload = client.status().GetPayload(kRejectPrivateData);
  ASSERT_TRUE(payload.has_value()) << client.status();
  const std::string text(*payload);
  EXPECT_EQ(std::vector<uint8_t>(text.begin(), text.end()), Bytes(20));
}

TEST_P(ConnectTest, UnansweredRequestIsRejected) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  absl::StatusOr<EndpointPtr> client;
  auto attempt = Connect(&client);
  ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));
  requests_.clear();
  EXPECT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_FALSE(client.ok());
}

TEST_P(ConnectTest, ListenerClosedWithRequestsPending) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  absl::StatusOr<EndpointPtr> client;
  auto attempt = Connect(&client);
  ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));
  listener_.reset();
  EXPECT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_FALSE(client.ok());
  absl::StatusOr<EndpointPtr> server;
  Accept(&server);
  EXPECT_TRUE(RunUntil([&] { return Concluded(server); }));
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ConnectTest, NobodyListens) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const Address address = listener_->address();
  listener_.reset();
  absl::Status outcome;
  bool finished = false;
  const auto attempt =
      transport_->Connect(reactor_.get(), address, {}, [&](auto endpoint) {
        finished = true;
        outcome = endpoint.status();
      });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  EXPECT_FALSE(finished);
  ASSERT_TRUE(RunUntil([&] { return finished; }));
  EXPECT_EQ(outcome.code(), absl::StatusCode::kUnavailable) << outcome;
}

TEST_P(ConnectTest, NoAnswerEndsAtTheDeadline) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  ConnectOptions connect;
  connect.timeout = absl::Milliseconds(300);
  absl::StatusOr<EndpointPtr> client;
  const absl::Time start = EpollReactor::MonotonicNow();
  const auto attempt = Connect(&client, connect);
  ASSERT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded)
      << client.status();
  EXPECT_LT(EpollReactor::MonotonicNow() - start, absl::Seconds(5));
}

TEST_P(ConnectTest, CancelledAttemptIsSilent) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  for (const int milliseconds : {0, 1, 5, 50}) {
    absl::StatusOr<EndpointPtr> client;
    auto attempt = Connect(&client);
    RunFor(absl::Milliseconds(milliseconds));
    attempt.reset();
    RunFor(absl::Milliseconds(20));
    EXPECT_FALSE(Concluded(client)) << client.status();
  }
}

TEST_P(ConnectTest, PrepareRunsBeforeThePeerCanSend) {
  TestBuffer* inbox = nullptr;
  AcceptOptions accept;
  accept.prepare = [&](RdmaEndpoint& endpoint) {
    inbox = &Memory(&endpoint, 64, '.');
    const Sge target = inbox->Part(0, 64);
    EXPECT_EQ(endpoint.PostReceive({5, 6}, {&target, 1}),
              PostResult::kAccepted);
    return absl::OkStatus();
  };
  ConnectPair({}, accept);
  if (HasFatalFailure()) return;
  char text[] = "hello";
  const Sge source = {text, 5, nullptr};
  ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
  const Completion received = Next(server_.get());
  EXPECT_EQ(received.id, (OperationId{5, 6}));
  EXPECT_EQ(inbox->text().substr(0, 5), "hello");
}

TEST_P(ConnectTest, PrepareCanRefuse) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  AcceptOptions accept;
  accept.prepare = [](RdmaEndpoint&) {
    return absl::FailedPreconditionError("not today");
  };
  absl::StatusOr<EndpointPtr> client;
  absl::StatusOr<EndpointPtr> server;
  const auto attempt = Connect(&client);
  Accept(&server, accept);
  ASSERT_TRUE(RunUntil([&] { return Concluded(client) && Concluded(server); }));
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(client.ok());
}

TEST_P(ConnectTest, DisconnectFlushesBothEnds) {
  ConnectOptions connect;
  AcceptOptions accept;
  int client_ends = 0;
  int server_ends = 0;
  connect.on_disconnect = [&](RdmaEndpoint&) { ++client_ends; };
  accept.on_disconnect = [&](RdmaEndpoint&) { ++server_ends; };
  ConnectPair(connect, accept);
  if (HasFatalFailure()) return;
  TestBuffer& memory = Memory(client_.get(), 64, '.');
  TestBuffer& inbox = Memory(server_.get(), 64, '.');
  const Sge mine = memory.Part(0, 64);
  const Sge theirs = inbox.Part(0, 64);
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(client_->PostReceive({i, 1}, {&mine, 1}), PostResult::kAccepted);
    ASSERT_EQ(server_->PostReceive({i, 2}, {&theirs, 1}),
              PostResult::kAccepted);
  }
  client_->Disconnect();
  EXPECT_EQ(client_ends, 0) << "from inside the call";
  EXPECT_FALSE(client_->connected());
  EXPECT_EQ(client_->PostReceive({}, {&mine, 1}), PostResult::kClosed);
  EXPECT_EQ(client_->PostSend({}, {&mine, 1}), PostResult::kClosed);
  for (uint32_t i = 0; i < 5; ++i) {
    const Completion completion = Next(client_.get());
    EXPECT_EQ(completion.id, (OperationId{i, 1}));
    EXPECT_EQ(completion.status, CompletionStatus::kFlushed);
  }
  for (uint32_t i = 0; i < 5; ++i) {
    const Completion completion = Next(server_.get());
    EXPECT_EQ(completion.id, (OperationId{i, 2}));
    EXPECT_EQ(completion.status, CompletionStatus::kFlushed);
    EXPECT_EQ(completion.endpoint, server_.get());
  }
  EXPECT_TRUE(RunUntil([&] { return client_ends == 1 && server_ends == 1; }));
  EXPECT_FALSE(server_->connected());
  EXPECT_EQ(client_->error().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server_->error().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Quiet(client_->completion_queue()));
  EXPECT_TRUE(Quiet(server_->completion_queue()));
  EXPECT_EQ(client_ends, 1);
  EXPECT_EQ(server_ends, 1);
}

TEST_P(ConnectTest, DestroyedEndpointsDeliverTheRest) {
  std::shared_ptr<CompletionQueue> queue;
  ConnectOptions connect;
  connect.send_queue = 16;
  connect.receive_queue = 16;
  connect.resources =
      [&](MemoryDomain& domain) -> absl::StatusOr<EndpointResources> {
    auto created = domain.CreateCompletionQueue(reactor_.get(), 40);
    if (!created.ok()) return created.status();
    queue = *created;
    return EndpointResources{queue.get(), nullptr};
  };
  ConnectPair(connect);
  if (HasFatalFailure()) return;
  EXPECT_EQ(client_->completion_queue(), queue.get());
  TestBuffer& memory = Memory(client_.get(), 64, '.');
  TestBuffer& window = Memory(server_.get(), 64, '.', Access::kRemoteRead);
  const Sge mine = memory.Part(0, 64);
  for (uint32_t i = 0; i < 7; ++i) {
    ASSERT_EQ(client_->PostReceive({i, 1}, {&mine, 1}), PostResult::kAccepted);
    ASSERT_EQ(client_->PostRead({i, 2}, {&mine, 1}, window.Remote(0)),
              PostResult::kAccepted);
  }
  client_.reset();
  int completions[3] = {};
  for (int i = 0; i < 14; ++i) {
    const Completion completion = Next(queue.get());
    EXPECT_EQ(completion.endpoint, nullptr);
    // A provider with threads of its own may have finished some READs.
    EXPECT_EQ(completion.status == CompletionStatus::kOk,
              completion.scope == DamageScope::kNone);
    ++completions[completion.id.generation];
  }
  EXPECT_EQ(completions[1], 7);
  EXPECT_EQ(completions[2], 7);
  EXPECT_TRUE(Quiet(queue.get()));
}

// A peer that has not yet heard of the end goes on to send.
TEST_P(ConnectTest, NoMessageLandsInMemoryOfADestroyedEndpoint) {
  ConnectPair();
  auto& sink = Memory(server_.get(), 4096, '.');
  auto& source = Memory(client_.get(), 4096, 'x');
  ASSERT_EQ(server_->PostReceive({1, 1}, {{sink.Part(0, 4096)}}),
            PostResult::kAccepted);
  server_.reset();
  // Not yet: nothing has turned.
  ASSERT_EQ(client_->PostSend({2, 1}, {{source.Part(0, 100)}}),
            PostResult::kAccepted);
  client_->Flush();
  RunUntil([this] { return !client_->connected(); });
  EXPECT_EQ(sink.text(), std::string(4096, '.'));
}

TEST_P(ConnectTest, CompletionQueueCannotOverflow) {
  std::shared_ptr<CompletionQueue> queue;
  ConnectOptions connect;
  connect.send_queue = 16;
  connect.receive_queue = 16;
  connect.resources =
      [&](MemoryDomain& domain) -> absl::StatusOr<EndpointResources> {
    if (queue == nullptr) {
      queue = domain.CreateCompletionQueue(reactor_.get(), 63).value();
    }
    return EndpointResources{queue.get(), nullptr};
  };
  ConnectPair(connect);
  if (HasFatalFailure()) return;
  absl::StatusOr<EndpointPtr> second;
  const auto attempt = Connect(&second, connect);
  ASSERT_TRUE(RunUntil([&] { return Concluded(second); }));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted)
      << second.status();
  // A queue pair that is gone gives its entries back.
  client_.reset();
  RunFor(absl::Milliseconds(20));
  const auto again = Connect(&second, connect);
  absl::StatusOr<EndpointPtr> server;
  Accept(&server);
  ASSERT_TRUE(RunUntil([&] { return Concluded(second); }));
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST_P(ConnectTest, WrongKeyEndsTheConnection) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& memory = Memory(client_.get(), 64, '.');
  const Sge mine = memory.Part(0, 64);
  ASSERT_EQ(client_->PostRead({3, 3}, {&mine, 1}, {0, {0x12345678}}),
            PostResult::kAccepted);
  const Completion completion = Next(client_.get());
  EXPECT_NE(completion.status, CompletionStatus::kOk);
  EXPECT_EQ(completion.scope, DamageScope::kConnection);
  EXPECT_TRUE(RunUntil([&] { return !client_->connected(); }));
  EXPECT_TRUE(Quiet(client_->completion_queue()));
}

TEST_P(ConnectTest, WrongBufferFailsInItsTurn) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& memory = Memory(client_.get(), 4096, '.');
  TestBuffer& inbox = Memory(server_.get(), 64, '.');
  const Sge theirs = inbox.Part(0, 64);
  ASSERT_EQ(server_->PostReceive({}, {&theirs, 1}), PostResult::kAccepted);
  const Sge good = memory.Part(0, 64);
  const Sge bad = {memory.data() + 4000, 200, memory.region()};
  ASSERT_EQ(client_->PostSend({1, 0}, {&good, 1}), PostResult::kAccepted);
  ASSERT_EQ(client_->PostSend({2, 0}, {&bad, 1}), PostResult::kAccepted);
  ASSERT_EQ(client_->PostSend({3, 0}, {&good, 1}), PostResult::kAccepted);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kLocalError);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kFlushed);
  EXPECT_TRUE(RunUntil([&] { return !client_->connected(); }));
}

TEST_P(ConnectTest, TooLongForTheReceive) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& memory = Memory(client_.get(), 4096, '.');
  TestBuffer& inbox = Memory(server_.get(), 64, '.');
  const Sge theirs = inbox.Part(0, 64);
  ASSERT_EQ(server_->PostReceive({7, 0}, {&theirs, 1}), PostResult::kAccepted);
  const Sge big = memory.Part(0, 4096);
  ASSERT_EQ(client_->PostSend({}, {&big, 1}), PostResult::kAccepted);
  const Completion completion = Next(server_.get());
  EXPECT_EQ(completion.id, (OperationId{7, 0}));
  EXPECT_EQ(completion.status, CompletionStatus::kTooLong);
  EXPECT_TRUE(RunUntil([&] { return !server_->connected(); }));
}

// Connections of datagrams take a handshake and a step-by-step end, which is
// seconds for many under a sanitizer.
int Rounds(int of_messages) {
  const absl::string_view provider = ConnectTest::GetParam();
  const bool datagrams =
      provider == "provider=shm" || absl::EndsWith(provider, "ofi_rxm");
  return datagrams ? of_messages / 5 : of_messages;
}

TEST_P(ConnectTest, SimultaneousClose) {
  for (int i = 0; i < Rounds(20); ++i) {
    ConnectPair();
    if (HasFatalFailure()) return;
    client_->Disconnect();
    server_->Disconnect();
    RunFor(absl::Milliseconds(1));
    client_.reset();
    server_.reset();
  }
}

TEST_P(ConnectTest, ManyConnectionsInARow) {
  for (int i = 0; i < Rounds(200); ++i) {
    ConnectPair();
    if (HasFatalFailure()) return;
    client_.reset();
    server_.reset();
  }
}

TEST_P(ConnectTest, IdleConnectionsLeaveTheReactorAsleep) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& inbox = Memory(server_.get(), 64, '.');
  const Sge theirs = inbox.Part(0, 64);
  ASSERT_EQ(server_->PostReceive({}, {&theirs, 1}), PostResult::kAccepted);
  RunFor(absl::Milliseconds(50));
  pollfd p = {reactor_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  EXPECT_GT(reactor_->NextDeadline() - EpollReactor::MonotonicNow(),
            absl::Milliseconds(100));
}

INSTANTIATE_TEST_SUITE_P(Providers, ConnectTest,
                         ::testing::Values("provider=tcp", "provider=sockets",
                                           "provider=shm",
                                           "provider=tcp;ofi_rxm"),
                         ProviderName);

}  // namespace
}  // namespace skiff::transport
