// What strangers can send to the port of a listener over datagrams.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "transport/libfabric/datagram/handshake.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/libfabric/shm/shm_peer.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

// A peer that is a bare socket.
class DatagramPeerTest : public LibfabricTest {
 protected:
  ScopedFd ConnectSocket() {
    ScopedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener_->address().port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    return fd;
  }
  static void Send(const ScopedFd& fd, const std::vector<uint8_t>& bytes) {
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Bytes that come before the listener closes the connection.
  std::vector<uint8_t> ReceiveAll(const ScopedFd& fd) {
    std::vector<uint8_t> out;
    bool closed = false;
    EXPECT_TRUE(RunUntil([&] {
      uint8_t buffer[4096];
      const ssize_t got = recv(fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got > 0) out.insert(out.end(), buffer, buffer + got);
      closed = got == 0 || (got < 0 && errno == ECONNRESET);
      return closed;
    }));
    return out;
  }
  HandshakeMessage Request() const {
    HandshakeMessage message;
    message.type = HandshakeType::kConnect;
    message.from = 42;
    message.text = GetParam() + std::strlen("provider=");
    message.address = {'f', 'i', '_', 's', 'h', 'm', ':', '/',
                       '/', 'x', 0,   0,   0,   0,   0,   0};
    return message;
  }
};

TEST_P(DatagramPeerTest, GarbageEndsTheConnection) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd fd = ConnectSocket();
  Send(fd, std::vector<uint8_t>(kHandshakeHeaderBytes, 'x'));
  EXPECT_TRUE(ReceiveAll(fd).empty());
  EXPECT_TRUE(requests_.empty());
}

TEST_P(DatagramPeerTest, OnlyARequestMayComeFirst) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd fd = ConnectSocket();
  HandshakeMessage message;
  message.type = HandshakeType::kDisconnect;
  message.to = 1;
  message.from = 2;
  Send(fd, EncodeHandshake(message));
  EXPECT_TRUE(ReceiveAll(fd).empty());
  EXPECT_TRUE(requests_.empty());
}

TEST_P(DatagramPeerTest, AnotherProviderIsRejectedWithTheReason) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd fd = ConnectSocket();
  HandshakeMessage message = Request();
  message.text = "other";
  Send(fd, EncodeHandshake(message));
  const auto answer = DecodeHandshake(ReceiveAll(fd));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->type, HandshakeType::kReject);
  EXPECT_EQ(answer->to, 42u);
  EXPECT_TRUE(absl::StrContains(answer->text, "not other")) << answer->text;
}

TEST_P(DatagramPeerTest, AnotherVersionIsToldOurs) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd fd = ConnectSocket();
  std::vector<uint8_t> request = EncodeHandshake(Request());
  request[4] = kHandshakeVersion - 1;
  Send(fd, request);
  const auto answer = DecodeHandshake(ReceiveAll(fd));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->type, HandshakeType::kReject);
  EXPECT_TRUE(requests_.empty());
}

TEST_P(DatagramPeerTest, SilentPeersAreLimitedAndDropped) {
  ListenOptions options;
  options.backlog = 3;
  Listen(options);
  ASSERT_NE(listener_, nullptr);
  std::vector<ScopedFd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(ConnectSocket());
  RunFor(absl::Milliseconds(50));
  const ScopedFd rest = ConnectSocket();
  EXPECT_TRUE(ReceiveAll(rest).empty());
  for (const ScopedFd& fd : silent) EXPECT_TRUE(ReceiveAll(fd).empty());
  // Then there is room again.
  ConnectPair();
}

// The address leads nowhere, and the machine is another one.
TEST_P(DatagramPeerTest, AcceptingAStrangerFailsInTime) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd fd = ConnectSocket();
  Send(fd, EncodeHandshake(Request()));
  AcceptOptions accept;
  accept.timeout = absl::Milliseconds(200);
  absl::StatusOr<EndpointPtr> server;
  Accept(&server, accept);
  ASSERT_TRUE(RunUntil([&] { return Concluded(server); }));
  EXPECT_FALSE(server.ok());
  ConnectPair();
}

// Whoever accepts, and then talks of another connection.
TEST_P(DatagramPeerTest, AnswersToOtherConnectionsEndTheAttempt) {
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd impostor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  socklen_t length = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(impostor.get(), any, length), 0);
  ASSERT_EQ(listen(impostor.get(), 1), 0);
  ASSERT_EQ(getsockname(impostor.get(), any, &length), 0);
  absl::Status outcome;
  bool finished = false;
  const auto attempt = transport_->Connect(
      reactor_.get(), Address::Parse(Uri(ntohs(address.sin_port))).value(), {},
      [&](auto endpoint) {
        finished = true;
        outcome = endpoint.status();
      });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  RunFor(absl::Milliseconds(20));
  const ScopedFd fd(accept(impostor.get(), nullptr, nullptr));
  HandshakeMessage answer = Request();
  answer.type = HandshakeType::kAccept;
  answer.to = 7;
  Send(fd, EncodeHandshake(answer));
  ASSERT_TRUE(RunUntil([&] { return finished; }));
  EXPECT_EQ(outcome.code(), absl::StatusCode::kInvalidArgument) << outcome;
}

// What this process has in shared memory.
int OurShmFiles() {
  const std::string name = NewShmName();
  const std::string prefix = name.substr(0, name.rfind('-') + 1);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (absl::StartsWith(entry.path().filename().string(), prefix)) ++count;
  }
  return count;
}

