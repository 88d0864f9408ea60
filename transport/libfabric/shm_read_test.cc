// READs over shared memory, which are done here where that is right.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/libfabric/fabric_endpoint.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/libfabric/shm_peer.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

class ShmReadTest : public LibfabricTest {
 protected:
  // Those that the provider took: what is done here is none of them.
  uint64_t ProvidersOperations() const { return queue_pair().one_sided(); }
  bool holding() const { return queue_pair().holding(); }
  // The server's reactor, `home`, turns meanwhile.
  Completion NextWithServer(EpollReactor* home) {
    Completion completion;
    EXPECT_TRUE(RunUntil([&] {
      home->Poll();
      return client_->completion_queue()->Poll({&completion, 1}) == 1;
    })) << "no completion comes";
    EXPECT_EQ(completion.status, CompletionStatus::kOk);
    return completion;
  }

  // In a process of its own, which ends when it is told to on `peer`. A fork of
  // it has all that it has, until the other end of `peer` is closed.
  [[noreturn]] void ConnectAndEnd(int peer) {
    // The parent's is not to be touched, and shares its descriptor.
    static_cast<void>(reactor_.release());
    reactor_ = EpollReactor::Create().value();
    absl::StatusOr<EndpointPtr> client;
    const auto attempt = Connect(&client);
    RunUntil([&] { return Concluded(client); });
    if (fork() == 0) {
      pollfd closed = {peer, 0, 0};
      poll(&closed, 1, -1);
      _exit(0);
    }
    char byte = 'x';
    const bool told = write(peer, &byte, 1) == 1 &&
                      RunUntil([&] { return read(peer, &byte, 1) == 1; });
    _exit(told ? 0 : 1);
  }

 private:
  const FabricQueuePair& queue_pair() const {
    return *static_cast<const FabricEndpoint*>(client_.get())->queue_pair();
  }
};

TEST_P(ShmReadTest, NeedsNothingOfThePeer) {
  // Its reactor stands still after the connection was made.
  const auto home = EpollReactor::Create().value();
  ConnectPair({}, {}, home.get());
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 200000, 'g', Access::kRemoteRead);
  TestBuffer& to = Memory(client_.get(), 200000, '.');
  for (uint32_t i = 0; i < 8; ++i) {
    const Sge target = to.Part(10000 * i, 10000);
    EXPECT_EQ(client_->PostRead({i, 9}, {&target, 1}, window.Remote(77)),
              PostResult::kAccepted);
  }
  for (uint32_t i = 0; i < 8; ++i) {
    const Completion read = Next(client_.get());
    EXPECT_EQ(read.status, CompletionStatus::kOk);
    EXPECT_EQ(read.id, (OperationId{i, 9}));
  }
  EXPECT_EQ(to.text(), std::string(80000, 'g') + std::string(120000, '.'));
  EXPECT_TRUE(client_->connected());
  // It goes before its reactor.
  server_.reset();
}

// While that endpoint is being served, too: READs are over when they are
// posted.
TEST_P(ShmReadTest, FromTheCallbackOfAnotherEndpointOfTheQueue) {
  std::shared_ptr<CompletionQueue> queue;
  ConnectOptions connect;
  connect.resources =
      [&](MemoryDomain& domain) -> absl::StatusOr<EndpointResources> {
    if (queue == nullptr) {
      queue = domain.CreateCompletionQueue(reactor_.get(), 1024).value();
    }
    return EndpointResources{queue.get(), nullptr};
  };
  ConnectPair(connect);
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 64, 'g', Access::kRemoteRead);
  TestBuffer& to = Memory(client_.get(), 64, '.');
  const Sge target = to.Part(0, 64);
  const auto read = [&](uint32_t index) {
    EXPECT_EQ(client_->PostRead({index, 0}, {&target, 1}, window.Remote(0)),
              PostResult::kAccepted);
  };
  bool ended = false;
  connect.on_disconnect = [&](RdmaEndpoint&) {
    read(2);
    ended = true;
  };
  absl::StatusOr<EndpointPtr> other;
  absl::StatusOr<EndpointPtr> accepted;
  const auto attempt = Connect(&other, connect);
  Accept(&accepted);
  ASSERT_TRUE(
      RunUntil([&] { return Concluded(other) && Concluded(accepted); }));
  ASSERT_TRUE(other.ok() && accepted.ok()) << other.status();
  (*other)->Disconnect();
  read(1);
  ASSERT_TRUE(RunUntil([&] { return ended; }));
  EXPECT_EQ(Next(queue.get()).id, (OperationId{1, 0}));
  EXPECT_EQ(Next(queue.get()).id, (OperationId{2, 0}));
  EXPECT_EQ(to.text(), std::string(64, 'g'));
}

