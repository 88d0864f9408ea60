// Messages and one-sided operations.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "transport/libfabric/libfabric_test_util.h"

namespace skiff::transport {
namespace {

class MessageTest : public LibfabricTest {};

TEST_P(MessageTest, SendArrives) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 4096, '.');
  TestBuffer& from = Memory(client_.get(), 4096, 'a');
  const Sge target = to.Part(0, 4096);
  ASSERT_EQ(server_->PostReceive({1, 1}, {&target, 1}), PostResult::kAccepted);
  const Sge source = from.Part(0, 3000);
  ASSERT_EQ(client_->PostSend({2, 1}, {&source, 1}), PostResult::kAccepted);
  const Completion sent = Next(client_.get());
  EXPECT_EQ(sent.status, CompletionStatus::kOk);
  EXPECT_EQ(sent.kind, OperationKind::kSend);
  EXPECT_EQ(sent.id, (OperationId{2, 1}));
  EXPECT_EQ(sent.endpoint, client_.get());
  const Completion received = Next(server_.get());
  EXPECT_EQ(received.status, CompletionStatus::kOk);
  EXPECT_EQ(received.kind, OperationKind::kReceive);
  EXPECT_EQ(received.bytes, 3000u);
  EXPECT_EQ(to.text().substr(0, 3000), std::string(3000, 'a'));
  EXPECT_EQ(to.text().substr(3000), std::string(1096, '.'));
}

TEST_P(MessageTest, SizesAroundTheInlineLimit) {
  ConnectPair();
  if (HasFatalFailure()) return;
  const size_t limit = client_->capabilities().max_inline_bytes;
  TestBuffer& to = Memory(server_.get(), 65536, '.');
  TestBuffer& from = Memory(client_.get(), 65536, 'b');
  for (const size_t size : {size_t{0}, size_t{1}, limit - 1, limit, limit + 1,
                            size_t{4095}, size_t{65536}}) {
    std::memset(to.data(), '.', 65536);
    const Sge target = to.Part(0, 65536);
    ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
    const Sge source = from.Part(0, size);
    ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
    EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
    const Completion received = Next(server_.get());
    EXPECT_EQ(received.status, CompletionStatus::kOk) << size;
    EXPECT_EQ(received.bytes, size);
    EXPECT_EQ(to.text(),
              std::string(size, 'b') + std::string(65536 - size, '.'));
  }
}

TEST_P(MessageTest, InlineMemoryIsFreeWhenThePostReturns) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 64, '.');
  const Sge target = to.Part(0, 64);
  ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  char text[] = "unregistered";
  const Sge source = {text, 12, nullptr};
  ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
  std::memset(text, 'X', 12);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
  EXPECT_EQ(Next(server_.get()).status, CompletionStatus::kOk);
  EXPECT_EQ(to.text().substr(0, 12), "unregistered");
}

TEST_P(MessageTest, GatherAndScatter) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 1000, '.');
  TestBuffer& from = Memory(client_.get(), 1000, 'c');
  std::memset(from.data() + 500, 'd', 500);
  const Sge targets[] = {to.Part(0, 100), to.Part(200, 300)};
  ASSERT_EQ(server_->PostReceive({}, targets), PostResult::kAccepted);
  const Sge sources[] = {from.Part(0, 150), from.Part(600, 200)};
  ASSERT_EQ(client_->PostSend({}, sources), PostResult::kAccepted);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
  EXPECT_EQ(Next(server_.get()).bytes, 350u);
  EXPECT_EQ(to.text(), std::string(100, 'c') + std::string(100, '.') +
                           std::string(50, 'c') + std::string(200, 'd') +
                           std::string(550, '.'));
}

TEST_P(MessageTest, ReceivesPastEmptyPieces) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 300, '.');
  TestBuffer& from = Memory(client_.get(), 100, 'g');
  const Sge empty = to.Part(10, 0);
  const Sge full = to.Part(100, 100);
  const std::vector<std::vector<Sge>> lists = {
      {full}, {empty, full}, {full, empty}, {empty}, {}};
  for (const std::vector<Sge>& list : lists) {
    std::memset(to.data(), '.', 300);
    size_t room = 0;
    for (const Sge& piece : list) room += piece.length;
    ASSERT_EQ(server_->PostReceive({}, list), PostResult::kAccepted);
    const Sge source = from.Part(0, room);
    ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
    EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
    const Completion received = Next(server_.get());
    EXPECT_EQ(received.status, CompletionStatus::kOk);
    EXPECT_EQ(received.bytes, room);
    EXPECT_EQ(to.text(), std::string(100, '.') + std::string(room, 'g') +
                             std::string(200 - room, '.'));
  }
}

