// Listening and connecting.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/net/scoped_fd.h"
#include "transport/net/socket_address.h"
#include "transport/tcp/tcp_test_util.h"

namespace skiff::transport {
namespace {

using TcpConnectTest = TcpTest;

// A port that nobody listens on.
uint16_t UnusedPort() {
  ScopedFd fd(socket(AF_INET, SOCK_STREAM, 0));
  auto address = ParseLiteral("127.0.0.1", 0);
  EXPECT_EQ(bind(fd.get(), address->get(), address->length), 0);
  return LocalAddress(fd.get()).port();
}

class TcpFamilyTest : public TcpTest,
                      public ::testing::WithParamInterface<const char*> {};

TEST_P(TcpFamilyTest, ConnectsAndKnowsBothAddresses) {
  auto listener = Listen(absl::StrCat("tcp://", GetParam(), ":0"));
  ASSERT_NE(listener, nullptr);
  ASSERT_NE(listener->address().port, 0);
  auto client = Connect(listener->address());
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));
  EXPECT_EQ(requests_[0]->local_address(), (*client)->peer_address());
  EXPECT_EQ(requests_[0]->peer_address(), (*client)->local_address());
  auto server = Accept();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->local_address(), (*client)->peer_address());
  EXPECT_EQ(server->peer_address(), (*client)->local_address());
  EXPECT_EQ(server->local_address(), listener->address().HostPort());

  ASSERT_EQ(Write(client->get(), "hello").bytes, 5u);
  StreamStatus last;
  EXPECT_EQ(ReadSome(server.get(), 5, &last), "hello");
}

INSTANTIATE_TEST_SUITE_P(Families, TcpFamilyTest,
                         ::testing::Values("127.0.0.1", "[::1]"));

TEST_F(TcpConnectTest, Ipv6AnyTakesBothFamilies) {
  auto listener = Listen("tcp://[::]:0");
  ASSERT_NE(listener, nullptr);
  Address address = listener->address();
  for (const char* host : {"127.0.0.1", "::1"}) {
    address.host = host;
    auto client = Connect(address);
    ASSERT_TRUE(client.ok()) << client.status();
    auto server = Accept();
    ASSERT_NE(server, nullptr);
    // Without the ::ffff: of the socket's own view.
    EXPECT_EQ(server->local_address(), address.HostPort());
  }
}

TEST_F(TcpConnectTest, V6OnlyLeavesIpv4Alone) {
  auto listener = Listen("tcp://[::]:0?v6only=1");
  ASSERT_NE(listener, nullptr);
  Address address = listener->address();
  address.options.clear();
  address.host = "::1";
  EXPECT_TRUE(Connect(address).ok());
  address.host = "127.0.0.1";
  EXPECT_FALSE(Connect(address).ok());
}

TEST_F(TcpConnectTest, ChecksOptionsWithoutListening) {
  EXPECT_TRUE(
      transport_->CheckAddress(*Address::Parse("tcp://[::]?v6only=1")).ok());
  // No such host, which is not asked for.
  EXPECT_TRUE(
      transport_->CheckAddress(*Address::Parse("tcp://no-such-host.invalid:1"))
          .ok());
  const Address wrong = *Address::Parse("tcp://127.0.0.1:0?v6only=2");
  const absl::Status status = transport_->CheckAddress(wrong);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(transport_->Listen(reactor_.get(), wrong, {}, nullptr).status(),
            status);
}

TEST_F(TcpConnectTest, ResolvesNames) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  Address address = listener->address();
  address.host = "localhost";
  // Where localhost is ::1 first, the second address is the one that answers.
  auto client = Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->peer_address(), listener->address().HostPort());
}

TEST_F(TcpConnectTest, ListensOnNames) {
  auto listener = Listen("tcp://localhost:0");
  ASSERT_NE(listener, nullptr);
  EXPECT_TRUE(Connect(listener->address()).ok());
}

TEST_F(TcpConnectTest, UnknownNameIsNamed) {
  Address address = *Address::Parse("tcp://no-such-host.invalid:3260");
  ConnectOptions options;
  options.timeout = absl::Seconds(5);
  auto client = Connect(address, options);
  ASSERT_FALSE(client.ok());
  EXPECT_TRUE(absl::StrContains(client.status().message(),
                                "connect tcp://no-such-host.invalid:3260: "))
      << client.status();
}