// The first READ follows a WRITE, and so is the provider's; it takes nothing
// more then. What is held is issued when that is over.
TEST_P(ShmReadTest, ThatWasHeldIsDoneHere) {
  for (const bool behind_a_send : {false, true}) {
    SCOPED_TRACE(behind_a_send);
    const auto home = EpollReactor::Create().value();
    ConnectPair({}, {}, home.get());
    if (HasFatalFailure()) return;
    constexpr size_t kLong = 50000;
    TestBuffer& window = Memory(server_.get(), kLong, '.',
                                Access::kRemoteRead | Access::kRemoteWrite);
    TestBuffer& inbox = Memory(server_.get(), 16, '.');
    TestBuffer& from = Memory(client_.get(), kLong, 'a');
    TestBuffer& first = Memory(client_.get(), kLong, '.');
    TestBuffer& held = Memory(client_.get(), kLong, '.');
    const Sge message = inbox.Part(0, 16);
    server_->PostReceive({}, {&message, 1});
    const Sge source = from.Part(0, kLong);
    const Sge word = from.Part(0, 16);
    const Sge targets[] = {first.Part(0, kLong), held.Part(0, kLong)};
    uint32_t posted = 0;
    client_->PostWrite({posted++, 0}, {&source, 1}, window.Remote(0));
    client_->PostRead({posted++, 0}, {&targets[0], 1}, window.Remote(0));
    EXPECT_FALSE(holding());
    if (behind_a_send) client_->PostSend({posted++, 0}, {&word, 1});
    client_->PostRead({posted++, 0}, {&targets[1], 1}, window.Remote(0));
    EXPECT_TRUE(holding());
    for (uint32_t i = 0; i < posted; ++i) {
      EXPECT_EQ(NextWithServer(home.get()).id.index, i);
    }
    EXPECT_EQ(first.text(), std::string(kLong, 'a'));
    EXPECT_EQ(held.text(), std::string(kLong, 'a'));
    EXPECT_EQ(ProvidersOperations(), 2u);
    server_.reset();
    client_.reset();
  }
}

// A fork of the peer's process keeps the connection beside the fabric open, and
// the process's number may go to another one.
TEST_P(ShmReadTest, EndsWithThePeersProcess) {
  Listen();
  int ends[2];
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  ASSERT_EQ(socketpair(AF_UNIX, kType, 0, ends), 0);
  const ScopedFd ours(ends[0]);
  ScopedFd theirs(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    ConnectAndEnd(theirs.get());
  }
  theirs.reset();
  absl::StatusOr<EndpointPtr> server;
  Accept(&server);
  const auto heard = [&] {
    char byte;
    return read(ours.get(), &byte, 1) == 1;
  };
  ASSERT_TRUE(RunUntil([&] { return Concluded(server) && heard(); }));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->connected());
  EXPECT_EQ(write(ours.get(), "x", 1), 1);
  EXPECT_TRUE(
      RunUntil([&] { return !(*server)->connected(); }, absl::Seconds(5)));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  RemoveShmOfTheDead();
}

// It has completed, and yet the peer may still have to serve it.
TEST_P(ShmReadTest, WaitsForAShortWriteThatWasPolled) {
  const auto home = EpollReactor::Create().value();
  ConnectPair({}, {}, home.get());
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 64, '.',
                              Access::kRemoteRead | Access::kRemoteWrite);
  TestBuffer& from = Memory(client_.get(), 64, 'a');
  TestBuffer& to = Memory(client_.get(), 64, '.');
  const Sge source = from.Part(0, 64);
  const Sge target = to.Part(0, 64);
  ASSERT_EQ(client_->PostWrite({1, 0}, {&source, 1}, window.Remote(0)),
            PostResult::kAccepted);
  EXPECT_EQ(Next(client_.get()).kind, OperationKind::kWrite);
  EXPECT_EQ(window.text(), std::string(64, '.')) << "served in no time";
  ASSERT_EQ(client_->PostRead({2, 0}, {&target, 1}, window.Remote(0)),
            PostResult::kAccepted);
  EXPECT_TRUE(Quiet(client_->completion_queue()));
  EXPECT_EQ(NextWithServer(home.get()).id.index, 2u);
  EXPECT_EQ(to.text(), std::string(64, 'a'));
  server_.reset();
}

// READs are over when they are posted, and still tell it in their turn.
TEST_P(ShmReadTest, CompletesAfterWhatWasPostedBefore) {
  const auto home = EpollReactor::Create().value();
  ConnectPair({}, {}, home.get());
  if (HasFatalFailure()) return;
  constexpr size_t kLong = 50000;
  TestBuffer& window = Memory(server_.get(), kLong, 'g',
                              Access::kRemoteRead | Access::kRemoteWrite);
  TestBuffer& memory = Memory(client_.get(), kLong, '.');
  TestBuffer& inbox = Memory(server_.get(), kLong, '.');
  const Sge all = memory.Part(0, kLong);
  const Sge word = memory.Part(0, 8);
  // Its message stays here until the peer fetches it.
  client_->PostSend({0, 0}, {&all, 1});
  client_->PostRead({1, 0}, {&word, 1}, window.Remote(0));
  EXPECT_EQ(memory.text().substr(0, 9), "gggggggg.");
  EXPECT_EQ(ProvidersOperations(), 0u);
  EXPECT_TRUE(Quiet(client_->completion_queue()));
  // Short WRITEs complete at once.
  client_->PostWrite({2, 0}, {&word, 1}, window.Remote(0));
  client_->PostRead({3, 0}, {&word, 1}, window.Remote(0));
  EXPECT_TRUE(Quiet(client_->completion_queue()));
  const Sge target = inbox.Part(0, kLong);
  server_->PostReceive({}, {&target, 1});
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(NextWithServer(home.get()).id.index, i);
  }
  server_.reset();
}

INSTANTIATE_TEST_SUITE_P(Providers, ShmReadTest,
                         ::testing::Values("provider=shm"), ProviderName);

}  // namespace
}  // namespace skiff::transport