// Each ends its connection, and the message goes nowhere.
TEST_P(MessageTest, ReceivesNothingOutsideItsMemory) {
  for (int i = 0; i < 5; ++i) {
    ConnectPair();
    if (HasFatalFailure()) return;
    TestBuffer& to = Memory(server_.get(), 300, '.');
    TestBuffer& from = Memory(client_.get(), 100, 'h');
    // The region is of the bytes from 100 to 200.
    const auto region =
        server_->domain()->Register(to.data() + 100, 100, Access::kLocal);
    ASSERT_TRUE(region.ok()) << region.status();
    const Sge wrong[] = {{to.data() + 101, 100, region->get()},
                         {to.data() + 99, 100, region->get()},
                         {to.data() + 200, 1, region->get()},
                         {to.data() + 100, SIZE_MAX, region->get()},
                         {to.data() + 100, 100, nullptr}};
    ASSERT_EQ(server_->PostReceive({9, 9}, {&wrong[i], 1}),
              PostResult::kAccepted);
    const Sge source = from.Part(0, 1);
    EXPECT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
    const Completion failed = Next(server_.get());
    EXPECT_EQ(failed.id, (OperationId{9, 9}));
    EXPECT_EQ(failed.status, CompletionStatus::kLocalError) << i;
    EXPECT_TRUE(RunUntil([&] { return !server_->connected(); }));
    EXPECT_EQ(to.text(), std::string(300, '.'));
    client_.reset();
    server_.reset();
  }
}

TEST_P(MessageTest, MessageWaitsForItsReceive) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 100000, '.');
  TestBuffer& from = Memory(client_.get(), 100000, 'e');
  const Sge source = from.Part(0, 100000);
  ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
  RunFor(absl::Milliseconds(100));
  const Sge target = to.Part(0, 100000);
  ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  EXPECT_EQ(Next(server_.get()).bytes, 100000u);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
  EXPECT_EQ(to.text(), std::string(100000, 'e'));
}

TEST_P(MessageTest, WriteThenSend) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 65536, '.', Access::kRemoteWrite);
  TestBuffer& note = Memory(server_.get(), 16, '.');
  TestBuffer& from = Memory(client_.get(), 65536, 'f');
  const Sge target = note.Part(0, 16);
  ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  const Sge source = from.Part(100, 60000);
  ASSERT_EQ(client_->PostWrite({1, 0}, {&source, 1}, window.Remote(77)),
            PostResult::kAccepted);
  const Sge word = from.Part(0, 4);
  ASSERT_EQ(client_->PostSend({2, 0}, {&word, 1}), PostResult::kAccepted);
  // Nobody polls the server: it serves all the same.
  const Completion written = Next(client_.get());
  EXPECT_EQ(written.status, CompletionStatus::kOk);
  EXPECT_EQ(written.kind, OperationKind::kWrite);
  EXPECT_EQ(Next(client_.get()).kind, OperationKind::kSend);
  EXPECT_EQ(Next(server_.get()).bytes, 4u);
  EXPECT_EQ(window.text(), std::string(77, '.') + std::string(60000, 'f') +
                               std::string(65536 - 60077, '.'));
}

TEST_P(MessageTest, ReadIsServedByAPassivePeer) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 200000, 'g', Access::kRemoteRead);
  TestBuffer& to = Memory(client_.get(), 200000, '.');
  const Sge target = to.Part(3, 150001);
  ASSERT_EQ(client_->PostRead({9, 9}, {&target, 1}, window.Remote(1234)),
            PostResult::kAccepted);
  const Completion read = Next(client_.get());
  EXPECT_EQ(read.status, CompletionStatus::kOk);
  EXPECT_EQ(read.kind, OperationKind::kRead);
  EXPECT_EQ(to.text(), std::string(3, '.') + std::string(150001, 'g') +
                           std::string(200000 - 150004, '.'));
}

TEST_P(MessageTest, AReadSeesTheWritesBeforeIt) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 65536, '.',
                              Access::kRemoteRead | Access::kRemoteWrite);
  TestBuffer& from = Memory(client_.get(), 65536, '.');
  TestBuffer& to = Memory(client_.get(), 65536, '.');
  char fill = 'a';
  // Short and long; after the first READ, the peer has served what was before.
  for (const size_t size : {5, 5, 50000, 5, 50000, 50000}) {
    std::memset(from.data(), fill, size);
    const Sge source = from.Part(0, size);
    const Sge target = to.Part(0, size);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(client_->PostWrite({1, 0}, {&source, 1}, window.Remote(7)),
                PostResult::kAccepted);
    }
    ASSERT_EQ(client_->PostRead({2, 0}, {&target, 1}, window.Remote(7)),
              PostResult::kAccepted);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
    }
    EXPECT_EQ(to.text().substr(0, size), std::string(size, fill++)) << size;
  }
}

TEST_P(MessageTest, CompletionsComeInPostingOrder) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 4096, 'h',
                              Access::kRemoteRead | Access::kRemoteWrite);
  TestBuffer& memory = Memory(client_.get(), 8192, '.');
  TestBuffer& inbox = Memory(server_.get(), 16, '.');
  for (uint32_t i = 0; i < 10; ++i) {
    const Sge target = inbox.Part(0, 16);
    ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  }
  for (uint32_t i = 0; i < 30; i += 3) {
    const Sge a = memory.Part(0, 4096);
    const Sge b = memory.Part(4096, 100);
    const Sge c = memory.Part(4096, 4);
    ASSERT_EQ(client_->PostRead({i, 0}, {&a, 1}, window.Remote(0)),
              PostResult::kAccepted);
    ASSERT_EQ(client_->PostWrite({i + 1, 0}, {&b, 1}, window.Remote(0)),
              PostResult::kAccepted);
    ASSERT_EQ(client_->PostSend({i + 2, 0}, {&c, 1}), PostResult::kAccepted);
  }
  for (uint32_t i = 0; i < 30; ++i) {
    const Completion completion = Next(client_.get());
    EXPECT_EQ(completion.id.index, i);
    EXPECT_EQ(completion.status, CompletionStatus::kOk);
  }
}

