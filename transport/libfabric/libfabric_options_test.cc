// The settings of the transport do what they say.

#include "transport/libfabric/fabric/libfabric_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <iterator>

#include "absl/strings/match.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

size_t OpenDescriptors() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                    std::filesystem::directory_iterator()));
}

class LibfabricOptionsTest : public LibfabricTest {
 protected:
  void Use(const LibfabricOptions& settings) {
    transport_ = MakeLibfabricTransport(settings);
  }
  absl::Duration Took(const std::function<bool()>& done) {
    const absl::Time start = EpollReactor::MonotonicNow();
    EXPECT_TRUE(RunUntil(done));
    return EpollReactor::MonotonicNow() - start;
  }
  // How long the idle reactor goes on without sleeping.
  absl::Duration Spinning() {
    return Took([this] {
      return reactor_->NextDeadline() > EpollReactor::MonotonicNow();
    });
  }
};

// One that needs endpoints without wait objects, and looks for refusals.
class ShmOptionsTest : public LibfabricOptionsTest {};
// One whose descriptor stays readable while a message waits for its RECEIVE.
class TcpOptionsTest : public LibfabricOptionsTest {
 protected:
  // Connects, and sends what meets no RECEIVE. How often the reactor wakes up
  // for that before it leaves the descriptor alone.
  uint32_t WakeUps(const LibfabricOptions& settings) {
    Use(settings);
    ConnectPair();
    if (client_ == nullptr) return 0;
    TestBuffer& memory = Memory(client_.get(), kBytes, 'c');
    const Sge piece = memory.Part(0, kBytes);
    EXPECT_EQ(client_->PostSend({1}, {&piece, 1}), PostResult::kAccepted);
    client_->Flush();
    uint32_t count = 0;
    pollfd p = {reactor_->fd(), POLLIN, 0};
    for (; count < kMany && poll(&p, 1, kQuietMilliseconds) == 1; ++count) {
      reactor_->Poll();
    }
    return count;
  }
  // For what comes without a timer: an hour is as good as never.
  static LibfabricOptions NeverRetried() {
    LibfabricOptions settings;
    settings.retry_interval = absl::Hours(1);
    return settings;
  }

  static constexpr size_t kBytes = 65536;
  static constexpr uint32_t kMany = 10'000;
  static constexpr int kQuietMilliseconds = 500;
};

// Those that begin at a port of their own.
class DatagramOptionsTest : public LibfabricOptionsTest {};

TEST_P(LibfabricOptionsTest, CompletionQueuesAreLimited) {
  LibfabricOptions settings;
  settings.max_completion_queue_entries = 100;
  Use(settings);
  Listen();
  ASSERT_NE(listener_, nullptr);
  ConnectOptions options;
  options.send_queue = 50;
  options.receive_queue = 51;
  absl::StatusOr<EndpointPtr> client;
  const auto attempt = Connect(&client, options);
  ASSERT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(client.status().message(), "limit of 100"))
      << client.status();
  options.receive_queue = 50;
  AcceptOptions accept;
  accept.send_queue = accept.receive_queue = 50;
  ConnectPair(options, accept);
}

// Both settings in one process: each transport's connections have their own.
TEST_P(LibfabricOptionsTest, TransportsDiffer) {
  LibfabricOptions settings;
  settings.max_completion_queue_entries = 100;
  ConnectPair();
  ASSERT_NE(client_, nullptr);
  ConnectOptions options;
  options.send_queue = options.receive_queue = 100;
  const std::unique_ptr<Transport> other =
      std::exchange(transport_, MakeLibfabricTransport(settings));
  absl::StatusOr<EndpointPtr> client;
  const auto attempt = Connect(&client, options);
  ASSERT_TRUE(RunUntil([&] { return Concluded(client); }));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client_->connected());
}

