// Memory windows, and keys that a peer takes out of use.
#include <cstdint>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Access;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;
using transport::RemoteBuffer;
using transport::RemoteKey;

constexpr Access kRemoteAll = Access::kRemoteRead | Access::kRemoteWrite;
constexpr size_t kSize = 4096;
// The part of the region that the window opens.
constexpr size_t kOffset = 1000;
constexpr size_t kLength = 500;

class InvalidateTest : public ConformancePair {
 protected:
  // Connects and binds a window over a part of the server's memory. False:
  // there are no windows, which is then tested instead.
  bool OpenWindow(Access access = kRemoteAll);
  void ExpectNoWindows();
  RemoteBuffer Opened(size_t offset) {
    RemoteBuffer remote = memory_.Remote(kOffset + offset);
    remote.key = server_host().KeyOfWindow(window_);
    return remote;
  }
  // ExpectRefused() of a WRITE of the connecting side.
  void ExpectWriteRefused(const RemoteBuffer& remote, size_t length,
                          const char* what) {
    ExpectRefused(client(), client().Write({source_.Part(0, length)}, remote),
                  what);
  }

  // A SEND of the connecting side cannot invalidate `key`, which nobody has.
  void ExpectNotInvalidated(RemoteKey key);

  int window_ = -1;
  MemoryHandle memory_;
  MemoryHandle source_;
};

SKIFF_CONFORMANCE_SUITE(InvalidateTest, RdmaFactories);

void InvalidateTest::ExpectNoWindows() {
  const auto window = server_host().NewWindow(server().number());
  EXPECT_EQ(window.status().code(), absl::StatusCode::kUnimplemented)
      << "AllocateWindow() has to be refused where there are no windows: "
      << window.status();
  EXPECT_EQ(server().Bind(-1, memory_, 0, 1, kRemoteAll).result,
            PostResult::kClosed)
      << "PostBind() answers kClosed where there are no windows";
  NotSupported("memory windows");
}

bool InvalidateTest::OpenWindow(Access access) {
  Connect();
  memory_ = server().Memory(kSize, kRemoteAll);
  source_ = client().Memory(kSize);
  source_.Fill(1);
  if (!expected().capabilities.memory_windows) {
    ExpectNoWindows();
    return false;
  }
  const auto window = server_host().NewWindow(server().number());
  EXPECT_TRUE(window.ok()) << window.status();
  if (!window.ok()) return false;
  window_ = *window;
  const Arrived bound = Succeed(
      server(), server().Bind(window_, memory_, kOffset, kLength, access),
      "bind of a window");
  EXPECT_EQ(bound.kind, OperationKind::kBind);
  return true;
}

void InvalidateTest::ExpectNotInvalidated(RemoteKey key) {
  if (!expected().capabilities.send_with_invalidate) {
    EXPECT_EQ(client().SendWithInvalidate({}, {1}).result, PostResult::kClosed);
    NotSupported("SEND with invalidate");
    return;
  }
  source_ = client().Memory(100);
  const MemoryHandle sink = server().Memory(100);
  const Posted receive = server().Receive({sink.All()});
  const Arrived sent =
      Await(client(), client().SendWithInvalidate({source_.All()}, key),
            "SEND that invalidates an unknown key");
  const Arrived received = Await(server(), receive, "RECEIVE");
  EXPECT_FALSE(received.status == CompletionStatus::kOk && received.invalidated)
      << "a key that nobody has was reported as invalidated";
  if (sent.status != CompletionStatus::kOk) AwaitEnd(client());
}

TEST_P(InvalidateTest, AWindowOpensAPartOfARegion) {
  if (!OpenWindow()) return;
  Succeed(client(), client().Write({source_.Part(0, kLength)}, Opened(0)),
          "WRITE through a window");
  Fence(client(), Opened(0));
  ExpectBytes(memory_, kOffset, kLength, 1);
  ExpectUntouched(memory_, 0, kOffset);
  ExpectUntouched(memory_, kOffset + kLength, kSize - kOffset - kLength);
}