TEST_P(DatagramPeerTest, NothingIsLeftWhenTheReactorEndsFirst) {
  ConnectPair();
  ASSERT_NE(client_, nullptr);
  const bool shm = GetParam() == std::string("provider=shm");
  EXPECT_EQ(OurShmFiles(), shm ? 2 : 0);
  client_.reset();
  server_.reset();
  listener_.reset();
  reactor_.reset();
  EXPECT_EQ(OurShmFiles(), 0);
}

TEST_P(DatagramPeerTest, APeerOutlivesTheReactorOfTheOtherEnd) {
  std::unique_ptr<EpollReactor> other = EpollReactor::Create().value();
  ConnectPair({}, {}, other.get());
  ASSERT_NE(server_, nullptr);
  // With an operation under way.
  TestBuffer& memory = Memory(client_.get(), 4096, 'c');
  const Sge piece = memory.Part(0, 4096);
  ASSERT_EQ(client_->PostSend({1}, {&piece, 1}), PostResult::kAccepted);
  server_.reset();
  other.reset();
  EXPECT_EQ(Next(client_.get()).kind, OperationKind::kSend);
  EXPECT_TRUE(RunUntil([&] { return !client_->connected(); }));
  client_.reset();
  listener_.reset();
  reactor_.reset();
  EXPECT_EQ(OurShmFiles(), 0);
}

// An end that goes in any turn of connecting, while the other is at work in the
// same process; `n` turns of both reactors come before. False once both ends
// had their outcome by then.
class EndWhileConnectingTest : public DatagramPeerTest {
 protected:
  bool ConnectFor(int n) {
    Listen();
    client_outcome_ = absl::UnknownError("no outcome");
    server_outcome_ = absl::UnknownError("no outcome");
    home_ = EpollReactor::Create().value();
    attempt_ = Connect(&client_outcome_);
    AcceptOptions accept;
    accept.timeout = absl::Seconds(2);
    Accept(&server_outcome_, accept, home_.get());
    for (int i = 0; i < n; ++i) Turns();
    return !Concluded(client_outcome_) || !Concluded(server_outcome_);
  }
  // So slowly that those of a wait are few.
  void Turns() {
    if (home_ != nullptr) home_->Poll();
    reactor_->Poll();
    absl::SleepFor(absl::Microseconds(100));
  }
  // What is left of an end has its outcome, uses the connection, and hears that
  // it is over.
  void ExpectEnd(absl::StatusOr<EndpointPtr>* end) {
    const absl::Time limit = EpollReactor::MonotonicNow() + absl::Seconds(20);
    const auto run_until = [&](const std::function<bool()>& done) {
      while (!done() && EpollReactor::MonotonicNow() < limit) Turns();
      return done();
    };
    ASSERT_TRUE(run_until([&] { return Concluded(*end); }));
    if (!end->ok()) return;
    TestBuffer& memory = Memory(end->value().get(), 4096, 'c');
    const Sge piece = memory.Part(0, 4096);
    end->value()->PostSend({1}, {&piece, 1});
    EXPECT_TRUE(run_until([&] { return !end->value()->connected(); }));
  }
  // What a closing end waits for.
  void Finish() {
    client_outcome_ = absl::UnknownError("no outcome");
    server_outcome_ = absl::UnknownError("no outcome");
    attempt_.reset();
    for (int i = 0; i < 100; ++i) Turns();
    home_.reset();
    EXPECT_TRUE(RunUntil([] { return OurShmFiles() == 0; }));
    listener_.reset();
  }

  std::unique_ptr<EpollReactor> home_;  // The server's.
  std::unique_ptr<ConnectAttempt> attempt_;
  absl::StatusOr<EndpointPtr> client_outcome_;
  absl::StatusOr<EndpointPtr> server_outcome_;
};

constexpr int kTooManyTurns = 1000;

TEST_P(EndWhileConnectingTest, OfTheConnectingEnd) {
  int n = 0;
  for (bool connecting = true; connecting && n < kTooManyTurns; ++n) {
    SCOPED_TRACE(n);
    connecting = ConnectFor(n);
    attempt_.reset();
    client_outcome_ = absl::CancelledError("gone");
    ExpectEnd(&server_outcome_);
    Finish();
  }
  EXPECT_GT(n, 2);
  EXPECT_LT(n, kTooManyTurns);
}

TEST_P(EndWhileConnectingTest, OfTheAcceptingEndAndItsReactor) {
  int n = 0;
  for (bool connecting = true; connecting && n < kTooManyTurns; ++n) {
    SCOPED_TRACE(n);
    connecting = ConnectFor(n);
    server_outcome_ = absl::CancelledError("gone");
    home_.reset();
    ExpectEnd(&client_outcome_);
    Finish();
  }
  EXPECT_GT(n, 2);
  EXPECT_LT(n, kTooManyTurns);
}

INSTANTIATE_TEST_SUITE_P(Providers, EndWhileConnectingTest,
                         ::testing::Values("provider=shm"), ProviderName);
INSTANTIATE_TEST_SUITE_P(Providers, DatagramPeerTest,
                         ::testing::Values("provider=shm",
                                           "provider=tcp;ofi_rxm"),
                         ProviderName);

}  // namespace
}  // namespace skiff::transport