TEST_F(TcpConnectTest, CancelledLookupNeverReports) {
  bool called = false;
  auto attempt =
      transport_->Connect(reactor_.get(), *Address::Parse("tcp://localhost:1"),
                          {}, [&](absl::StatusOr<Endpoint>) { called = true; });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  attempt->reset();
  EXPECT_FALSE(RunUntil([&] { return called; }, absl::Milliseconds(100)));
}

TEST_F(TcpConnectTest, RefusedSaysSo) {
  Address address = *Address::Parse("tcp://127.0.0.1:1");
  address.port = UnusedPort();
  auto client = Connect(address);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client.status().message(),
            absl::StrCat("connect tcp://127.0.0.1:", address.port,
                         ": Connection refused - is a target listening "
                         "there?"));
}

// The kernel drops the SYN of a connection that the backlog has no room for.
class FullBacklog {
 public:
  FullBacklog() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    auto address = ParseLiteral("127.0.0.1", 0);
    EXPECT_EQ(bind(listener_.get(), address->get(), address->length), 0);
    EXPECT_EQ(listen(listener_.get(), 0), 0);
    const SocketAddress bound = LocalAddress(listener_.get());
    for (int i = 0; i < 4; ++i) {
      ScopedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      // In progress, or done: either fills the backlog.
      static_cast<void>(connect(fd.get(), bound.get(), bound.length));
      fill_.push_back(std::move(fd));
    }
  }
  uint16_t port() const { return LocalAddress(listener_.get()).port(); }

 private:
  ScopedFd listener_;
  std::vector<ScopedFd> fill_;
};

TEST_F(TcpConnectTest, TimesOutWhenNothingAnswers) {
  FullBacklog silent;
  Address address = *Address::Parse("tcp://127.0.0.1:1");
  address.port = silent.port();
  ConnectOptions options;
  options.timeout = absl::Milliseconds(200);
  const absl::Time start = EpollReactor::MonotonicNow();
  auto client = Connect(address, options);
  const absl::Duration took = EpollReactor::MonotonicNow() - start;
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(client.status().message(), "no answer in time"))
      << client.status();
  EXPECT_GE(took, options.timeout);
  EXPECT_LT(took, absl::Seconds(10));
}

TEST_F(TcpConnectTest, CancelledAttemptNeverReports) {
  FullBacklog silent;
  Address address = *Address::Parse("tcp://127.0.0.1:1");
  address.port = silent.port();
  ConnectOptions options;
  options.timeout = absl::Milliseconds(50);
  bool called = false;
  auto attempt =
      transport_->Connect(reactor_.get(), address, options,
                          [&](absl::StatusOr<Endpoint>) { called = true; });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  reactor_->Poll();
  attempt->reset();
  EXPECT_FALSE(RunUntil([&] { return called; }, absl::Milliseconds(200)));
}

TEST_F(TcpConnectTest, AttemptMayBeDestroyedByItsOwnCallback) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  Address refused = listener->address();
  refused.port = UnusedPort();
  for (const Address& address : {listener->address(), refused}) {
    std::unique_ptr<ConnectAttempt> attempt;
    bool called = false;
    auto created = transport_->Connect(reactor_.get(), address, {},
                                       [&](absl::StatusOr<Endpoint>) {
                                         called = true;
                                         attempt.reset();
                                       });
    ASSERT_TRUE(created.ok()) << created.status();
    attempt = *std::move(created);
    EXPECT_TRUE(RunUntil([&] { return called; }));
    EXPECT_EQ(attempt, nullptr);
  }
}

