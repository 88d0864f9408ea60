// Moving bytes.
#include "transport/tcp/tcp_stream.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/net/scoped_fd.h"
#include "transport/net/socket_address.h"
#include "transport/tcp/socket_options.h"
#include "transport/tcp/tcp_test_util.h"

namespace skiff::transport {
namespace {

class CountingObserver : public StreamObserver {
 public:
  void OnReadable() override {
    EXPECT_FALSE(inside_call);
    ++readable;
    if (on_readable) on_readable();
  }
  void OnWritable() override {
    EXPECT_FALSE(inside_call);
    ++writable;
    if (on_writable) on_writable();
  }
  int readable = 0;
  int writable = 0;
  bool inside_call = false;
  std::function<void()> on_readable;
  std::function<void()> on_writable;
};

class TcpStreamTest : public TcpTest {
 protected:
  void ConnectPair(const std::string& options = "") {
    auto listener = Listen(absl::StrCat("tcp://127.0.0.1:0", options));
    ASSERT_NE(listener, nullptr);
    auto client = Connect(listener->address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    server_ = Accept();
    ASSERT_NE(server_, nullptr);
  }

  // `server_` with a plain blocking socket as its peer.
  void ConnectRaw() {
    auto listener = Listen("tcp://127.0.0.1:0");
    ASSERT_NE(listener, nullptr);
    raw_ = ScopedFd(socket(AF_INET, SOCK_STREAM, 0));
    auto address = ParseLiteral("127.0.0.1", listener->address().port);
    ASSERT_EQ(connect(raw_.get(), address->get(), address->length), 0);
    server_ = Accept();
    ASSERT_NE(server_, nullptr);
  }

  // ConnectRaw(), and the stream waits for `bytes` of its peer. Returns how
  // often `observer` was told so far.
  int AwaitBytes(size_t bytes, CountingObserver* observer) {
    ConnectRaw();
    server_->SetObserver(observer);
    server_->SetReadThreshold(bytes);
    reactor_->Poll();
    EXPECT_EQ(Read(server_.get(), received_, sizeof(received_)).status,
              StreamStatus::kWouldBlock);
    return observer->readable;
  }
  // The peer's `bytes`.
  void SendRaw(size_t bytes) {
    const std::string data(bytes, 'x');
    ASSERT_EQ(send(raw_.get(), data.data(), bytes, 0),
              static_cast<ssize_t>(bytes));
  }

  // Reads until the stream says to wait.
  void Drain(ByteStream* stream) {
    char buffer[4096];
    while (Read(stream, buffer, sizeof(buffer)).status == StreamStatus::kOk) {
    }
  }

  std::unique_ptr<ByteStream> client_;
  std::unique_ptr<ByteStream> server_;
  ScopedFd raw_;
  char received_[65536];
};

TEST_F(TcpStreamTest, EmptyTransfersMoveNothing) {
  ConnectPair();
  EXPECT_EQ(client_->Readv({}).status, StreamStatus::kOk);
  EXPECT_EQ(client_->Writev({}).status, StreamStatus::kOk);
  const iovec empty = {nullptr, 0};
  EXPECT_EQ(client_->Readv({&empty, 1}).status, StreamStatus::kOk);
  char byte;
  EXPECT_EQ(Read(client_.get(), &byte, 1).status, StreamStatus::kWouldBlock);
}

TEST_F(TcpStreamTest, NewObserverIsToldOnceSoonAndNotAtOnce) {
  ConnectPair();
  CountingObserver observer;
  observer.inside_call = true;
  client_->SetObserver(&observer);
  observer.inside_call = false;
  EXPECT_EQ(observer.readable, 0);
  reactor_->Poll();
  EXPECT_EQ(observer.readable, 1);
  EXPECT_EQ(observer.writable, 1);
  reactor_->Poll();
  EXPECT_EQ(observer.readable, 1);
  EXPECT_EQ(observer.writable, 1);
  CountingObserver second;
  client_->SetObserver(&second);
  reactor_->Poll();
  EXPECT_EQ(second.readable, 1);
  EXPECT_EQ(observer.readable, 1);
  client_->SetObserver(nullptr);
}

TEST_F(TcpStreamTest, OneCallPerWouldBlock) {
  ConnectPair();
  CountingObserver observer;
  server_->SetObserver(&observer);
  ASSERT_TRUE(RunUntil([&] { return observer.readable == 1; }));
  // Nobody has read to the end yet, so that news are not told.
  ASSERT_EQ(Write(client_.get(), "one").status, StreamStatus::kOk);
  EXPECT_FALSE(
      RunUntil([&] { return observer.readable > 1; }, absl::Milliseconds(50)));
  Drain(server_.get());
  ASSERT_EQ(Write(client_.get(), "two").status, StreamStatus::kOk);
  ASSERT_TRUE(RunUntil([&] { return observer.readable == 2; }));
  ASSERT_EQ(Write(client_.get(), "three").status, StreamStatus::kOk);
  EXPECT_FALSE(
      RunUntil([&] { return observer.readable > 2; }, absl::Milliseconds(50)));
  StreamStatus last;
  EXPECT_EQ(ReadSome(server_.get(), 8, &last), "twothree");
}

TEST_F(TcpStreamTest, ObserverMayDestroyTheStream) {
  for (const bool in_fd_event : {false, true}) {
    ConnectPair("?send_buffer=4096&receive_buffer=4096");
    CountingObserver observer;
    if (in_fd_event) {
      // Both directions wait, and the peer's end makes both ready at once.
      const std::string data(1 << 20, 'x');
      while (Write(server_.get(), data).status == StreamStatus::kOk) {
      }
      Drain(server_.get());
      server_->SetObserver(&observer);
      observer.on_readable = observer.on_writable = [&] {
        while (Write(server_.get(), data).status == StreamStatus::kOk) {
        }
        Drain(server_.get());
      };
      ASSERT_TRUE(RunUntil([&] { return observer.writable == 1; }));
      observer.on_readable = observer.on_writable = [&] { server_.reset(); };
      client_->Abort();
    } else {
      observer.on_readable = [&] { server_.reset(); };
      server_->SetObserver(&observer);
    }
    ASSERT_TRUE(RunUntil([&] { return server_ == nullptr; }));
    const int calls = observer.readable + observer.writable;
    reactor_->Poll();
    EXPECT_EQ(observer.readable + observer.writable, calls);
  }
}

TEST_F(TcpStreamTest, WritableAgainAfterAFullBuffer) {
  ConnectPair("?send_buffer=8192&receive_buffer=8192");
  CountingObserver observer;
  client_->SetObserver(&observer);
  reactor_->Poll();
  const std::string data(1 << 16, 'x');
  size_t sent = 0;
  IoResult result;
  while ((result = Write(client_.get(), data)).status == StreamStatus::kOk) {
    sent += result.bytes;
  }
  EXPECT_EQ(result.status, StreamStatus::kWouldBlock);
  EXPECT_FALSE(
      RunUntil([&] { return observer.writable > 1; }, absl::Milliseconds(30)));
  StreamStatus last;
  EXPECT_EQ(ReadSome(server_.get(), sent, &last).size(), sent);
  EXPECT_TRUE(RunUntil([&] { return observer.writable == 2; }));
  EXPECT_EQ(Write(client_.get(), data).status, StreamStatus::kOk);
}

TEST_F(TcpStreamTest, KnowsWhatThePeerHasNotTaken) {
  CountingObserver observer;
  AwaitBytes(1, &observer);
  EXPECT_EQ(server_->unacknowledged(), 0u);
  // Until the peer's buffer and our own are full.
  const std::string data(sizeof(received_), 'x');
  while (Write(server_.get(), data).status == StreamStatus::kOk) {
  }
  const size_t full = server_->unacknowledged();
  EXPECT_GT(full, 0u);
  EXPECT_TRUE(RunUntil([&] {
    recv(raw_.get(), received_, sizeof(received_), MSG_DONTWAIT);
    return server_->unacknowledged() < full;
  }));
}

TEST_F(TcpStreamTest, WakesUpOnlyAtTheReadThreshold) {
  CountingObserver observer;
  const int told = AwaitBytes(100, &observer);
  SendRaw(99);
  EXPECT_FALSE(RunUntil([&] { return observer.readable > told; },
                        absl::Milliseconds(30)));
  SendRaw(1);
  EXPECT_TRUE(RunUntil([&] { return observer.readable == told + 1; }));
  EXPECT_EQ(Read(server_.get(), received_, 200).bytes, 100u);
}

TEST_F(TcpStreamTest, ALowerReadThresholdTellsOfWhatIsThere) {
  CountingObserver observer;
  const int told = AwaitBytes(100, &observer);
  SendRaw(10);
  EXPECT_FALSE(RunUntil([&] { return observer.readable > told; },
                        absl::Milliseconds(30)));
  server_->SetReadThreshold(1);
  EXPECT_TRUE(RunUntil([&] { return observer.readable == told + 1; }));
  EXPECT_EQ(Read(server_.get(), received_, 200).bytes, 10u);
}

TEST_F(TcpStreamTest, AFullBufferIsToldBelowTheReadThreshold) {
  CountingObserver observer;
  const int told = AwaitBytes(size_t{1} << 40, &observer);
  const std::string data(sizeof(received_), 'x');
  EXPECT_TRUE(RunUntil([&] {
    while (send(raw_.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
    return observer.readable > told;
  }));
  EXPECT_EQ(Read(server_.get(), received_, sizeof(received_)).bytes,
            sizeof(received_));
}

TEST_F(TcpStreamTest, TheEndIsToldBelowTheReadThreshold) {
  CountingObserver observer;
  const int told = AwaitBytes(100, &observer);
  ASSERT_EQ(shutdown(raw_.get(), SHUT_WR), 0);
  EXPECT_TRUE(RunUntil([&] { return observer.readable == told + 1; }));
  EXPECT_EQ(Read(server_.get(), received_, 200).status, StreamStatus::kClosed);
}

// The end of the data and the FIN in one event: a short read must not be taken
// for "more will be announced", because nothing is announced after a FIN.
TEST_F(TcpStreamTest, ShortReadFollowedByFin) {
  ConnectRaw();
  ASSERT_EQ(send(raw_.get(), "tail", 4, 0), 4);
  ASSERT_EQ(shutdown(raw_.get(), SHUT_WR), 0);
  CountingObserver observer;
  std::string got;
  StreamStatus status = StreamStatus::kOk;
  observer.on_readable = [&] {
    char buffer[100];
    IoResult result;
    while ((result = Read(server_.get(), buffer, sizeof(buffer))).status ==
           StreamStatus::kOk) {
      got.append(buffer, result.bytes);
    }
    status = result.status;
  };
  server_->SetObserver(&observer);
  EXPECT_TRUE(RunUntil([&] { return status == StreamStatus::kClosed; }));
  EXPECT_EQ(got, "tail");
  EXPECT_TRUE(server_->error().ok());
}

TEST_F(TcpStreamTest, HalfCloseLetsTheOtherDirectionGoOn) {
  ConnectPair();
  ASSERT_EQ(Write(client_.get(), "request").status, StreamStatus::kOk);
  client_->ShutdownWrite();
  EXPECT_EQ(Write(client_.get(), "more").status, StreamStatus::kClosed);
  StreamStatus last = StreamStatus::kOk;
  EXPECT_EQ(ReadSome(server_.get(), 100, &last), "request");
  EXPECT_EQ(last, StreamStatus::kClosed);
  ASSERT_EQ(Write(server_.get(), "answer").status, StreamStatus::kOk);
  EXPECT_EQ(ReadSome(client_.get(), 6, &last), "answer");
  server_.reset();
  EXPECT_EQ(ReadSome(client_.get(), 1, &last), "");
  EXPECT_EQ(last, StreamStatus::kClosed);
}

TEST_F(TcpStreamTest, PeerResetIsAnErrorThatNamesThePeer) {
  ConnectRaw();
  const std::string peer = LocalAddress(raw_.get()).ToString();
  SetAbortiveClose(raw_.get());
  raw_.reset();
  StreamStatus last = StreamStatus::kOk;
  ReadSome(server_.get(), 1, &last);
  EXPECT_EQ(last, StreamStatus::kError);
  EXPECT_EQ(server_->error().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      server_->error().message(),
      absl::StrCat("read from tcp://", peer, ": Connection reset by peer"));
  EXPECT_EQ(Write(server_.get(), "x").status, StreamStatus::kError);
  EXPECT_EQ(server_->peer_address(), peer);
}

TEST_F(TcpStreamTest, WriteToAPeerThatIsGoneIsAnErrorWithoutASignal) {
  ConnectRaw();
  raw_.reset();
  IoResult result;
  EXPECT_TRUE(RunUntil([&] {
    result = Write(server_.get(), "x");
    return result.status == StreamStatus::kError;
  }));
  EXPECT_TRUE(absl::StrContains(server_->error().message(), "write to tcp://"))
      << server_->error();
}

TEST_F(TcpStreamTest, AFailureToWaitNamesThePeer) {
  ConnectRaw();
  const std::string peer = LocalAddress(raw_.get()).ToString();
  // As if something had closed the stream's descriptor.
  int fd = 0;
  while (fd < 1024 && PeerAddress(fd).ToString() != peer) ++fd;
  ASSERT_LT(fd, 1024);
  reactor_->UnwatchFd(fd);
  const std::string data(1 << 20, 'x');
  IoResult result;
  while ((result = Write(server_.get(), data)).status == StreamStatus::kOk) {
  }
  EXPECT_EQ(result.status, StreamStatus::kError);
  EXPECT_EQ(server_->error().message(),
            absl::StrCat("write to tcp://", peer,
                         ": cannot wait until there is room: descriptor ", fd,
                         " is not watched by this reactor"));
}

TEST_F(TcpStreamTest, AbortResetsThePeer) {
  ConnectRaw();
  CountingObserver observer;
  server_->SetObserver(&observer);
  server_->Abort();
  server_->Abort();
  char byte;
  EXPECT_EQ(recv(raw_.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(server_->error().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Read(server_.get(), &byte, 1).status, StreamStatus::kError);
  server_->ShutdownWrite();
  reactor_->Poll();
  EXPECT_EQ(observer.readable, 0);
}

TEST_F(TcpStreamTest, AReleasedSocketServesAnotherStream) {
  ConnectRaw();
  ASSERT_NE(server_, nullptr);
  CountingObserver observer;
  server_->SetObserver(&observer);
  ScopedFd socket = static_cast<TcpStream*>(server_.get())->Release();
  ASSERT_TRUE(socket.valid());
  ASSERT_EQ(send(raw_.get(), "hello", 5, 0), 5);
  char data[8];
  const iovec piece = {data, sizeof(data)};
  EXPECT_EQ(server_->Readv({&piece, 1}).status, StreamStatus::kError);
  EXPECT_FALSE(server_->error().ok());
  server_.reset();
  auto next = TcpStream::Create(reactor_.get(), std::move(socket));
  ASSERT_TRUE(next.ok()) << next.status();
  StreamStatus last = StreamStatus::kOk;
  EXPECT_EQ(ReadSome(next->get(), 5, &last), "hello");
  EXPECT_EQ(observer.readable, 0);
}

TEST_F(TcpStreamTest, DestroyingClosesAfterWhatWasWritten) {
  ConnectRaw();
  ASSERT_EQ(Write(server_.get(), "bye").status, StreamStatus::kOk);
  server_.reset();
  char buffer[8];
  EXPECT_EQ(recv(raw_.get(), buffer, sizeof(buffer), MSG_WAITALL), 3);
}

// Cuts `total` bytes of `data`, from `offset` on, into random pieces.
std::vector<iovec> RandomPieces(std::string* data, size_t offset, size_t most,
                                std::mt19937* random) {
  std::vector<iovec> pieces;
  const size_t end = std::min(data->size(), offset + most);
  while (offset < end) {
    const size_t size = std::min<size_t>(end - offset, (*random)() % 5000);
    pieces.push_back({data->data() + offset, size});
    offset += size;
  }
  return pieces;
}

// Both ways at once, in random vectored pieces, through small buffers.
TEST_F(TcpStreamTest, LargeVectoredTransfersArriveUnharmed) {
  for (const char* options : {"", "?send_buffer=5000&receive_buffer=3000"}) {
    ConnectPair(options);
    constexpr size_t kSize = 8 << 20;
    std::mt19937 random(7);
    std::string sent[2], got[2];
    size_t sent_bytes[2] = {0, 0}, got_bytes[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
      sent[i].resize(kSize);
      for (char& c : sent[i]) c = static_cast<char>(random());
      got[i].resize(kSize);
    }
    ByteStream* ends[2] = {client_.get(), server_.get()};
    CountingObserver observers[2];
    for (int i = 0; i < 2; ++i) {
      observers[i].on_writable = [&, i] {
        while (sent_bytes[i] < kSize) {
          auto pieces = RandomPieces(&sent[i], sent_bytes[i], 200000, &random);
          const IoResult result = ends[i]->Writev(pieces);
          if (result.status == StreamStatus::kWouldBlock) return;
          ASSERT_EQ(result.status, StreamStatus::kOk);
          sent_bytes[i] += result.bytes;
        }
      };
      observers[i].on_readable = [&, i] {
        while (got_bytes[i] < kSize) {
          auto pieces = RandomPieces(&got[i], got_bytes[i], 200000, &random);
          const IoResult result = ends[i]->Readv(pieces);
          if (result.status == StreamStatus::kWouldBlock) return;
          ASSERT_EQ(result.status, StreamStatus::kOk);
          got_bytes[i] += result.bytes;
        }
      };
      ends[i]->SetObserver(&observers[i]);
    }
    EXPECT_TRUE(
        RunUntil([&] { return got_bytes[0] == kSize && got_bytes[1] == kSize; },
                 absl::Seconds(60)));
    EXPECT_TRUE(got[0] == sent[1]);
    EXPECT_TRUE(got[1] == sent[0]);
    client_.reset();
    server_.reset();
  }
}

TEST_F(TcpStreamTest, LongListsAreUsedUpToTheLimit) {
  ConnectPair();
  std::string data(ByteStream::kMaxIov + 500, 'a');
  std::vector<iovec> pieces;
  for (char& c : data) pieces.push_back({&c, 1});
  EXPECT_EQ(client_->Writev(pieces).bytes, ByteStream::kMaxIov);
  std::string got(data.size(), '\0');
  std::vector<iovec> to;
  for (char& c : got) to.push_back({&c, 1});
  ASSERT_TRUE(RunUntil(
      [&] { return server_->Readv(to).bytes == ByteStream::kMaxIov; }));
}

// As another process would: by the descriptors alone.
TEST_F(TcpStreamTest, GoesOnByItsDescriptor) {
  ConnectPair();
  const iovec more = {const_cast<char*>("later"), 5};
  ASSERT_EQ(client_->Writev({&more, 1}).bytes, 5u);
  std::string unread = "unread, ";
  int descriptor = server_->ReleaseDescriptor(&unread);
  ASSERT_GE(descriptor, 0);
  server_.reset();
  // Again, before all of that was read.
  auto adopted = transport_->Adopt(reactor_.get(), descriptor, unread);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  char first[2];
  const iovec two = {first, sizeof(first)};
  ASSERT_EQ((*adopted)->Readv({&two, 1}).bytes, 2u);
  unread = "not ";
  descriptor = (*adopted)->ReleaseDescriptor(&unread);
  EXPECT_EQ(unread, "not read, ");
  adopted = transport_->Adopt(reactor_.get(), descriptor, unread);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  CountingObserver observer;
  (*adopted)->SetObserver(&observer);
  EXPECT_TRUE(RunUntil([&] { return observer.readable > 0; }));
  StreamStatus last = StreamStatus::kOk;
  EXPECT_EQ(ReadSome(adopted->get(), 15, &last), "not read, later");
  ASSERT_EQ((*adopted)->Writev({&more, 1}).bytes, 5u);
  EXPECT_EQ(ReadSome(client_.get(), 5, &last), "later");
  (*adopted)->SetObserver(nullptr);
}

TEST_F(TcpStreamTest, AListenerGoesOnByItsDescriptor) {
  auto listener = Listen("tcp://127.0.0.1:0");
  ASSERT_NE(listener, nullptr);
  std::vector<ListeningDescriptor> released = listener->ReleaseDescriptors();
  ASSERT_EQ(released.size(), 1u);
  EXPECT_EQ(released[0].address, listener->address());
  listener.reset();
  // It waits meanwhile.
  auto client = Connect(released[0].address);
  ASSERT_TRUE(client.ok()) << client.status();
  ListenOptions options;
  options.inherited = [&released](const Address& address) {
    EXPECT_EQ(address, released[0].address);
    return released[0].descriptor;
  };
  listener = Listen(released[0].address.ToString(), options);
  ASSERT_NE(listener, nullptr);
  EXPECT_EQ(listener->address(), released[0].address);
  EXPECT_NE(Accept(), nullptr);
}

}  // namespace
}  // namespace skiff::transport
