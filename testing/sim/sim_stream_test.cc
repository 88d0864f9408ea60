#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "testing/sim/sim_test_util.h"

namespace skiff::testing {
namespace {

using transport::ByteStream;
using transport::IoResult;
using transport::StreamStatus;
using StreamPair = SimPair<ByteStream>;

IoResult Write(ByteStream* stream, absl::string_view data) {
  const iovec from = {const_cast<char*>(data.data()), data.size()};
  return stream->Writev({&from, 1});
}

// Reads all it can; the bytes go to `got`.
StreamStatus ReadAll(ByteStream* stream, std::string* got) {
  while (true) {
    char buffer[3000];
    const iovec to[] = {{buffer, 1000}, {buffer + 1000, 2000}};
    const IoResult result = stream->Readv(to);
    if (result.status != StreamStatus::kOk) return result.status;
    got->append(buffer, result.bytes);
  }
}

// Sends a text and shuts down, and collects what the peer sends.
class Party : public transport::StreamObserver {
 public:
  Party(ByteStream* stream, std::string text)
      : stream_(stream), text_(std::move(text)) {
    stream_->SetObserver(this);
  }
  ~Party() override { stream_->SetObserver(nullptr); }

  void OnReadable() override {
    ++calls;
    end = ReadAll(stream_, &got);
  }
  void OnWritable() override {
    ++calls;
    while (sent_ < text_.size()) {
      const IoResult result =
          Write(stream_, absl::string_view(text_).substr(sent_));
      if (result.status != StreamStatus::kOk) return;
      sent_ += result.bytes;
    }
    stream_->ShutdownWrite();
  }

  std::string got;
  StreamStatus end = StreamStatus::kWouldBlock;
  int calls = 0;

 private:
  ByteStream* const stream_;
  const std::string text_;
  size_t sent_ = 0;
};

std::string Pattern(size_t size, uint64_t seed) {
  SimRandom random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random.Next());
  return text;
}

// A connection's whole life; the fingerprint of the run.
uint64_t Exchange(uint64_t seed, const LinkOptions& link) {
  StreamPair pair(seed);
  pair.world.network().SetDefaultLink(link);
  EXPECT_TRUE(pair.Connect().ok());
  const std::string up = Pattern(20000, seed);
  const std::string down = Pattern(10000, seed + 1);
  Party client(pair.client.get(), up);
  Party server(pair.server.get(), down);
  EXPECT_TRUE(pair.world.RunUntil([&] {
    return client.end == StreamStatus::kClosed &&
           server.end == StreamStatus::kClosed;
  }));
  EXPECT_TRUE(server.got == up);
  EXPECT_TRUE(client.got == down);
  EXPECT_TRUE(pair.client->error().ok());
  return pair.world.trace_hash();
}

TEST(SimStreamTest, BytesArriveInOrderHoweverTheyAreCut) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    LinkOptions link;
    link.send_buffer = seed % 3 == 0 ? 1000 : 100000;
    link.max_segment = seed % 2 == 0 ? 100 : 0;
    link.short_transfer = 0.5;
    link.spurious_would_block = 0.2;
    if (seed % 5 == 0) link.bytes_per_second = 1000000;
    Exchange(seed, link);
  }
}

TEST(SimStreamTest, SameSeedSameRun) {
  const uint64_t seed = SimWorld::SeedFromEnvironment(11);
  EXPECT_EQ(Exchange(seed, {}), Exchange(seed, {}));
  EXPECT_NE(Exchange(seed, {}), Exchange(seed + 1, {}));
}

TEST(SimStreamTest, CalmLinkMovesWholeWrites) {
  StreamPair pair(1);
  LinkOptions link = LinkOptions::Calm();
  pair.world.network().SetLink("client", "server", link);
  ASSERT_TRUE(pair.Connect().ok());
  EXPECT_EQ(Write(pair.client.get(), std::string(100000, 'x')).bytes, 100000u);
  const absl::Time start = pair.world.now();
  std::string got;
  pair.world.RunUntil(
      [&] { return ReadAll(pair.server.get(), &got), got.size() == 100000; });
  EXPECT_EQ(pair.world.now() - start, link.latency_min);
}