TEST_P(InvalidateTest, BehindTheWindowIsRefused) {
  if (!expected().checks_window_bounds) {
    NotSupported("checking the bounds of windows");
    return;
  }
  if (!OpenWindow()) return;
  // The region has the memory, the window does not.
  ExpectWriteRefused(Opened(1), kLength, "WRITE over the end of a window");
  ExpectUntouched(memory_);
}

TEST_P(InvalidateTest, BeforeTheWindowIsRefused) {
  if (!expected().checks_window_bounds) {
    NotSupported("checking the bounds of windows");
    return;
  }
  if (!OpenWindow()) return;
  RemoteBuffer before = Opened(0);
  --before.address;
  ExpectWriteRefused(before, 1, "WRITE before the start of a window");
  ExpectUntouched(memory_);
}

TEST_P(InvalidateTest, AWindowForReadingRefusesWrites) {
  if (!OpenWindow(Access::kRemoteRead)) return;
  ExpectWriteRefused(Opened(0), 1, "WRITE through a window for reading");
  ExpectUntouched(memory_);
}

TEST_P(InvalidateTest, SendInvalidatesAWindow) {
  if (!OpenWindow()) return;
  const RemoteKey key = server_host().KeyOfWindow(window_);
  const RemoteBuffer opened = Opened(0);
  const MemoryHandle sink = server().Memory(100);
  const Posted receive = server().Receive({sink.All()});
  const Posted send = client().SendWithInvalidate({source_.Part(0, 100)}, key);
  if (!expected().capabilities.send_with_invalidate) {
    EXPECT_EQ(send.result, PostResult::kClosed)
        << "PostSendWithInvalidate() has to be refused";
    NotSupported("SEND with invalidate");
    return;
  }
  Succeed(client(), send, "SEND with invalidate");
  const Arrived received = Succeed(server(), receive, "RECEIVE");
  EXPECT_TRUE(received.invalidated)
      << "the completion has to say that a key was invalidated";
  EXPECT_EQ(received.invalidated_key, key.value)
      << "the completion has to say which key was invalidated";
  EXPECT_EQ(received.bytes, 100u);
  ExpectBytes(sink, 0, 100, 1);
  ExpectWriteRefused(opened, 1, "WRITE through a window that was invalidated");
  ExpectUntouched(memory_);
}

TEST_P(InvalidateTest, SendInvalidatesARegion) {
  Connect();
  const MemoryHandle memory = server().Memory(100, kRemoteAll);
  source_ = client().Memory(100);
  source_.Fill(1);
  const MemoryHandle sink = server().Memory(100);
  const RemoteBuffer remote = memory.Remote();
  const Posted receive = server().Receive({sink.All()});
  const Posted send = client().SendWithInvalidate({source_.All()}, remote.key);
  if (!expected().capabilities.send_with_invalidate) {
    EXPECT_EQ(send.result, PostResult::kClosed)
        << "PostSendWithInvalidate() has to be refused";
    NotSupported("SEND with invalidate");
    return;
  }
  if (!expected().invalidates_regions) {
    // Whatever happens to the connection, the key must not be reported as
    // invalidated while it still works.
    Await(client(), send, "SEND that invalidates a region's key");
    const Arrived received = Await(server(), receive, "RECEIVE");
    EXPECT_FALSE(received.status == CompletionStatus::kOk &&
                 received.invalidated)
        << "the table declares that regions' keys cannot be invalidated";
    NotSupported("invalidating the keys of regions");
    return;
  }
  Succeed(client(), send, "SEND with invalidate");
  const Arrived received = Succeed(server(), receive, "RECEIVE");
  EXPECT_TRUE(received.invalidated)
      << "the completion has to say that a key was invalidated";
  EXPECT_EQ(received.invalidated_key, remote.key.value);
  ExpectWriteRefused(remote, 1, "WRITE with a key that was invalidated");
  ExpectUntouched(memory);
}