TEST_P(MessageTest, FullQueuesBlockAndMoveOn) {
  ConnectOptions connect;
  connect.send_queue = 8;
  connect.read_depth = 3;
  ConnectPair(connect);
  if (HasFatalFailure()) return;
  TestBuffer& window = Memory(server_.get(), 64, 'i', Access::kRemoteRead);
  TestBuffer& memory = Memory(client_.get(), 64, '.');
  const Sge piece = memory.Part(0, 64);
  EXPECT_EQ(client_->capabilities().max_read_depth, 3u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(client_->PostRead({}, {&piece, 1}, window.Remote(0)),
              PostResult::kAccepted);
  }
  EXPECT_EQ(client_->PostRead({}, {&piece, 1}, window.Remote(0)),
            PostResult::kWouldBlock);
  TestBuffer& inbox = Memory(server_.get(), 64, '.');
  const Sge target = inbox.Part(0, 64);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(client_->PostSend({}, {&piece, 1}), PostResult::kAccepted);
  }
  EXPECT_EQ(client_->PostSend({}, {&piece, 1}), PostResult::kWouldBlock);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
  }
  EXPECT_EQ(client_->PostRead({}, {&piece, 1}, window.Remote(0)),
            PostResult::kAccepted);
  EXPECT_EQ(Next(client_.get()).status, CompletionStatus::kOk);
}

TEST_P(MessageTest, ManyMessagesBothWays) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& at_server = Memory(server_.get(), 64 * 256, '.');
  TestBuffer& at_client = Memory(client_.get(), 256, 'k');
  uint32_t sent = 0;
  uint32_t received = 0;
  uint32_t posted = 0;
  constexpr uint32_t kMessages = 20000;
  EXPECT_TRUE(RunUntil([&] {
    while (posted < received + 64) {
      const Sge target = at_server.Part((posted % 64) * 256, 256);
      if (server_->PostReceive({posted, 0}, {&target, 1}) !=
          PostResult::kAccepted) {
        break;
      }
      ++posted;
    }
    while (sent < kMessages) {
      const Sge source = at_client.Part(0, sent % 256);
      if (client_->PostSend({sent, 0}, {&source, 1}) != PostResult::kAccepted) {
        break;
      }
      ++sent;
    }
    Completion completions[32];
    client_->completion_queue()->Poll(completions);
    const int count = server_->completion_queue()->Poll(completions);
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(completions[i].id.index, received);
      EXPECT_EQ(completions[i].bytes, received % 256);
      ++received;
    }
    return received == kMessages;
  }));
}

TEST_P(MessageTest, ArmedQueueWakesUp) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 64, '.');
  TestBuffer& from = Memory(client_.get(), 64, 'l');
  const Sge target = to.Part(0, 64);
  ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  CompletionQueue* queue = server_->completion_queue();
  ASSERT_TRUE(queue->Arm());
  RunFor(absl::Milliseconds(20));
  pollfd p = {queue->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  const Sge source = from.Part(0, 64);
  ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
  EXPECT_TRUE(RunUntil([&] { return poll(&p, 1, 0) == 1; }));
  queue->Disarm();
  EXPECT_EQ(poll(&p, 1, 0), 0);
  Completion completion;
  EXPECT_EQ(queue->Poll({&completion, 1}), 1);
  EXPECT_EQ(completion.bytes, 64u);
}

TEST_P(MessageTest, ArmRefusesWhileCompletionsWait) {
  ConnectPair();
  if (HasFatalFailure()) return;
  TestBuffer& to = Memory(server_.get(), 64, '.');
  TestBuffer& from = Memory(client_.get(), 64, 'm');
  const Sge target = to.Part(0, 64);
  ASSERT_EQ(server_->PostReceive({}, {&target, 1}), PostResult::kAccepted);
  const Sge source = from.Part(0, 64);
  ASSERT_EQ(client_->PostSend({}, {&source, 1}), PostResult::kAccepted);
  Next(client_.get());
  RunFor(absl::Milliseconds(50));
  EXPECT_FALSE(server_->completion_queue()->Arm());
  EXPECT_EQ(Next(server_.get()).bytes, 64u);
  EXPECT_TRUE(server_->completion_queue()->Arm());
}

INSTANTIATE_TEST_SUITE_P(Providers, MessageTest,
                         ::testing::Values("provider=tcp", "provider=sockets",
                                           "provider=shm",
                                           "provider=tcp;ofi_rxm"),
                         ProviderName);

}  // namespace
}  // namespace skiff::transport