TEST_P(DatagramOptionsTest, SilentPeersAreDroppedInTime) {
  LibfabricOptions settings;
  settings.greeting_limit = absl::Milliseconds(300);
  Use(settings);
  Listen();
  ASSERT_NE(listener_, nullptr);
  const ScopedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(listener_->address().port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  ASSERT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  const absl::Duration took = Took([&] {
    char byte = 0;
    const ssize_t got = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  });
  EXPECT_GE(took, absl::Milliseconds(290));
  EXPECT_LT(took, absl::Seconds(4));
}

// The peer's reactor does not turn any more.
TEST_P(DatagramOptionsTest, ClosingWaitsForAPeerSoLong) {
  LibfabricOptions settings;
  settings.close_limit = absl::Milliseconds(300);
  settings.quarantine = absl::ZeroDuration();
  Use(settings);
  const auto other = EpollReactor::Create().value();
  ConnectPair({}, {}, other.get());
  ASSERT_NE(server_, nullptr);
  // The connection beside it goes with the queue pair.
  const absl::Time start = EpollReactor::MonotonicNow();
  client_.reset();
  const size_t before = OpenDescriptors();
  Took([&] { return OpenDescriptors() < before; });
  const absl::Duration took = EpollReactor::MonotonicNow() - start;
  EXPECT_GE(took, absl::Milliseconds(290));
  EXPECT_LT(took, absl::Seconds(4));
  EXPECT_TRUE(RunUntil([&] {
    other->Poll();
    return !server_->connected();
  }));
  server_.reset();
}

TEST_P(ShmOptionsTest, WhatEndedIsKeptSoLong) {
  LibfabricOptions settings;
  settings.quarantine = absl::Milliseconds(1500);
  Use(settings);
  // Held here, as what has ended stays with its completion queue.
  std::shared_ptr<CompletionQueue> queue;
  ConnectOptions connect;
  connect.resources =
      [&](MemoryDomain& domain) -> absl::StatusOr<EndpointResources> {
    auto made = domain.CreateCompletionQueue(reactor_.get(), 1024);
    if (!made.ok()) return made.status();
    queue = *std::move(made);
    EndpointResources resources;
    resources.completion_queue = queue.get();
    return resources;
  };
  ConnectPair(connect);
  ASSERT_NE(client_, nullptr);
  const size_t before = OpenDescriptors();
  client_.reset();
  EXPECT_GE(Took([&] { return OpenDescriptors() < before; }),
            absl::Milliseconds(1490));
}

TEST_P(ShmOptionsTest, SpinsSoLong) {
  LibfabricOptions settings;
  settings.spin = absl::Seconds(1);
  Use(settings);
  ConnectPair();
  ASSERT_NE(client_, nullptr);
  EXPECT_GE(Spinning(), absl::Milliseconds(300));
}

TEST_P(ShmOptionsTest, KeepsAwakeWhileItSpins) {
  LibfabricOptions settings;
  settings.spin = absl::Milliseconds(500);
  Use(settings);
  ConnectPair();
  ASSERT_NE(server_, nullptr);
  EXPECT_TRUE(server_->completion_queue()->keeps_awake());
  RunFor(absl::Seconds(1));
  EXPECT_FALSE(server_->completion_queue()->keeps_awake());
}

// By the reactor; who polls the completion queue himself sees it at once.
TEST_P(ShmOptionsTest, LooksInVainSoOften) {
  LibfabricOptions settings;
  settings.spin = absl::Seconds(5);
  settings.look_interval = absl::Milliseconds(300);
  Use(settings);
  ConnectPair();
  ASSERT_NE(server_, nullptr);
  TestBuffer& from = Memory(client_.get(), 64, 'c');
  TestBuffer& to = Memory(server_.get(), 64, 's');
  const Sge source = from.Part(0, 64);
  const Sge sink = to.Part(0, 64);
  CompletionQueue* const queue = server_->completion_queue();
  const auto noticed_next = [&] {
    EXPECT_EQ(server_->PostReceive({1}, {&sink, 1}), PostResult::kAccepted);
    EXPECT_TRUE(queue->Arm());
    // It looks at once where something was there, and then in vain.
    RunFor(absl::Milliseconds(10));
    EXPECT_EQ(client_->PostSend({2}, {&source, 1}), PostResult::kAccepted);
    client_->Flush();
    EXPECT_TRUE(RunUntil([queue] {
      pollfd p = {queue->fd(), POLLIN, 0};
      return poll(&p, 1, 0) == 1;
    }));
    queue->Disarm();
    Completion completion;
    EXPECT_EQ(queue->Poll({&completion, 1}), 1);
    return EpollReactor::MonotonicNow();
  };
  const absl::Time first = noticed_next();
  EXPECT_GE(noticed_next() - first, absl::Milliseconds(290));
}

// A SEND that meets no RECEIVE.
TEST_P(ShmOptionsTest, IsPatientSoLong) {
  LibfabricOptions settings;
  settings.patience = absl::Seconds(1);
  Use(settings);
  ConnectPair();
  ASSERT_NE(client_, nullptr);
  Spinning();
  TestBuffer& memory = Memory(client_.get(), 65536, 'c');
  const Sge piece = memory.Part(0, 65536);
  ASSERT_EQ(client_->PostSend({1}, {&piece, 1}), PostResult::kAccepted);
  client_->Flush();
  EXPECT_GE(Spinning(), absl::Milliseconds(300));
}

TEST_P(ShmOptionsTest, RefusalsAreLookedForSoOften) {
  LibfabricOptions settings;
  settings.check_interval = absl::Milliseconds(250);
  Use(settings);
  ConnectPair();
  ASSERT_NE(client_, nullptr);
  TestBuffer& memory = Memory(client_.get(), 64, 'c');
  const TestBuffer& there = Memory(server_.get(), 64, 's');
  const Sge piece = memory.Part(0, 64);
  ASSERT_EQ(client_->PostRead({1}, {&piece, 1}, there.Remote(0)),
            PostResult::kAccepted);
  client_->Flush();
  const absl::Duration took = Took([&] { return !client_->connected(); });
  // It is asked twice.
  EXPECT_GE(took, absl::Milliseconds(490));
  EXPECT_EQ(client_->error().code(), absl::StatusCode::kPermissionDenied);
}

TEST_P(TcpOptionsTest, WakesUpInVainSoOften) {
  LibfabricOptions settings = NeverRetried();
  settings.max_fruitless_wakeups = 200;
  const uint32_t count = WakeUps(settings);
  EXPECT_GE(count, 200u);
  // Those of the connection, and of the SEND's own completion.
  EXPECT_LT(count, 220u);
}

TEST_P(TcpOptionsTest, LooksAgainSoOften) {
  ASSERT_LT(WakeUps(NeverRetried()), kMany);
  const absl::Duration sleeps =
      reactor_->NextDeadline() - EpollReactor::MonotonicNow();
  EXPECT_GT(sleeps, absl::Minutes(30));
  EXPECT_LE(sleeps, absl::Hours(1));
  // A RECEIVE does not wait for it.
  TestBuffer& memory = Memory(server_.get(), kBytes, 's');
  const Sge piece = memory.Part(0, kBytes);
  ASSERT_EQ(server_->PostReceive({2}, {&piece, 1}), PostResult::kAccepted);
  EXPECT_EQ(Next(server_.get()).status, CompletionStatus::kOk);
  EXPECT_EQ(memory.text(), std::string(kBytes, 'c'));
}

// The same without wait objects: only the interval is left once nobody polls.
TEST_P(ShmOptionsTest, LooksAgainSoOften) {
  LibfabricOptions settings;
  settings.retry_interval = absl::Milliseconds(500);
  Use(settings);
  ConnectPair();
  ASSERT_NE(client_, nullptr);
  TestBuffer& memory = Memory(client_.get(), 65536, 'c');
  const Sge piece = memory.Part(0, 65536);
  ASSERT_EQ(client_->PostSend({1}, {&piece, 1}), PostResult::kAccepted);
  client_->Flush();
  Spinning();
  EXPECT_GT(reactor_->NextDeadline() - EpollReactor::MonotonicNow(),
            absl::Milliseconds(100));
}

INSTANTIATE_TEST_SUITE_P(Providers, LibfabricOptionsTest,
                         ::testing::Values("provider=tcp", "provider=shm"),
                         ProviderName);
INSTANTIATE_TEST_SUITE_P(Providers, DatagramOptionsTest,
                         ::testing::Values("provider=shm",
                                           "provider=tcp;ofi_rxm"),
                         ProviderName);
INSTANTIATE_TEST_SUITE_P(Providers, TcpOptionsTest,
                         ::testing::Values("provider=tcp"), ProviderName);
INSTANTIATE_TEST_SUITE_P(Providers, ShmOptionsTest,
                         ::testing::Values("provider=shm"), ProviderName);

}  // namespace
}  // namespace skiff::transport