TEST_P(InvalidateTest, ThePeerCannotInvalidateWhatIsNotThere) {
  Connect();
  ExpectNotInvalidated({0x5a5a5a});
}

TEST_P(InvalidateTest, OurOwnInvalidateClosesAWindow) {
  if (!OpenWindow()) return;
  const RemoteBuffer opened = Opened(0);
  const Arrived closed =
      Succeed(server(), server().Invalidate(opened.key), "local invalidate");
  EXPECT_EQ(closed.kind, OperationKind::kInvalidate);
  ExpectWriteRefused(opened, 1, "WRITE through a window that was closed");
  ExpectUntouched(memory_);
}

TEST_P(InvalidateTest, DestroyingAWindowClosesIt) {
  if (!OpenWindow()) return;
  const RemoteBuffer opened = Opened(0);
  server_host().DestroyWindow(window_);
  ExpectWriteRefused(opened, 1, "WRITE through a window that was destroyed");
  ExpectUntouched(memory_);
}

TEST_P(InvalidateTest, ThePeerCannotInvalidateAWindowThatWasDestroyed) {
  if (!OpenWindow()) return;
  const RemoteKey key = server_host().KeyOfWindow(window_);
  server_host().DestroyWindow(window_);
  ExpectNotInvalidated(key);
}

TEST_P(InvalidateTest, AWindowCanBeBoundAgain) {
  if (!OpenWindow()) return;
  const RemoteBuffer old = Opened(0);
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const uint64_t key = server_host().KeyOfWindow(window_).value;
    Succeed(server(), server().Invalidate({key}), "local invalidate");
    Succeed(server(),
            server().Bind(window_, memory_, kOffset, kLength, kRemoteAll),
            "bind of a window that was closed");
    EXPECT_NE(server_host().KeyOfWindow(window_).value, key)
        << "the key of the last binding works again";
  }
  Succeed(client(), client().Write({source_.Part(0, kLength)}, Opened(0)),
          "WRITE through the newest binding");
  Fence(client(), Opened(0));
  ExpectBytes(memory_, kOffset, kLength, 1);
  ExpectWriteRefused(old, 1, "WRITE with the key of an old binding");
}

TEST_P(InvalidateTest, SendComesAfterTheBindBeforeIt) {
  if (!OpenWindow()) return;
  // The message that tells the peer the key must not overtake the bind.
  const MemoryHandle note = server().Memory(8);
  const MemoryHandle inbox = client().Memory(8);
  for (int round = 0; round < 50 && !HasFailure(); ++round) {
    const Posted receive = client().Receive({inbox.All()});
    const Posted closed =
        server().Invalidate(server_host().KeyOfWindow(window_));
    const Posted bound =
        server().Bind(window_, memory_, kOffset, kLength, kRemoteAll);
    const Posted told = server().Send({note.All()});
    Succeed(client(), receive, "RECEIVE of a key");
    Succeed(client(), client().Write({source_.Part(0, 8)}, Opened(0)),
            "WRITE as soon as the key is known");
    Succeed(server(), closed, "local invalidate");
    Succeed(server(), bound, "bind");
    Succeed(server(), told, "SEND of a key");
  }
}

TEST_P(InvalidateTest, AWindowOfAnotherConnectionIsRefused) {
  if (!OpenWindow()) return;
  auto [other, other_server] = ConnectAnother();
  ASSERT_NE(other_server.host(), nullptr);
  const MemoryHandle source = other.Memory(10);
  ExpectRefused(other, other.Write({source.All()}, Opened(0)),
                "WRITE through another connection's window");
  ExpectUntouched(memory_);
  EXPECT_TRUE(client().State().connected);
  Succeed(client(), client().Write({source_.Part(0, 10)}, Opened(0)),
          "WRITE by the connection that the window is for");
}

}  // namespace
}  // namespace skiff::testing
