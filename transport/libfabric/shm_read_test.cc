// READs over shared memory, which are done here where that is right.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/libfabric/fabric/fabric_endpoint.h"
#include "transport/libfabric/libfabric_test_util.h"
#include "transport/libfabric/shm/shm_peer.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

class ShmReadTest : public LibfabricTest {
 protected:
  static constexpr uint32_t kReads = 16;  // ConnectOptions::read_depth

  // Those that the provider took: what is done here is none of them.
  uint64_t one_sided() const { return queue_pair().one_sided(); }
  bool has_due() const { return queue_pair().has_due(); }
  bool holding() const { return queue_pair().holding(); }
  // The server's reactor, `home`, turns meanwhile.
  Completion NextWithServer(EpollReactor* home) {
    Completion completion;
    EXPECT_TRUE(RunUntil([&] {
      home->Poll();
      saw_due_ |= queue_pair().has_due();
      return client_->completion_queue()->Poll({&completion, 1}) == 1;
    })) << "no completion comes";
    EXPECT_EQ(completion.status, CompletionStatus::kOk);
    return completion;
  }

  // The server's reactor is `home`. READs of the first letter of `window` into
  // pieces of client_'s memory, of which one at a time is done.
  void PostReadsOneAtATime(EpollReactor* home, uint32_t count) {
    LibfabricOptions settings;
    settings.shm_read_bytes = 1;
    transport_ = MakeLibfabricTransport(settings);
    ConnectPair({}, {}, home);
    if (HasFatalFailure()) return;
    window_ = &Memory(server_.get(), 1, 'g', Access::kRemoteRead);
    to_ = &Memory(client_.get(), count, '.');
    for (uint32_t i = 0; i < count; ++i) {
      const Sge target = to_->Part(i, 1);
      EXPECT_EQ(client_->PostRead({i, 0}, {&target, 1}, window_->Remote(0)),
                PostResult::kAccepted);
    }
    EXPECT_EQ(to_->text(), "g" + std::string(count - 1, '.'));
  }