TEST(SimStreamTest, BandwidthTakesItsTime) {
  StreamPair pair(1);
  LinkOptions link = LinkOptions::Calm();
  link.bytes_per_second = 100000;
  pair.world.network().SetDefaultLink(link);
  ASSERT_TRUE(pair.Connect().ok());
  ASSERT_EQ(Write(pair.client.get(), std::string(50000, 'x')).bytes, 50000u);
  std::string got;
  const absl::Time start = pair.world.now();
  ASSERT_TRUE(pair.world.RunUntil(
      [&] { return ReadAll(pair.server.get(), &got), got.size() == 50000; }));
  EXPECT_EQ(pair.world.now() - start,
            absl::Milliseconds(500) + link.latency_min);
}

TEST(SimStreamTest, KnowsAddresses) {
  StreamPair pair(1);
  ASSERT_TRUE(pair.Connect().ok());
  EXPECT_EQ(pair.client->peer_address(), "server:3260");
  EXPECT_EQ(pair.server->local_address(), "server:3260");
  EXPECT_TRUE(absl::StartsWith(pair.client->local_address(), "client:"));
  EXPECT_EQ(pair.client->local_address(), pair.server->peer_address());
}

TEST(SimStreamTest, ObserverIsToldOncePerWouldBlock) {
  StreamPair pair(1);
  pair.world.network().SetDefaultLink(LinkOptions::Calm());
  ASSERT_TRUE(pair.Connect().ok());
  struct Counter : transport::StreamObserver {
    void OnReadable() override { ++readable; }
    void OnWritable() override { ++writable; }
    int readable = 0;
    int writable = 0;
  } counter;
  pair.server->SetObserver(&counter);
  EXPECT_EQ(counter.readable, 0);
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(counter.readable, 1);
  EXPECT_EQ(counter.writable, 1);
  // Not read to the end: not told.
  Write(pair.client.get(), "a");
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(counter.readable, 1);
  std::string got;
  EXPECT_EQ(ReadAll(pair.server.get(), &got), StreamStatus::kWouldBlock);
  Write(pair.client.get(), "b");
  Write(pair.client.get(), "c");
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(counter.readable, 2);
  pair.server->SetObserver(nullptr);
}

TEST(SimStreamTest, FullWindowBlocksUntilThePeerReads) {
  StreamPair pair(1);
  LinkOptions link = LinkOptions::Calm();
  link.send_buffer = 1000;
  pair.world.network().SetDefaultLink(link);
  ASSERT_TRUE(pair.Connect().ok());
  EXPECT_EQ(Write(pair.client.get(), std::string(5000, 'x')).bytes, 1000u);
  EXPECT_EQ(Write(pair.client.get(), "x").status, StreamStatus::kWouldBlock);
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(Write(pair.client.get(), "x").status, StreamStatus::kWouldBlock);
  std::string got;
  ReadAll(pair.server.get(), &got);
  EXPECT_EQ(got.size(), 1000u);
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(Write(pair.client.get(), "x").bytes, 1u);
}

TEST(SimStreamTest, DataSentBeforeTheAcceptIsNotLost) {
  StreamPair pair(1);
  pair.server_reactor->StallUntil(pair.world.now() + absl::Seconds(1));
  pair.Listen();
  auto attempt = pair.transport->Connect(
      pair.client_reactor, transport::Address::Parse(StreamPair::Uri()).value(),
      {}, [&](absl::StatusOr<transport::Endpoint> made) {
        ASSERT_TRUE(made.ok()) << made.status();
        pair.client = std::get<std::unique_ptr<ByteStream>>(*std::move(made));
        while (Write(pair.client.get(), "early").status != StreamStatus::kOk) {
        }
      });
  ASSERT_TRUE(attempt.ok()) << attempt.status();
  ASSERT_TRUE(pair.world.RunUntil([&] { return pair.server != nullptr; }));
  std::string got;
  ASSERT_TRUE(pair.world.RunUntil([&] {
    ReadAll(pair.server.get(), &got);
    return !got.empty();
  }));
  EXPECT_EQ(got, std::string("early").substr(0, got.size()));
}

