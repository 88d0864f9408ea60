// Byte streams: order, readiness, backpressure and the end.
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "testing/transport_conformance/conformance_pair.h"
#include "transport/address.h"
#include "transport/byte_stream.h"
#include "transport/transport.h"

namespace skiff::testing {
namespace {

using transport::ByteStream;
using transport::IoResult;
using transport::StreamStatus;

// One end of a stream, which sends and expects a pattern of bytes. Reads and
// writes go on only when the observer was told, as a program would do it, so
// that a lost notice shows as a halt.
class StreamEnd final : private transport::StreamObserver {
 public:
  StreamEnd(ByteStream* stream, uint64_t send_seed, uint64_t receive_seed)
      : stream_(stream),
        send_seed_(send_seed),
        receive_seed_(receive_seed),
        random_(static_cast<uint32_t>(send_seed)),
        out_(kChunk, 0),
        in_(kChunk, 0) {
    stream_->SetObserver(this);
  }
  ~StreamEnd() override { stream_->SetObserver(nullptr); }
  StreamEnd(const StreamEnd&) = delete;
  StreamEnd& operator=(const StreamEnd&) = delete;

  // How far it is.
  struct Progress {
    uint64_t to_send = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  Progress progress() const { return {to_send_, sent_, received_}; }
  void GoOnFrom(const Progress& progress) {
    to_send_ = progress.to_send;
    sent_ = progress.sent;
    received_ = progress.received;
  }

  void SendUpTo(uint64_t bytes) { to_send_ = bytes; }
  void set_reading(bool reading) { reading_ = reading; }

  // Reads and writes what can be.
  void Work() {
    if (writable_) WriteSome();
    if (readable_ && reading_) ReadSome();
  }

  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  bool ended() const { return ended_; }
  bool failed() const { return failed_; }
  bool write_blocked() const { return !writable_; }
  int notices() const { return notices_; }
  const std::string& problem() const { return problem_; }

 private:
  static constexpr size_t kChunk = 40000;

  void OnReadable() override { Notice(&readable_); }
  void OnWritable() override { Notice(&writable_); }
  void Notice(bool* ready) {
    ++notices_;
    if (calling_) {
      Problem("the observer was told from inside a call");
    } else if (*ready) {
      Problem("the observer was told twice after one kWouldBlock");
    }
    *ready = true;
  }

  // The first one says what is wrong.
  void Problem(const char* text) {
    if (problem_.empty()) problem_ = text;
  }

  static char ByteAt(uint64_t seed, uint64_t position) {
    return static_cast<char>((position ^ (position >> 9)) * 131 + seed * 17);
  }
  // Cuts `size` bytes of `memory` into random pieces.
  std::vector<iovec> Cut(std::vector<char>* memory, size_t size) {
    std::vector<iovec> list;
    for (size_t offset = 0; offset < size;) {
      const size_t part = std::min(size - offset, 1 + random_() % 9000);
      list.push_back({memory->data() + offset, part});
      offset += part;
    }
    return list;
  }

  void WriteSome();
  void ReadSome();
  void Take(const std::vector<iovec>& list, size_t bytes);