  // Clients that are connected with these have queue_ in common.
  ConnectOptions OnOneQueue() {
    ConnectOptions connect;
    connect.resources =
        [this](MemoryDomain& domain) -> absl::StatusOr<EndpointResources> {
      if (queue_ == nullptr) {
        queue_ = domain.CreateCompletionQueue(reactor_.get(), 1024).value();
      }
      return EndpointResources{queue_.get(), nullptr};
    };
    return connect;
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

  TestBuffer* window_ = nullptr;
  TestBuffer* to_ = nullptr;
  bool saw_due_ = false;  // By NextWithServer().
  std::shared_ptr<CompletionQueue> queue_;

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

// What is behind them goes out meanwhile, and still completes in its turn.
TEST_P(ShmReadTest, LeavesTimeForOtherWork) {
  const auto home = EpollReactor::Create().value();
  PostReadsOneAtATime(home.get(), 4);
  if (HasFatalFailure()) return;
  TestBuffer& word = Memory(client_.get(), 8, 'w');
  TestBuffer& inbox = Memory(server_.get(), 8, '.');
  const Sge sink = inbox.Part(0, 8);
  const Sge source = word.Part(0, 8);
  EXPECT_EQ(server_->PostReceive({}, {&sink, 1}), PostResult::kAccepted);
  EXPECT_EQ(client_->PostSend({4, 0}, {&source, 1}), PostResult::kAccepted);
  Completion received;
  EXPECT_TRUE(RunUntil([&] {
    return server_->completion_queue()->Poll({&received, 1}) == 1;
  }));
  EXPECT_EQ(inbox.text(), std::string(8, 'w'));
  CompletionQueue* const queue = client_->completion_queue();
  Completion completions[8];
  uint32_t done = 0;
  for (const std::string text : {"gg..", "ggg.", "gggg"}) {
    const int count = queue->Poll(absl::MakeSpan(completions));
    EXPECT_EQ(to_->text(), text);
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(completions[i].id.index, done++);
      EXPECT_EQ(completions[i].status, CompletionStatus::kOk);
    }
    EXPECT_GE(done, static_cast<uint32_t>(
                        std::count(text.begin(), text.begin() + 3, 'g')));
  }
  while (done < 5) EXPECT_EQ(Next(queue).id.index, done++);
  EXPECT_EQ(one_sided(), 0u);
  server_.reset();
}

// What is behind them goes to the provider, whose part of a later READ it is to
// come after that.
TEST_P(ShmReadTest, SeesTheWriteBetweenItAndThoseThatAreDue) {
  const auto home = EpollReactor::Create().value();
  PostReadsOneAtATime(home.get(), 3);
  if (HasFatalFailure()) return;
  constexpr size_t kLong = 50000;
  TestBuffer& target = Memory(server_.get(), kLong, '.',
                              Access::kRemoteRead | Access::kRemoteWrite);
  TestBuffer& from = Memory(client_.get(), kLong, 'a');
  TestBuffer& back = Memory(client_.get(), kLong, '.');
  const Sge source = from.Part(0, kLong);
  const Sge sink = back.Part(0, kLong);
  ASSERT_TRUE(has_due());
  EXPECT_EQ(client_->PostWrite({3, 0}, {&source, 1}, target.Remote(0)),
            PostResult::kAccepted);
  EXPECT_EQ(client_->PostRead({4, 0}, {&sink, 1}, target.Remote(0)),
            PostResult::kAccepted);
  for (uint32_t i = 0; i < 5; ++i) {
    const Completion completion = NextWithServer(home.get());
    EXPECT_EQ(completion.id.index, i);
    EXPECT_EQ(completion.kind,
              i == 3 ? OperationKind::kWrite : OperationKind::kRead);
  }
  EXPECT_EQ(to_->text(), "ggg");
  EXPECT_EQ(target.text(), std::string(kLong, 'a'));
  EXPECT_EQ(back.text(), std::string(kLong, 'a'));
  server_.reset();
}

// Each has its share of a look.
TEST_P(ShmReadTest, IsDueOnTwoEndpointsOfAQueue) {
  LibfabricOptions settings;
  settings.shm_read_bytes = 1;
  transport_ = MakeLibfabricTransport(settings);
  const ConnectOptions connect = OnOneQueue();
  const auto home = EpollReactor::Create().value();
  EndpointPtr clients[2];
  EndpointPtr servers[2];
  TestBuffer* windows[2];
  TestBuffer* to[2];
  for (size_t end = 0; end < 2; ++end) {
    ConnectPair(connect, {}, home.get());
    if (HasFatalFailure()) return;
    windows[end] = &Memory(server_.get(), 1, 'g', Access::kRemoteRead);
    to[end] = &Memory(client_.get(), 3, '.');
    clients[end] = std::move(client_);
    servers[end] = std::move(server_);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    for (uint32_t end = 0; end < 2; ++end) {
      const Sge target = to[end]->Part(i, 1);
      EXPECT_EQ(clients[end]->PostRead({i, end}, {&target, 1},
                                       windows[end]->Remote(0)),
                PostResult::kAccepted);
    }
  }
  uint32_t done[2] = {};
  for (const std::string text : {"g..", "gg.", "ggg"}) {
    for (const TestBuffer* memory : to) EXPECT_EQ(memory->text(), text);
    Completion completions[8];
    const int count = queue_->Poll(absl::MakeSpan(completions));
    for (int i = 0; i < count; ++i) {
      const OperationId id = completions[i].id;
      EXPECT_EQ(id.index, done[id.generation]++);
    }
  }
  while (done[0] + done[1] < 6) {
    const OperationId id = Next(queue_.get()).id;
    EXPECT_EQ(id.index, done[id.generation]++);
  }
  EXPECT_EQ(done[0], 3u);
  for (EndpointPtr& server : servers) server.reset();
}

TEST_P(ShmReadTest, GoesOnWhenNobodyPolls) {
  const auto home = EpollReactor::Create().value();
  PostReadsOneAtATime(home.get(), kReads);
  if (HasFatalFailure()) return;
  EXPECT_TRUE(
      RunUntil([&] { return to_->text() == std::string(kReads, 'g'); }));
  for (uint32_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(Next(client_.get()).id.index, i);
  }
  server_.reset();
}

TEST_P(ShmReadTest, GoesOnWhileTheUserSleeps) {
  const auto home = EpollReactor::Create().value();
  PostReadsOneAtATime(home.get(), 1);
  if (HasFatalFailure()) return;
  EXPECT_EQ(Next(client_.get()).id.index, 0u);
  constexpr size_t kLong = 50000;
  TestBuffer& message = Memory(client_.get(), kLong, 'm');
  TestBuffer& inbox = Memory(server_.get(), kLong, '.');
  TestBuffer& to = Memory(client_.get(), kReads, '.');
  const Sge all = message.Part(0, kLong);
  // Nothing can be told before the peer has fetched this.
  client_->PostSend({0, 0}, {&all, 1});
  for (uint32_t i = 0; i < kReads; ++i) {
    const Sge target = to.Part(i, 1);
    client_->PostRead({1 + i, 0}, {&target, 1}, window_->Remote(0));
  }
  CompletionQueue* const queue = client_->completion_queue();
  ASSERT_TRUE(queue->Arm());
  EXPECT_NE(to.text(), std::string(kReads, 'g'));
  EXPECT_TRUE(RunUntil([&] { return to.text() == std::string(kReads, 'g'); }));
  const auto is_told = [queue] {
    pollfd p = {queue->fd(), POLLIN, 0};
    return poll(&p, 1, 0) == 1;
  };
  EXPECT_FALSE(is_told());
  const Sge sink = inbox.Part(0, kLong);
  server_->PostReceive({}, {&sink, 1});
  EXPECT_TRUE(RunUntil([&] {
    home->Poll();
    return is_told();
  }));
  queue->Disarm();
  Completion completion;
  for (uint32_t i = 0; i <= kReads; ++i) {
    ASSERT_EQ(queue->Poll({&completion, 1}), 1);
    EXPECT_EQ(completion.id.index, i);
  }
  server_.reset();
}

// The provider takes one READ at a time, and the peer does not look.
TEST_P(ShmReadTest, SleepsWhileTheProviderIsBusy) {
  const auto home = EpollReactor::Create().value();
  PostReadsOneAtATime(home.get(), 1);
  if (HasFatalFailure()) return;
  const Sge target = to_->Part(0, 1);
  RemoteBuffer wrong = window_->Remote(0);
  wrong.key.value += 1000;
  client_->PostRead({1, 0}, {&target, 1}, wrong);
  client_->PostRead({2, 0}, {&target, 1}, wrong);
  EXPECT_TRUE(RunUntil([this] { return one_sided() == 1 && has_due(); }));
  EXPECT_TRUE(RunUntil([this] {
    return reactor_->NextDeadline() > EpollReactor::MonotonicNow() &&
           !client_->completion_queue()->keeps_awake();
  }));
  for (uint32_t i = 0; i < 3; ++i) {
    Completion read;
    EXPECT_TRUE(RunUntil([&] {
      home->Poll();
      return client_->completion_queue()->Poll({&read, 1}) == 1;
    }));
    EXPECT_EQ(read.id.index, i);
    EXPECT_EQ(read.status == CompletionStatus::kOk, i == 0) << i;
  }
  server_.reset();
}

TEST_P(ShmReadTest, IsFlushedBeforeItsTurn) {
  const auto home = EpollReactor::Create().value();
  PostReadsOneAtATime(home.get(), 4);
  if (HasFatalFailure()) return;
  client_->Disconnect();
  for (uint32_t i = 0; i < 4; ++i) {
    const Completion read = Next(client_.get());
    EXPECT_EQ(read.id.index, i);
    EXPECT_EQ(read.status,
              i == 0 ? CompletionStatus::kOk : CompletionStatus::kFlushed);
  }
  EXPECT_EQ(to_->text(), "g...");
  server_.reset();
}

// The provider has to find that out, when it is the READ's turn.
TEST_P(ShmReadTest, FailsInItsTurn) {
  PostReadsOneAtATime(nullptr, 2);
  if (HasFatalFailure()) return;
  const Sge target = to_->Part(0, 1);
  RemoteBuffer wrong = window_->Remote(0);
  wrong.key.value += 1000;
  EXPECT_EQ(client_->PostRead({2, 0}, {&target, 1}, wrong),
            PostResult::kAccepted);
  for (uint32_t i = 0; i < 3; ++i) {
    const Completion read = Next(client_.get());
    EXPECT_EQ(read.id.index, i);
    EXPECT_EQ(read.status,
              i < 2 ? CompletionStatus::kOk : CompletionStatus::kRemoteAccess);
  }
  EXPECT_TRUE(RunUntil([this] { return !client_->connected(); }));
}

TEST_P(ShmReadTest, GoesWithItsEndpoint) {
  PostReadsOneAtATime(nullptr, 4);
  if (HasFatalFailure()) return;
  client_.reset();
  RunFor(absl::Milliseconds(50));
  EXPECT_EQ(to_->text(), "g...");
}

// While that endpoint is being served, too: the first READ is over when it is
// posted.
TEST_P(ShmReadTest, FromTheCallbackOfAnotherEndpointOfTheQueue) {
  ConnectOptions connect = OnOneQueue();
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
  EXPECT_EQ(Next(queue_.get()).id, (OperationId{1, 0}));
  EXPECT_EQ(Next(queue_.get()).id, (OperationId{2, 0}));
  EXPECT_EQ(to.text(), std::string(64, 'g'));
}

// The first READ follows a WRITE, and so is the provider's; it takes nothing
// more then. What is held is issued when that is over.
TEST_P(ShmReadTest, ThatWasHeldIsDoneHere) {
  for (const bool behind_a_send : {false, true}) {
    SCOPED_TRACE(behind_a_send);
    // Of two that were held, the second is not done in the same turn.
    LibfabricOptions settings;
    settings.shm_read_bytes = 1;
    transport_ = MakeLibfabricTransport(settings);
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
    TestBuffer& last = Memory(client_.get(), kLong, '.');
    const Sge message = inbox.Part(0, 16);
    server_->PostReceive({}, {&message, 1});
    const Sge source = from.Part(0, kLong);
    const Sge word = from.Part(0, 16);
    const Sge targets[] = {first.Part(0, kLong), held.Part(0, kLong),
                           last.Part(0, kLong)};
    uint32_t posted = 0;
    client_->PostWrite({posted++, 0}, {&source, 1}, window.Remote(0));
    client_->PostRead({posted++, 0}, {&targets[0], 1}, window.Remote(0));
    EXPECT_FALSE(holding());
    if (behind_a_send) client_->PostSend({posted++, 0}, {&word, 1});
    client_->PostRead({posted++, 0}, {&targets[1], 1}, window.Remote(0));
    client_->PostRead({posted++, 0}, {&targets[2], 1}, window.Remote(0));
    EXPECT_TRUE(holding());
    for (uint32_t i = 0; i < posted; ++i) {
      EXPECT_EQ(NextWithServer(home.get()).id.index, i);
    }
    EXPECT_EQ(first.text(), std::string(kLong, 'a'));
    EXPECT_EQ(held.text(), std::string(kLong, 'a'));
    EXPECT_EQ(last.text(), std::string(kLong, 'a'));
    EXPECT_TRUE(std::exchange(saw_due_, false));
    EXPECT_EQ(one_sided(), 2u);
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

TEST_P(ShmReadTest, SaysOnceThatTheListHasNoRoom) {
  ConnectPair();
  if (HasFatalFailure()) return;
  std::vector<char> memory(ShmRegionList::kEntries + 2);
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  const auto add = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      regions.push_back(
          client_->domain()
              ->Register(&memory[regions.size()], 1, Access::kRemoteRead)
              .value());
    }
  };
  ::testing::internal::CaptureStderr();
  add(ShmRegionList::kEntries / 16);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  add(memory.size() - regions.size());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("list of 16384 regions"), std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

// The first READ is over when it is posted, and still tells it in its turn.
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
  EXPECT_EQ(one_sided(), 0u);
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