TEST(SimStreamTest, HalfCloseLetsTheOtherDirectionGoOn) {
  StreamPair pair(1);
  pair.world.network().SetDefaultLink(LinkOptions::Calm());
  ASSERT_TRUE(pair.Connect().ok());
  Write(pair.client.get(), "request");
  pair.client->ShutdownWrite();
  EXPECT_EQ(Write(pair.client.get(), "x").status, StreamStatus::kClosed);
  pair.world.RunFor(absl::Seconds(1));
  std::string got;
  EXPECT_EQ(ReadAll(pair.server.get(), &got), StreamStatus::kClosed);
  EXPECT_EQ(got, "request");
  EXPECT_EQ(Write(pair.server.get(), "answer").status, StreamStatus::kOk);
  pair.world.RunFor(absl::Seconds(1));
  got.clear();
  EXPECT_EQ(ReadAll(pair.client.get(), &got), StreamStatus::kWouldBlock);
  EXPECT_EQ(got, "answer");
  pair.server.reset();
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(ReadAll(pair.client.get(), &got), StreamStatus::kClosed);
}

TEST(SimStreamTest, AbortAndUnreadDataResetThePeer) {
  for (const bool abort : {true, false}) {
    StreamPair pair(1);
    pair.world.network().SetDefaultLink(LinkOptions::Calm());
    ASSERT_TRUE(pair.Connect().ok());
    Write(pair.client.get(), "unread");
    pair.world.RunFor(absl::Seconds(1));
    if (abort) {
      pair.server->Abort();
      EXPECT_EQ(pair.server->error().code(), absl::StatusCode::kAborted);
      EXPECT_EQ(Write(pair.server.get(), "x").status, StreamStatus::kError);
    } else {
      pair.server.reset();
    }
    pair.world.RunFor(absl::Seconds(1));
    std::string got;
    EXPECT_EQ(ReadAll(pair.client.get(), &got), StreamStatus::kError);
    EXPECT_TRUE(absl::StrContains(pair.client->error().message(),
                                  "sim://server:3260: Connection reset"))
        << pair.client->error();
  }
}

TEST(SimStreamTest, WritingToAPeerThatClosedEndsInAReset) {
  StreamPair pair(1);
  pair.world.network().SetDefaultLink(LinkOptions::Calm());
  ASSERT_TRUE(pair.Connect().ok());
  pair.server.reset();
  EXPECT_EQ(Write(pair.client.get(), "x").status, StreamStatus::kOk);
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(Write(pair.client.get(), "x").status, StreamStatus::kError);
}

TEST(SimStreamTest, ResetAfterSoManyBytes) {
  StreamPair pair(1);
  LinkOptions link = LinkOptions::Calm();
  link.reset_after_bytes = 1000;
  pair.world.network().SetDefaultLink(link);
  ASSERT_TRUE(pair.Connect().ok());
  Party client(pair.client.get(), std::string(600, 'a'));
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(pair.client->error().ok());
  Party server(pair.server.get(), std::string(401, 'b'));
  pair.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(client.end, StreamStatus::kError);
  EXPECT_FALSE(pair.server->error().ok());
}

TEST(SimStreamTest, ResetAtATime) {
  StreamPair pair(1);
  ASSERT_TRUE(pair.Connect().ok());
  pair.world.After(absl::Seconds(5), [&] {
    pair.world.network().ResetConnections("server", "client");
  });
  pair.world.RunFor(absl::Seconds(4));
  EXPECT_TRUE(pair.client->error().ok());
  pair.world.RunFor(absl::Seconds(2));
  EXPECT_FALSE(pair.client->error().ok());
  EXPECT_FALSE(pair.server->error().ok());
}

TEST(SimStreamTest, BlackholeThatHealsDelaysEverything) {
  StreamPair pair(1);
  pair.world.network().SetDefaultLink(LinkOptions::Calm());
  ASSERT_TRUE(pair.Connect().ok());
  SimNetwork& network = pair.world.network();
  network.Blackhole("client", "server");
  EXPECT_TRUE(network.IsDown("server", "client"));
  Write(pair.client.get(), "late");
  pair.world.RunFor(absl::Seconds(20));
  std::string got;
  EXPECT_EQ(ReadAll(pair.server.get(), &got), StreamStatus::kWouldBlock);
  EXPECT_EQ(got, "");
  network.Heal("client", "server");
  pair.world.RunFor(absl::Seconds(1));
  ReadAll(pair.server.get(), &got);
  EXPECT_EQ(got, "late");
  // The timers of the time before notice nothing.
  pair.world.RunFor(absl::Hours(1));
  EXPECT_TRUE(pair.client->error().ok()) << pair.client->error();
}