  ByteStream* const stream_;
  const uint64_t send_seed_;
  const uint64_t receive_seed_;
  std::minstd_rand random_;
  std::vector<char> out_;
  std::vector<char> in_;
  bool readable_ = false;
  bool writable_ = false;
  bool reading_ = true;
  bool calling_ = false;
  bool ended_ = false;
  bool failed_ = false;
  uint64_t to_send_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  int notices_ = 0;
  std::string problem_;
};

void StreamEnd::WriteSome() {
  while (sent_ < to_send_) {
    const size_t size =
        std::min<uint64_t>(1 + random_() % kChunk, to_send_ - sent_);
    for (size_t i = 0; i < size; ++i) out_[i] = ByteAt(send_seed_, sent_ + i);
    calling_ = true;
    const IoResult result = stream_->Writev(Cut(&out_, size));
    calling_ = false;
    // The bytes are the stream's own now.
    std::fill(out_.begin(), out_.end(), 'x');
    if (result.status == StreamStatus::kWouldBlock) writable_ = false;
    if (result.status != StreamStatus::kOk) {
      failed_ = failed_ || result.status == StreamStatus::kError;
      return;
    }
    if (result.bytes == 0 || result.bytes > size) {
      problem_ = "Writev() took 0 bytes, or more than it was given";
      return;
    }
    sent_ += result.bytes;
  }
}

void StreamEnd::Take(const std::vector<iovec>& list, size_t bytes) {
  for (const iovec& entry : list) {
    const size_t part = std::min(bytes, entry.iov_len);
    const char* data = static_cast<const char*>(entry.iov_base);
    for (size_t i = 0; i < entry.iov_len; ++i) {
      const bool inside = i < part;
      if (data[i] != (inside ? ByteAt(receive_seed_, received_ + i) : '.') &&
          problem_.empty()) {
        problem_ = inside ? "byte " + std::to_string(received_ + i) +
                                " is not the one that was sent"
                          : "Readv() wrote behind the bytes it reports";
      }
    }
    received_ += part;
    bytes -= part;
  }
}

void StreamEnd::ReadSome() {
  while (true) {
    const size_t size = 1 + random_() % kChunk;
    std::fill(in_.begin(), in_.end(), '.');
    const std::vector<iovec> list = Cut(&in_, size);
    calling_ = true;
    const IoResult result = stream_->Readv(list);
    calling_ = false;
    if (result.status == StreamStatus::kWouldBlock) readable_ = false;
    ended_ = ended_ || result.status == StreamStatus::kClosed;
    failed_ = failed_ || result.status == StreamStatus::kError;
    if (result.status != StreamStatus::kOk) return;
    if (result.bytes == 0 || result.bytes > size) {
      problem_ = "Readv() moved 0 bytes, or more than it had room for";
      return;
    }
    Take(list, result.bytes);
  }
}

class StreamTest : public ConformancePair {
 protected:
  // False: the test is over.
  bool ConnectStreams() {
    auto* near = dynamic_cast<LocalHost*>(&client_host());
    auto* far = ServerInThisProcess();
    if (far == nullptr) return false;
    Connect();
    near_stream_ = near->stream(client().number());
    far_stream_ = far->stream(server().number());
    EXPECT_TRUE(near_stream_ != nullptr && far_stream_ != nullptr)
        << "the connection is no byte stream";
    if (HasFailure()) return false;
    near_ = std::make_unique<StreamEnd>(near_stream_, 1, 2);
    far_ = std::make_unique<StreamEnd>(far_stream_, 2, 1);
    return true;
  }
  void TearDown() override {
    for (const auto* end : {near_.get(), far_.get()}) {
      if (end == nullptr) continue;
      EXPECT_EQ(end->problem(), "");
    }
    near_.reset();
    far_.reset();
    adopted_.reset();
    ConformancePair::TearDown();
  }
  // Both ends work until `done`.
  bool WorkUntil(absl::FunctionRef<bool()> done) {
    return Wait([&] {
      near_->Work();
      far_->Work();
      return done() || !near_->problem().empty() || !far_->problem().empty();
    });
  }
  uint64_t Bytes() const { return scale().largest / 2; }