TEST_F(TcpConnectTest, BadArgumentsAreRefusedAtOnce) {
  auto expect_invalid = [&](const char* uri, const ConnectOptions& options) {
    auto attempt =
        transport_->Connect(reactor_.get(), *Address::Parse(uri), options,
                            [](absl::StatusOr<Endpoint>) { FAIL(); });
    EXPECT_EQ(attempt.status().code(), absl::StatusCode::kInvalidArgument)
        << attempt.status();
  };
  expect_invalid("tcp://127.0.0.1:0", {});
  expect_invalid("tcp://127.0.0.1:1?color=red", {});
  ConnectOptions no_time;
  no_time.timeout = absl::ZeroDuration();
  expect_invalid("tcp://127.0.0.1:1", no_time);

  ListenOptions no_backlog;
  no_backlog.backlog = 0;
  auto listener =
      transport_->Listen(reactor_.get(), *Address::Parse("tcp://127.0.0.1:0"),
                         no_backlog, [](std::unique_ptr<ConnectionRequest>) {});
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TcpConnectTest, ListenErrorsSayWhatToDo) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  auto second = transport_->Listen(reactor_.get(), listener->address(), {},
                                   [](std::unique_ptr<ConnectionRequest>) {});
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::StrContains(second.status().message(),
                                "is another target running on this port?"))
      << second.status();
  // TEST-NET-1 (RFC 5737) is nobody's address.
  auto foreign =
      transport_->Listen(reactor_.get(), *Address::Parse("tcp://192.0.2.1:0"),
                         {}, [](std::unique_ptr<ConnectionRequest>) {});
  ASSERT_FALSE(foreign.ok());
  EXPECT_TRUE(absl::StrContains(foreign.status().message(),
                                "no interface of this machine"))
      << foreign.status();
}

TEST_F(TcpConnectTest, RejectedPeerSeesAReset) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  for (const bool explicitly : {true, false}) {
    auto client = Connect(listener->address());
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));
    if (explicitly) requests_[0]->Reject({});
    requests_.clear();
    StreamStatus last = StreamStatus::kOk;
    EXPECT_EQ(ReadSome(client->get(), 1, &last), "");
    EXPECT_EQ(last, StreamStatus::kError);
    EXPECT_TRUE(absl::StrContains((*client)->error().message(),
                                  "Connection reset by peer"))
        << (*client)->error();
  }
}

TEST_F(TcpConnectTest, ListenerThatGoesRejectsWhatIsPending) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  // In the kernel's backlog: connected without a turn of the reactor.
  ScopedFd waiting(socket(AF_INET, SOCK_STREAM, 0));
  auto address = ParseLiteral("127.0.0.1", listener->address().port);
  ASSERT_EQ(connect(waiting.get(), address->get(), address->length), 0);
  listener.reset();
  char byte;
  EXPECT_EQ(recv(waiting.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  reactor_->Poll();
  EXPECT_TRUE(requests_.empty());
}

TEST_F(TcpConnectTest, ListenerMayBeDestroyedByItsOwnCallback) {
  std::unique_ptr<Listener> listener;
  int called = 0;
  auto created =
      transport_->Listen(reactor_.get(), *Address::Parse("tcp://127.0.0.1:0"),
                         {}, [&](std::unique_ptr<ConnectionRequest>) {
                           ++called;
                           listener.reset();
                         });
  ASSERT_TRUE(created.ok()) << created.status();
  listener = *std::move(created);
  auto address = ParseLiteral("127.0.0.1", listener->address().port);
  ScopedFd first(socket(AF_INET, SOCK_STREAM, 0));
  ScopedFd second(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(first.get(), address->get(), address->length), 0);
  ASSERT_EQ(connect(second.get(), address->get(), address->length), 0);
  ASSERT_TRUE(RunUntil([&] { return called > 0; }));
  reactor_->Poll();
  EXPECT_EQ(called, 1);
}

TEST_F(TcpConnectTest, AcceptsOntoAnotherReactor) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  auto client = Connect(listener->address());
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(RunUntil([&] { return !requests_.empty(); }));

  auto home = EpollReactor::Create().value();
  std::thread::id ran_on;
  std::unique_ptr<ByteStream> server;
  std::thread thread([&] {
    home->Run();
    server.reset();
  });
  const std::thread::id home_id = thread.get_id();
  requests_[0]->Accept(home.get(), {}, [&](absl::StatusOr<Endpoint> endpoint) {
    ran_on = std::this_thread::get_id();
    server = std::get<std::unique_ptr<ByteStream>>(*std::move(endpoint));
    EXPECT_EQ(Write(server.get(), "x").bytes, 1u);
    home->Stop();
  });
  thread.join();
  EXPECT_EQ(ran_on, home_id);
  StreamStatus last;
  EXPECT_EQ(ReadSome(client->get(), 1, &last), "x");
}

TEST_F(TcpConnectTest, AThousandConnectionsInARow) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  for (int i = 0; i < 1000; ++i) {
    auto client = Connect(listener->address());
    ASSERT_TRUE(client.ok()) << i << ": " << client.status();
    auto server = Accept();
    ASSERT_NE(server, nullptr);
    // Without a TIME_WAIT that would eat up the ports.
    server->Abort();
  }
}

