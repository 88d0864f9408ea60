#include <sys/epoll.h>

#include <cstring>
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
using transport::DamageScope;
using transport::OperationKind;
using transport::PostResult;
using transport::RemoteKey;
using transport::Sge;

// Both fabrics behave alike in all of these.
class SimRdmaTest : public ::testing::TestWithParam<bool> {
 protected:
  SimRdmaTest() : pair_(Seed(), Options()) {
    EXPECT_TRUE(pair_.Connect().ok());
    client_ = std::make_unique<RdmaParty>(&pair_.world, pair_.client.get());
    server_ = std::make_unique<RdmaParty>(&pair_.world, pair_.server.get());
  }
  static uint64_t Seed() { return SimWorld::SeedFromEnvironment(1); }
  static SimTransportOptions Options() {
    SimTransportOptions options;
    options.rdma =
        GetParam() ? SimRdmaOptions::Iwarp() : SimRdmaOptions::InfiniBand();
    return options;
  }

  RdmaPair pair_;
  std::unique_ptr<RdmaParty> client_;
  std::unique_ptr<RdmaParty> server_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, SimRdmaTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

TEST_P(SimRdmaTest, SendMeetsReceive) {
  Buffer from(server_.get(), 1000, 'a');
  Buffer to(client_.get(), 4096, '.');
  EXPECT_EQ(client_->endpoint()->PostReceive({1, 7}, to.All()),
            PostResult::kAccepted);
  EXPECT_EQ(server_->endpoint()->PostSend({2, 8}, from.All()),
            PostResult::kAccepted);
  server_->endpoint()->Flush();
  const Completion received = client_->Next();
  EXPECT_EQ(received.endpoint, client_->endpoint());
  EXPECT_EQ(received.id, (transport::OperationId{1, 7}));
  EXPECT_EQ(received.kind, OperationKind::kReceive);
  EXPECT_EQ(received.status, CompletionStatus::kOk);
  EXPECT_EQ(received.scope, DamageScope::kNone);
  EXPECT_EQ(received.bytes, 1000u);
  EXPECT_FALSE(received.invalidated);
  EXPECT_EQ(to.text(), std::string(1000, 'a') + std::string(3096, '.'));
  const Completion sent = server_->Next();
  EXPECT_EQ(sent.id, (transport::OperationId{2, 8}));
  EXPECT_EQ(sent.kind, OperationKind::kSend);
  EXPECT_EQ(sent.status, CompletionStatus::kOk);
}

TEST_P(SimRdmaTest, NothingHappensBeforeFlush) {
  Buffer from(client_.get(), 100, 'a');
  Buffer to(server_.get(), 100, '.');
  server_->endpoint()->PostReceive({1, 0}, to.All());
  client_->endpoint()->PostSend({1, 0}, from.All());
  pair_.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(to.text()[0], '.');
  client_->endpoint()->Flush();
  EXPECT_EQ(client_->Next().status, CompletionStatus::kOk);
  EXPECT_EQ(to.text()[0], 'a');
}

TEST_P(SimRdmaTest, SmallSendsAreInlineAndNeedNoRegion) {
  Buffer to(server_.get(), 100, '.');
  server_->endpoint()->PostReceive({1, 0}, to.All());
  char text[] = "inline";
  const Sge sge = {text, 6, nullptr};
  client_->endpoint()->PostSend({1, 0}, {&sge, 1});
  std::memset(text, 'x', 6);  // The post copied it.
  client_->endpoint()->Flush();
  EXPECT_EQ(server_->Next().bytes, 6u);
  EXPECT_EQ(to.text().substr(0, 7), "inline.");
}

TEST_P(SimRdmaTest, GatherAndScatter) {
  Buffer from(client_.get(), 300, 'a');
  for (int i = 0; i < 300; ++i) from.data()[i] = static_cast<char>(i);
  Buffer to(server_.get(), 300, '.');
  const Sge gather[] = {from.Part(0, 100), from.Part(200, 100),
                        from.Part(100, 50)};
  const Sge scatter[] = {to.Part(250, 50), to.Part(0, 220)};
  server_->endpoint()->PostReceive({1, 0}, scatter);
  client_->endpoint()->PostSend({1, 0}, gather);
  client_->endpoint()->Flush();
  EXPECT_EQ(server_->Next().bytes, 250u);
  const std::string sent = from.text().substr(0, 100) +
                           from.text().substr(200, 100) +
                           from.text().substr(100, 50);
  EXPECT_EQ(to.text().substr(250) + to.text().substr(0, 200), sent);
}

TEST_P(SimRdmaTest, WriteAndReadMoveMemory) {
  Buffer local(client_.get(), 10000, 'a', Access::kRemoteWrite);
  Buffer remote(server_.get(), 20000, '.',
                Access::kRemoteRead | Access::kRemoteWrite);
  client_->endpoint()->PostWrite({1, 0}, local.All(), remote.Remote(5000));
  client_->endpoint()->Flush();
  EXPECT_EQ(client_->Next().kind, OperationKind::kWrite);
  EXPECT_EQ(remote.text(), std::string(5000, '.') + std::string(10000, 'a') +
                               std::string(5000, '.'));
  std::memset(remote.data(), 'r', 20000);
  client_->endpoint()->PostRead({2, 0}, local.All(), remote.Remote(10000));
  client_->endpoint()->Flush();
  const Completion read = client_->Next();
  EXPECT_EQ(read.kind, OperationKind::kRead);
  EXPECT_EQ(read.status, CompletionStatus::kOk);
  EXPECT_EQ(local.text(), std::string(10000, 'r'));
}

TEST_P(SimRdmaTest, CompletionsKeepPostingOrder) {
  Buffer local(client_.get(), 8192, 'a', Access::kRemoteWrite);
  Buffer remote(server_.get(), 8192, '.',
                Access::kRemoteRead | Access::kRemoteWrite);
  std::vector<std::unique_ptr<Buffer>> sinks;
  for (uint32_t i = 0; i < 30; ++i) {
    sinks.push_back(std::make_unique<Buffer>(server_.get(), 100, '.'));
    server_->endpoint()->PostReceive({i, 0}, sinks.back()->All());
  }
  for (uint32_t i = 0; i < 30; ++i) {
    switch (i % 3) {
      case 0:
        client_->endpoint()->PostSend({i, 0}, local.Parts(0, 100));
        break;
      case 1:
        client_->endpoint()->PostRead({i, 0}, local.All(), remote.Remote(0));
        break;
      default:
        client_->endpoint()->PostWrite({i, 0}, local.All(), remote.Remote(0));
    }
  }
  client_->endpoint()->Flush();
  for (uint32_t i = 0; i < 30; ++i) {
    const Completion completion = client_->Next();
    EXPECT_EQ(completion.id.index, i);
    EXPECT_EQ(completion.status, CompletionStatus::kOk);
  }
  for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(server_->Next().id.index, i);
}

TEST_P(SimRdmaTest, SendWithInvalidateTakesTheKeyBack) {
  Buffer exposed(client_.get(), 100, 'a', Access::kRemoteRead);
  Buffer to(client_.get(), 100, '.');
  Buffer sink(server_.get(), 100, '.', Access::kRemoteWrite);
  client_->endpoint()->PostReceive({1, 0}, to.All());
  const RemoteKey key = exposed.region()->remote_key();
  server_->endpoint()->PostSendWithInvalidate({1, 0}, sink.All(), key);
  server_->endpoint()->Flush();
  const Completion received = client_->Next();
  EXPECT_TRUE(received.invalidated);
  EXPECT_EQ(received.invalidated_key.value, key.value);
  EXPECT_EQ(server_->Next().status, CompletionStatus::kOk);
  server_->endpoint()->PostRead({2, 0}, sink.All(), exposed.Remote(0));
  server_->endpoint()->Flush();
  EXPECT_EQ(server_->Next().status, CompletionStatus::kRemoteAccess);
}

// What the peer must refuse, and that it harms nothing but the connection.
struct AccessCase {
  const char* name;
  bool write;
  Access access;
  int64_t offset;
  uint64_t key_change;
};

class SimRdmaAccessTest : public ::testing::TestWithParam<AccessCase> {};

INSTANTIATE_TEST_SUITE_P(
    Cases, SimRdmaAccessTest,
    ::testing::Values(
        AccessCase{"WriteWithoutPermission", true, Access::kRemoteRead, 0, 0},
        AccessCase{"ReadWithoutPermission", false, Access::kRemoteWrite, 0, 0},
        AccessCase{"LocalOnly", false, Access::kLocal, 0, 0},
        AccessCase{"WriteBehindTheEnd", true, Access::kRemoteWrite, 101, 0},
        AccessCase{"ReadBehindTheEnd", false, Access::kRemoteRead, 101, 0},
        AccessCase{"ReadBeforeTheStart", false, Access::kRemoteRead, -1, 0},
        AccessCase{"FarAway", true, Access::kRemoteWrite, int64_t{1} << 62, 0},
        AccessCase{"WrongKey", false, Access::kRemoteRead, 0, 1}),
    [](const auto& info) { return info.param.name; });

TEST_P(SimRdmaAccessTest, IsRefused) {
  for (const bool zero_based : {false, true}) {
    SimTransportOptions options;
    options.rdma.zero_based_addresses = zero_based;
    RdmaPair pair(1, options);
    ASSERT_TRUE(pair.Connect().ok());
    RdmaParty client(&pair.world, pair.client.get());
    RdmaParty server(&pair.world, pair.server.get());
    Buffer local(&client, 100, 'a', Access::kRemoteWrite);
    Buffer remote(&server, 200, '.', GetParam().access);
    transport::RemoteBuffer target = remote.Remote(0);
    target.address += GetParam().offset;
    target.key.value += GetParam().key_change;
    EXPECT_EQ(remote.region()->remote_base() == 0, zero_based);
    if (GetParam().write) {
      client.endpoint()->PostWrite({1, 0}, local.All(), target);
    } else {
      client.endpoint()->PostRead({1, 0}, local.All(), target);
    }
    client.endpoint()->PostWrite({2, 0}, local.All(), remote.Remote(0));
    client.endpoint()->Flush();
    const Completion refused = client.Next();
    EXPECT_EQ(refused.status, CompletionStatus::kRemoteAccess);
    EXPECT_EQ(refused.scope, DamageScope::kConnection);
    EXPECT_EQ(client.Next().status, CompletionStatus::kFlushed);
    EXPECT_EQ(remote.text(), std::string(200, '.'));
    EXPECT_EQ(local.text(), std::string(100, 'a'));
    EXPECT_FALSE(client.endpoint()->connected());
    EXPECT_FALSE(server.endpoint()->connected());
    EXPECT_FALSE(server.endpoint()->error().ok());
    EXPECT_EQ(client.endpoint()->PostSend({3, 0}, {}), PostResult::kClosed);
  }
}

TEST_P(SimRdmaTest, DeregisteredMemoryIsRefused) {
  Buffer local(client_.get(), 100, 'a', Access::kRemoteWrite);
  auto remote =
      std::make_unique<Buffer>(server_.get(), 100, '.', Access::kRemoteRead);
  const transport::RemoteBuffer stale = remote->Remote(0);
  remote.reset();
  client_->endpoint()->PostRead({1, 0}, local.All(), stale);
  client_->endpoint()->Flush();
  EXPECT_EQ(client_->Next().status, CompletionStatus::kRemoteAccess);
}

TEST_P(SimRdmaTest, LocalMistakesAreLocalErrors) {
  for (int mistake = 0; mistake < 5; ++mistake) {
    RdmaPair pair(1, Options());
    ASSERT_TRUE(pair.Connect().ok());
    RdmaParty client(&pair.world, pair.client.get());
    RdmaParty server(&pair.world, pair.server.get());
    Buffer good(&client, 200, 'a');
    Buffer foreign(&server, 200, 'b', Access::kRemoteWrite);
    Buffer sink(&server, 200, '.');
    server.endpoint()->PostReceive({1, 0}, sink.All());
    server.endpoint()->PostReceive({2, 0}, sink.All());
    // What was posted before is not harmed.
    client.endpoint()->PostSend({1, 0}, good.All());
    Sge too_long = good.Part(100, 100);
    ++too_long.length;
    const Sge unregistered = {good.data(), 200, nullptr};
    const std::vector<Sge> too_many(100, good.Part(0, 2));
    switch (mistake) {
      case 0:
        client.endpoint()->PostSend({2, 0}, {&too_long, 1});
        break;
      case 1:
        client.endpoint()->PostSend({2, 0}, {&unregistered, 1});
        break;
      case 2:
        client.endpoint()->PostWrite({2, 0}, foreign.All(), foreign.Remote(0));
        break;
      case 3:
        client.endpoint()->PostSend({2, 0}, too_many);
        break;
      default:
        client.endpoint()->PostRead({2, 0}, {&unregistered, 1},
                                    foreign.Remote(0));
    }
    client.endpoint()->PostSend({3, 0}, good.All());
    client.endpoint()->Flush();
    EXPECT_EQ(client.Next().status, CompletionStatus::kOk);
    const Completion failed = client.Next();
    EXPECT_EQ(failed.id.index, 2u);
    EXPECT_EQ(failed.status, CompletionStatus::kLocalError) << mistake;
    EXPECT_EQ(client.Next().status, CompletionStatus::kFlushed);
    EXPECT_EQ(server.Next().status, CompletionStatus::kOk);
    EXPECT_EQ(server.Next().status, CompletionStatus::kFlushed);
  }
}

TEST_P(SimRdmaTest, SinkOfAReadNeedsRemoteWriteOnIwarp) {
  Buffer sink(client_.get(), 100, '.');
  Buffer source(server_.get(), 100, 's', Access::kRemoteRead);
  client_->endpoint()->PostRead({1, 0}, sink.All(), source.Remote(0));
  client_->endpoint()->Flush();
  EXPECT_EQ(client_->Next().status,
            GetParam() ? CompletionStatus::kLocalError : CompletionStatus::kOk);
}

TEST_P(SimRdmaTest, ReceiveIntoForeignMemoryIsALocalError) {
  Buffer from(client_.get(), 100, 'a');
  server_->endpoint()->PostReceive({1, 0}, from.All());
  client_->endpoint()->PostSend({1, 0}, from.All());
  client_->endpoint()->Flush();
  EXPECT_EQ(server_->Next().status, CompletionStatus::kLocalError);
  EXPECT_EQ(client_->Next().status, CompletionStatus::kTransportError);
}

TEST_P(SimRdmaTest, OversizedMessageMeetsTooSmallReceive) {
  Buffer from(client_.get(), 200, 'a');
  Buffer to(server_.get(), 199, '.');
  server_->endpoint()->PostReceive({1, 0}, to.All());
  client_->endpoint()->PostSend({1, 0}, from.All());
  client_->endpoint()->Flush();
  EXPECT_EQ(server_->Next().status, CompletionStatus::kTooLong);
  EXPECT_EQ(client_->Next().status, CompletionStatus::kTooLong);
  EXPECT_EQ(to.text(), std::string(199, '.'));
  EXPECT_FALSE(server_->endpoint()->connected());
  EXPECT_FALSE(client_->endpoint()->connected());
}

TEST_P(SimRdmaTest, ReadDepthIsABudget) {
  const uint32_t depth = client_->endpoint()->capabilities().max_read_depth;
  ASSERT_EQ(depth, 16u);
  Buffer local(client_.get(), 100, 'a', Access::kRemoteWrite);
  Buffer remote(server_.get(), 100, '.', Access::kRemoteRead);
  for (uint32_t i = 0; i < depth; ++i) {
    ASSERT_EQ(
        client_->endpoint()->PostRead({i, 0}, local.All(), remote.Remote(0)),
        PostResult::kAccepted);
  }
  EXPECT_EQ(
      client_->endpoint()->PostRead({99, 0}, local.All(), remote.Remote(0)),
      PostResult::kWouldBlock);
  // Other operations have a budget of their own.
  Buffer sink(server_.get(), 100, '.');
  server_->endpoint()->PostReceive({1, 0}, sink.All());
  EXPECT_EQ(client_->endpoint()->PostSend({50, 0}, local.All()),
            PostResult::kAccepted);
  client_->endpoint()->Flush();
  client_->Next();
  EXPECT_EQ(
      client_->endpoint()->PostRead({99, 0}, local.All(), remote.Remote(0)),
      PostResult::kAccepted);
}

TEST_P(SimRdmaTest, QueuesAreBounded) {
  const transport::Capabilities& caps = client_->endpoint()->capabilities();
  Buffer buffer(client_.get(), 100, 'a');
  for (uint32_t i = 0; i < caps.max_send_queue; ++i) {
    ASSERT_EQ(client_->endpoint()->PostSend({i, 0}, buffer.All()),
              PostResult::kAccepted);
  }
  EXPECT_EQ(client_->endpoint()->PostSend({0, 1}, buffer.All()),
            PostResult::kWouldBlock);
  for (uint32_t i = 0; i < caps.max_receive_queue; ++i) {
    ASSERT_EQ(client_->endpoint()->PostReceive({i, 0}, buffer.All()),
              PostResult::kAccepted);
  }
  EXPECT_EQ(client_->endpoint()->PostReceive({0, 1}, buffer.All()),
            PostResult::kWouldBlock);
  client_->endpoint()->Disconnect();
  for (uint32_t i = 0; i < caps.max_send_queue + caps.max_receive_queue; ++i) {
    EXPECT_EQ(client_->Next().status, CompletionStatus::kFlushed);
  }
  EXPECT_TRUE(client_->Idle());
}

TEST_P(SimRdmaTest, DisconnectFlushesBothEnds) {
  Buffer mine(client_.get(), 100, 'a', Access::kRemoteWrite);
  Buffer theirs(server_.get(), 100, 'b', Access::kRemoteRead);
  client_->endpoint()->PostReceive({1, 0}, mine.All());
  client_->endpoint()->PostRead({2, 0}, mine.All(), theirs.Remote(0));
  client_->endpoint()->PostWrite({3, 0}, mine.All(), theirs.Remote(0));
  server_->endpoint()->PostReceive({4, 0}, theirs.All());
  client_->endpoint()->Flush();
  client_->endpoint()->Disconnect();
  EXPECT_FALSE(client_->endpoint()->connected());
  EXPECT_EQ(client_->endpoint()->PostSend({5, 0}, mine.All()),
            PostResult::kClosed);
  EXPECT_EQ(client_->endpoint()->PostReceive({5, 0}, mine.All()),
            PostResult::kClosed);
  std::vector<uint32_t> requests;
  for (int i = 0; i < 3; ++i) {
    const Completion completion = client_->Next();
    EXPECT_EQ(completion.status, CompletionStatus::kFlushed);
    if (completion.kind != OperationKind::kReceive) {
      requests.push_back(completion.id.index);
    }
  }
  EXPECT_EQ(requests, (std::vector<uint32_t>{2, 3}));
  EXPECT_TRUE(server_->endpoint()->connected());  // Not told yet.
  const Completion flushed = server_->Next();
  EXPECT_EQ(flushed.id.index, 4u);
  EXPECT_EQ(flushed.status, CompletionStatus::kFlushed);
  EXPECT_TRUE(absl::StrContains(server_->endpoint()->error().message(),
                                "ended the connection"));
  // What was on its way does not touch buffers that were given back.
  std::memset(mine.data(), 'z', 100);
  pair_.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(mine.text(), std::string(100, 'z'));
  EXPECT_TRUE(client_->Idle());
}

TEST_P(SimRdmaTest, LostLinkEndsEverything) {
  Buffer mine(client_.get(), 100, 'a');
  Buffer theirs(server_.get(), 100, 'b', Access::kRemoteWrite);
  client_->endpoint()->PostReceive({1, 0}, mine.All());
  server_->endpoint()->PostReceive({2, 0}, theirs.All());
  pair_.world.network().ResetConnections("client", "server");
  EXPECT_EQ(client_->Next().status, CompletionStatus::kFlushed);
  EXPECT_EQ(server_->Next().status, CompletionStatus::kFlushed);
  EXPECT_EQ(client_->endpoint()->error().code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(SimRdmaTest, BlackholeRunsOutOfRetries) {
  Buffer mine(client_.get(), 100, 'a');
  Buffer theirs(server_.get(), 100, 'b', Access::kRemoteWrite);
  server_->endpoint()->PostReceive({9, 0}, theirs.All());
  pair_.world.network().Blackhole("client", "server");
  client_->endpoint()->PostWrite({1, 0}, mine.All(), theirs.Remote(0));
  client_->endpoint()->PostWrite({2, 0}, mine.All(), theirs.Remote(0));
  client_->endpoint()->Flush();
  const absl::Time start = pair_.world.now();
  const Completion first = client_->Next();
  EXPECT_EQ(first.status, CompletionStatus::kTransportError);
  EXPECT_EQ(first.scope, DamageScope::kConnection);
  EXPECT_NE(first.provider_code, 0);
  EXPECT_EQ(pair_.world.now() - start, SimRdmaOptions().retry_timeout);
  EXPECT_EQ(client_->Next().status, CompletionStatus::kFlushed);
  // The side that only listens notices nothing until the link is back and the
  // other side's next attempt finds it out.
  pair_.world.RunFor(absl::Minutes(10));
  EXPECT_TRUE(server_->endpoint()->connected());
  EXPECT_EQ(theirs.text(), std::string(100, 'b'));
  pair_.world.network().Heal("client", "server");
  Buffer sink(server_.get(), 100, '.', Access::kRemoteWrite);
  server_->endpoint()->PostSend({10, 0}, sink.All());
  server_->endpoint()->Flush();
  EXPECT_EQ(server_->Next().status, CompletionStatus::kFlushed);
  EXPECT_EQ(server_->Next().status, CompletionStatus::kFlushed);
  EXPECT_FALSE(server_->endpoint()->connected());
}

TEST_P(SimRdmaTest, ShortBlackholeOnlyDelays) {
  Buffer mine(client_.get(), 100, 'a');
  Buffer theirs(server_.get(), 100, 'b', Access::kRemoteWrite);
  pair_.world.network().Blackhole("client", "server");
  client_->endpoint()->PostWrite({1, 0}, mine.All(), theirs.Remote(0));
  client_->endpoint()->Flush();
  pair_.world.RunFor(absl::Seconds(3));
  pair_.world.network().Heal("client", "server");
  EXPECT_EQ(client_->Next().status, CompletionStatus::kOk);
  pair_.world.RunFor(absl::Minutes(1));
  EXPECT_TRUE(client_->endpoint()->connected());
}

}  // namespace
}  // namespace skiff::testing