  ByteStream* near_stream_ = nullptr;
  ByteStream* far_stream_ = nullptr;
  std::unique_ptr<ByteStream> adopted_;
  std::unique_ptr<StreamEnd> near_;
  std::unique_ptr<StreamEnd> far_;
};

SKIFF_CONFORMANCE_SUITE(StreamTest, StreamFactories);

TEST_P(StreamTest, NewObserversAreToldOnce) {
  if (!ConnectStreams()) return;
  EXPECT_EQ(near_->notices(), 0) << "told from inside SetObserver()";
  EXPECT_TRUE(Wait([&] { return near_->notices() >= 2; }))
      << "a new observer is told OnReadable and OnWritable";
}

TEST_P(StreamTest, OnlyTheNewestObserverIsTold) {
  if (!ConnectStreams()) return;
  near_->SendUpTo(10);
  ASSERT_TRUE(WorkUntil([&] { return far_->received() == 10; }));
  const int before = far_->notices();
  const StreamEnd newest(far_stream_, 2, 1);
  EXPECT_TRUE(Wait([&] { return newest.notices() >= 2; }))
      << "an observer that takes over is told OnReadable and OnWritable";
  near_->SendUpTo(20);
  near_->Work();
  Quiet();
  EXPECT_EQ(far_->notices(), before) << "the observer that it replaced is told";
}

TEST_P(StreamTest, BytesKeepTheirOrder) {
  if (!ConnectStreams()) return;
  near_->SendUpTo(Bytes());
  EXPECT_TRUE(WorkUntil([&] { return far_->received() == Bytes(); }))
      << far_->received() << " of " << Bytes() << " bytes arrived; "
      << near_->sent() << " were sent";
}

TEST_P(StreamTest, BothWaysAtOnce) {
  if (!ConnectStreams()) return;
  near_->SendUpTo(Bytes());
  far_->SendUpTo(Bytes());
  EXPECT_TRUE(WorkUntil([&] {
    return far_->received() == Bytes() && near_->received() == Bytes();
  })) << far_->received()
      << " and " << near_->received() << " of " << Bytes() << " bytes arrived";
}

TEST_P(StreamTest, SmallAnswersAndQuestions) {
  if (!ConnectStreams()) return;
  const int rounds = scale().operations;
  for (int round = 1; round <= rounds && !HasFailure(); ++round) {
    const uint64_t bytes = static_cast<uint64_t>(round);
    near_->SendUpTo(bytes);
    ASSERT_TRUE(WorkUntil([&] { return far_->received() == bytes; }))
        << "question " << round << " did not wake the reader";
    far_->SendUpTo(bytes);
    ASSERT_TRUE(WorkUntil([&] { return near_->received() == bytes; }))
        << "answer " << round << " did not wake the reader";
  }
}

TEST_P(StreamTest, APeerThatDoesNotReadStopsTheWriter) {
  if (!ConnectStreams()) return;
  far_->set_reading(false);
  constexpr uint64_t kEndless = uint64_t{1} << 40;
  near_->SendUpTo(kEndless);
  uint64_t last = ~uint64_t{0};
  // Until nothing moves for a while.
  while (last != near_->sent() && near_->sent() < (uint64_t{1} << 30)) {
    last = near_->sent();
    world().RunUntil(
        [&] {
          near_->Work();
          far_->Work();
          return false;
        },
        scale().quiet);
  }
  EXPECT_LT(near_->sent(), uint64_t{1} << 30)
      << "a writer has to be stopped when its peer does not read";
  EXPECT_TRUE(near_->write_blocked());
  // The rest flows when the peer reads again.
  const uint64_t more = near_->sent() + Bytes();
  near_->SendUpTo(more);
  far_->set_reading(true);
  EXPECT_TRUE(WorkUntil([&] { return far_->received() == more; }))
      << "stuck after " << far_->received() << " of " << more << " bytes";
}

TEST_P(StreamTest, ListsMayBeLongerThanTheLimit) {
  if (!ConnectStreams()) return;
  // Each entry has one byte: at most kMaxIov of them are used.
  std::string bytes(ByteStream::kMaxIov + 100, 'a');
  std::vector<iovec> list;
  for (char& byte : bytes) list.push_back({&byte, 1});
  const IoResult written = near_stream_->Writev(list);
  ASSERT_EQ(written.status, StreamStatus::kOk)
      << "a list of " << list.size() << " entries is refused";
  EXPECT_LE(written.bytes, ByteStream::kMaxIov);
  IoResult read = {};
  ASSERT_TRUE(Wait([&] {
    read = far_stream_->Readv(list);
    return read.status != StreamStatus::kWouldBlock;
  }));
  EXPECT_EQ(read.status, StreamStatus::kOk);
  EXPECT_LE(read.bytes, ByteStream::kMaxIov);
}

// A stream may ignore the threshold. It is only a hint, and hides no end.
TEST_P(StreamTest, TheReadThresholdHidesNothing) {
  if (!ConnectStreams()) return;
  const auto send_and_let_read = [&](uint64_t bytes) {
    near_->SendUpTo(bytes);
    return WorkUntil([&] { return far_->received() == bytes; });
  };
  ASSERT_TRUE(send_and_let_read(10));
  far_stream_->SetReadThreshold(1000);
  near_->SendUpTo(110);
  ASSERT_TRUE(WorkUntil([&] { return near_->sent() == 110; }));
  Quiet();
  far_stream_->SetReadThreshold(1);
  EXPECT_TRUE(send_and_let_read(110))
      << "a threshold that is lowered tells of what has come";
  far_stream_->SetReadThreshold(1000);
  near_stream_->ShutdownWrite();
  EXPECT_TRUE(WorkUntil([&] { return far_->ended(); }))
      << "the end of the stream waits for the threshold";
}

TEST_P(StreamTest, WhatArrivedIsAcknowledged) {
  if (!ConnectStreams()) return;
  near_->SendUpTo(Bytes());
  ASSERT_TRUE(WorkUntil([&] { return far_->received() == Bytes(); }));
  EXPECT_TRUE(Wait([&] { return near_stream_->unacknowledged() == 0; }))
      << near_stream_->unacknowledged()
      << " bytes count as unacknowledged that the peer has read";
}

TEST_P(StreamTest, TheEndComesAfterTheLastByte) {
  if (!ConnectStreams()) return;
  near_->SendUpTo(Bytes());
  ASSERT_TRUE(WorkUntil([&] { return near_->sent() == Bytes(); }));
  near_stream_->ShutdownWrite();
  ASSERT_TRUE(WorkUntil([&] { return far_->ended(); }))
      << "the end of the stream never came";
  EXPECT_EQ(far_->received(), Bytes()) << "bytes were lost before the end";
  EXPECT_FALSE(far_->failed());
  // The other direction goes on.
  far_->SendUpTo(1000);
  EXPECT_TRUE(WorkUntil([&] { return near_->received() == 1000; }))
      << "ShutdownWrite() ended the other direction, too";
  EXPECT_TRUE(near_stream_->error().ok()) << near_stream_->error();
}

TEST_P(StreamTest, WritingAfterShutdownIsRefused) {
  if (!ConnectStreams()) return;
  near_stream_->ShutdownWrite();
  char byte = 0;
  const iovec one = {&byte, 1};
  const StreamStatus status = near_stream_->Writev({&one, 1}).status;
  EXPECT_TRUE(status == StreamStatus::kClosed || status == StreamStatus::kError)
      << "a byte was accepted behind the end of the stream";
}

TEST_P(StreamTest, AbortIsNoOrderlyEnd) {
  if (!ConnectStreams()) return;
  near_->SendUpTo(1000);
  ASSERT_TRUE(WorkUntil([&] { return far_->received() == 1000; }));
  near_stream_->Abort();
  ASSERT_TRUE(WorkUntil([&] { return far_->failed() || far_->ended(); }))
      << "the peer never heard of the abort";
  EXPECT_TRUE(far_->failed()) << "an abort looked like an orderly end";
  EXPECT_FALSE(far_stream_->error().ok())
      << "error() does not say why the stream died";
}

TEST_P(StreamTest, DestroyedStreamEndsThePeer) {
  if (!ConnectStreams()) return;
  near_.reset();
  client().Destroy();
  EXPECT_TRUE(Wait([&] {
    far_->Work();
    return far_->ended() || far_->failed();
  })) << "the peer never heard that the stream was destroyed";
}

// What is in both directions, also in the stream itself, is not lost.
TEST_P(StreamTest, GoesOnInAnotherProcess) {
  if (!ConnectStreams()) return;
  const uint64_t half = Bytes() / 2;
  near_->SendUpTo(half);
  ASSERT_TRUE(WorkUntil([&] { return far_->received() == half; }));
  // Something to be read is there, and to be written.
  far_->set_reading(false);
  far_->SendUpTo(Bytes());
  near_->SendUpTo(Bytes());
  ASSERT_TRUE(WorkUntil([&] { return near_->sent() >= half + 1000; }));
  Quiet();
  std::string unread = "before";
  const int descriptor = far_stream_->ReleaseDescriptor(&unread);
  ASSERT_EQ(unread.substr(0, 6), "before")
      << "what is left to be read goes behind what the caller has";
  if (descriptor < 0) {
    EXPECT_EQ(unread, "before");
    far_->set_reading(true);
    EXPECT_TRUE(WorkUntil([&] { return far_->received() == Bytes(); }))
        << "a stream that can't be released is as it was";
    NotSupported("a stream that goes on in another process");
    return;
  }
  char byte = 0;
  const iovec one = {&byte, 1};
  EXPECT_EQ(far_stream_->Writev({&one, 1}).status, StreamStatus::kError)
      << "a stream that was released takes bytes";
  EXPECT_FALSE(far_stream_->error().ok());
  const StreamEnd::Progress progress = far_->progress();
  far_.reset();
  server().Destroy();
  Quiet();
  absl::StatusOr<std::unique_ptr<ByteStream>> adopted =
      world()
          .transport(Side::kListening)
          ->Adopt(world().reactor(Side::kListening), descriptor,
                  unread.substr(6));
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  adopted_ = *std::move(adopted);
  far_ = std::make_unique<StreamEnd>(adopted_.get(), 2, 1);
  far_->GoOnFrom(progress);
  EXPECT_TRUE(WorkUntil([&] {
    return far_->received() == Bytes() && near_->received() == Bytes();
  })) << far_->received()
      << " and " << near_->received() << " of " << Bytes()
      << " bytes arrived at a stream that was handed over";
  world().RunUntil(
      [&] {
        near_->Work();
        return near_->ended() || near_->failed();
      },
      scale().quiet);
  EXPECT_FALSE(near_->ended() || near_->failed()) << "the peer heard of it";
}

TEST_P(StreamTest, ListenersGoOnInAnotherProcess) {
  if (ServerInThisProcess() == nullptr) return;
  transport::Transport* const transport = world().transport(Side::kListening);
  transport::Reactor* const reactor = world().reactor(Side::kListening);
  int first = 0;
  int second = 0;
  transport::ListenOptions options;
  auto before = transport->Listen(reactor, world().listen_address(), options,
                                  [&first](auto /*request*/) { ++first; });
  ASSERT_TRUE(before.ok()) << before.status();
  const transport::Address address = (*before)->address();
  std::vector<transport::ListeningDescriptor> released =
      (*before)->ReleaseDescriptors();
  if (released.empty()) {
    NotSupported("a listener that goes on in another process");
    return;
  }
  const int early = client_host().Connect(address.ToString(), {});
  Quiet();
  EXPECT_EQ(first, 0) << "a listener that was released takes connections";
  before->reset();
  options.inherited = [&released](const transport::Address& wanted) {
    for (transport::ListeningDescriptor& one : released) {
      if (one.address == wanted) return std::exchange(one.descriptor, -1);
    }
    return -1;
  };
  auto after = transport->Listen(reactor, address, options,
                                 [&second](auto /*request*/) { ++second; });
  ASSERT_TRUE(after.ok()) << after.status();
  for (const transport::ListeningDescriptor& one : released) {
    EXPECT_EQ(one.descriptor, -1)
        << "nobody asked for the socket of " << one.address.ToString();
  }
  EXPECT_TRUE(Wait([&second] { return second == 1; }))
      << "who has connected meanwhile is lost";
  client_host().Destroy(early);
}

TEST_P(StreamTest, CablePulled) {
  if (!ConnectStreams()) return;
  const absl::Status cut = world().CutCable();
  if (absl::IsUnimplemented(cut)) {
    NotSupported(std::string(cut.message()));
    return;
  }
  near_->SendUpTo(1000);
  EXPECT_TRUE(WorkUntil([&] { return near_->failed(); }))
      << "sent data stayed unacknowledged for ever";
  EXPECT_FALSE(near_stream_->error().ok());
}

}  // namespace
}  // namespace skiff::testing