TEST(SimStreamTest, UserTimeoutEndsASenderInABlackhole) {
  StreamPair pair(1);
  pair.world.network().SetDefaultLink(LinkOptions::Calm());
  pair.connect_options.keepalive_idle = absl::ZeroDuration();
  pair.connect_options.user_timeout = absl::Seconds(20);
  ASSERT_TRUE(pair.Connect().ok());
  pair.world.network().BlackholeOneWay("client", "server");
  pair.world.RunFor(absl::Hours(1));
  EXPECT_TRUE(pair.client->error().ok());  // Nothing was sent.
  Write(pair.client.get(), "x");
  pair.world.RunFor(absl::Seconds(19));
  EXPECT_TRUE(pair.client->error().ok());
  pair.world.RunFor(absl::Seconds(2));
  EXPECT_EQ(pair.client->error().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(SimStreamTest, KeepaliveEndsASilentConnection) {
  StreamPair pair(1);
  pair.connect_options.keepalive_idle = absl::Seconds(10);
  pair.connect_options.keepalive_interval = absl::Seconds(5);
  pair.connect_options.keepalive_probes = 2;
  pair.accept_options.keepalive_idle = absl::ZeroDuration();
  ASSERT_TRUE(pair.Connect().ok());
  // The answers are lost.
  pair.world.network().BlackholeOneWay("server", "client");
  pair.world.RunFor(absl::Seconds(19));
  EXPECT_TRUE(pair.client->error().ok());
  pair.world.RunFor(absl::Seconds(2));
  EXPECT_EQ(pair.client->error().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(pair.server->error().ok());
}

TEST(SimStreamTest, WorldMayEndWithTheNetworkDown) {
  StreamPair pair(1);
  ASSERT_TRUE(pair.Connect().ok());
  pair.world.network().Blackhole("client", "server");
  Write(pair.client.get(), "never");
  pair.client.reset();
  pair.server.reset();
}

// Each way of breaking the contract shows in the data or as silence.
TEST(SimStreamTest, DefectsDoHarm) {
  for (const SimDefect defect :
       {SimDefect::kLostReadable, SimDefect::kLostWritable,
        SimDefect::kCorruptByte, SimDefect::kSwappedSegments,
        SimDefect::kResetLooksClean, SimDefect::kNone}) {
    SimTransportOptions options;
    options.defect = defect;
    StreamPair pair(3, options);
    LinkOptions link;
    link.send_buffer = 5000;
    link.max_segment = 500;
    link.spurious_would_block = 0;
    pair.world.network().SetDefaultLink(link);
    ASSERT_TRUE(pair.Connect().ok());
    const std::string text = Pattern(50000, 5);
    Party client(pair.client.get(), text);
    Party server(pair.server.get(), "");
    pair.world.RunFor(absl::Minutes(1));
    bool harmed = server.got != text;
    if (defect == SimDefect::kResetLooksClean) {
      pair.world.network().ResetConnections("client", "server");
      std::string got;
      harmed = ReadAll(pair.client.get(), &got) == StreamStatus::kClosed;
    }
    EXPECT_EQ(harmed, defect != SimDefect::kNone) << static_cast<int>(defect);
  }
}

TEST(SimStreamTest, NestedCallbackDefectCallsInsideReadv) {
  for (const SimDefect defect :
       {SimDefect::kNone, SimDefect::kNestedCallback}) {
    SimTransportOptions options;
    options.defect = defect;
    StreamPair pair(1, options);
    pair.world.network().SetDefaultLink(LinkOptions::Calm());
    ASSERT_TRUE(pair.Connect().ok());
    struct Counter : transport::StreamObserver {
      void OnReadable() override { ++readable; }
      void OnWritable() override {}
      int readable = 0;
    } counter;
    pair.server->SetObserver(&counter);
    pair.world.RunFor(absl::Seconds(1));
    std::string got;
    ReadAll(pair.server.get(), &got);
    // Arrives while the reactor's thread is busy elsewhere.
    pair.server_reactor->StallUntil(pair.world.now() + absl::Seconds(2));
    Write(pair.client.get(), "data");
    pair.world.RunFor(absl::Seconds(1));
    const int before = counter.readable;
    ReadAll(pair.server.get(), &got);
    EXPECT_EQ(got, "data");
    EXPECT_EQ(counter.readable > before, defect == SimDefect::kNestedCallback);
    pair.server->SetObserver(nullptr);
  }
}

}  // namespace
}  // namespace skiff::testing