TEST_F(TcpConnectTest, AHundredConnectionsAtOnce) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  std::vector<std::unique_ptr<ConnectAttempt>> attempts;
  std::vector<Endpoint> endpoints;
  for (int i = 0; i < 100; ++i) {
    auto attempt =
        transport_->Connect(reactor_.get(), listener->address(), {},
                            [&](absl::StatusOr<Endpoint> endpoint) {
                              ASSERT_TRUE(endpoint.ok()) << endpoint.status();
                              endpoints.push_back(*std::move(endpoint));
                            });
    ASSERT_TRUE(attempt.ok()) << attempt.status();
    attempts.push_back(*std::move(attempt));
  }
  EXPECT_TRUE(RunUntil(
      [&] { return endpoints.size() == 100 && requests_.size() == 100; }));
}

absl::Duration ThreadCpuTime() {
  timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return absl::DurationFromTimespec(ts);
}

// Takes all descriptors away for as long as it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &old_);
    ScopedFd lowest(dup(0));
    const rlimit none = {static_cast<rlim_t>(lowest.get()), old_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &old_); }

 private:
  rlimit old_;
};

// A socket that is connected to the listener, which has not turned yet.
ScopedFd ConnectedTo(const Listener& listener) {
  ScopedFd client(socket(AF_INET, SOCK_STREAM, 0));
  auto address = ParseLiteral("127.0.0.1", listener.address().port);
  EXPECT_EQ(connect(client.get(), address->get(), address->length), 0);
  return client;
}

// A listener's troubles go there.
ListenOptions Noting(std::vector<std::string>* told) {
  ListenOptions options;
  options.on_trouble = [told](const absl::Status& status) {
    told->push_back(status.ToString());
  };
  return options;
}

TEST_F(TcpConnectTest, OutOfDescriptorsPausesWithoutSpinning) {
  std::vector<std::string> told;
  auto listener = Listen("tcp://127.0.0.1:0", Noting(&told));
  ASSERT_NE(listener, nullptr);
  const ScopedFd client = ConnectedTo(*listener);
  {
    NoDescriptors none;
    const absl::Duration before = ThreadCpuTime();
    EXPECT_FALSE(
        RunUntil([&] { return !requests_.empty(); }, absl::Milliseconds(400)));
    EXPECT_LT(ThreadCpuTime() - before, absl::Milliseconds(100));
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(absl::StrContains(told[0], "Too many open files")) << told[0];
  EXPECT_TRUE(absl::StrContains(told[0], "ulimit -n")) << told[0];
  // It goes on by itself.
  EXPECT_TRUE(RunUntil([&] { return !requests_.empty(); }));
}

TEST_F(TcpConnectTest, PausesAndComplaintsAreAsSet) {
  TcpOptions settings;
  settings.accept_pause = absl::Milliseconds(20);
  settings.complaint_interval = absl::ZeroDuration();
  transport_ = MakeTcpTransport(settings);
  std::vector<std::string> told;
  auto listener = Listen("tcp://127.0.0.1:0", Noting(&told));
  ASSERT_NE(listener, nullptr);
  const ScopedFd client = ConnectedTo(*listener);
  {
    NoDescriptors none;
    EXPECT_FALSE(
        RunUntil([&] { return !requests_.empty(); }, absl::Milliseconds(400)));
  }
  EXPECT_GT(told.size(), 4u);
}

TEST_F(TcpConnectTest, TakesSoManyConnectionsInATurn) {
  TcpOptions settings;
  settings.accepts_per_turn = 2;
  transport_ = MakeTcpTransport(settings);
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  std::vector<ScopedFd> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(ConnectedTo(*listener));
  for (size_t expected : {2, 4, 5}) {
    reactor_->Poll();
    EXPECT_EQ(requests_.size(), expected);
  }
}

TEST_F(TcpConnectTest, DevicesIncludeTheLoopback) {
  bool found = false;
  for (const DeviceReport& device : transport_->Devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_EQ(device.usable, device.problem.empty());
    EXPECT_FALSE(device.capabilities.rdma);
    if (device.name != "lo") continue;
    found = true;
    EXPECT_TRUE(device.usable) << device.problem;
    EXPECT_TRUE(absl::StrContains(device.detail, "up, mtu 65536"))
        << device.detail;
    EXPECT_TRUE(absl::StrContains(device.detail, "127.0.0.1")) << device.detail;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace skiff::transport
