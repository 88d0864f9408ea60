// RDMA READ and WRITE.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "testing/transport_conformance/conformance_pair.h"

namespace skiff::testing {
namespace {

using transport::Access;
using transport::CompletionStatus;
using transport::OperationKind;
using transport::PostResult;
using transport::RemoteBuffer;

constexpr Access kRemoteAll = Access::kRemoteRead | Access::kRemoteWrite;

class OneSidedTest : public ConformancePair {
 protected:
  // Memory that a READ may fill, on every fabric.
  MemoryHandle Sink(size_t size, size_t misalignment = 0) {
    return client().Memory(size, SinkAccess(), misalignment);
  }
  size_t Largest() {
    return std::min(client().capabilities().max_transfer_bytes,
                    scale().largest);
  }
  void WriteAndReadBack(size_t length, size_t local_misalignment,
                        size_t remote_misalignment, uint64_t seed);
};

SKIFF_CONFORMANCE_SUITE(OneSidedTest, RdmaFactories);

void OneSidedTest::WriteAndReadBack(size_t length, size_t local_misalignment,
                                    size_t remote_misalignment, uint64_t seed) {
  SCOPED_TRACE(::testing::Message()
               << length << " bytes, misaligned by " << local_misalignment
               << " here and " << remote_misalignment << " there");
  constexpr size_t kBefore = 24;
  const MemoryHandle source =
      client().Memory(length + 1, Access::kLocal, local_misalignment);
  const MemoryHandle target =
      server().Memory(length + 2 * kBefore, kRemoteAll, remote_misalignment);
  const MemoryHandle sink = Sink(length + 1, local_misalignment);
  source.Fill(seed);
  const Arrived written =
      Succeed(client(),
              client().Write({source.Part(0, length)}, target.Remote(kBefore)),
              "WRITE");
  EXPECT_EQ(written.kind, OperationKind::kWrite);
  const Arrived read = Succeed(
      client(), client().Read({sink.Part(0, length)}, target.Remote(kBefore)),
      "READ");
  EXPECT_EQ(read.kind, OperationKind::kRead);
  // A READ comes after the WRITE before it, and its data is there when it
  // completes.
  ExpectBytes(sink, 0, length, seed);
  ExpectUntouched(sink, length, 1);
  ExpectBytes(target, kBefore, length, seed);
  ExpectUntouched(target, 0, kBefore);
  ExpectUntouched(target, kBefore + length, kBefore);
}

TEST_P(OneSidedTest, SizesAroundEveryBoundary) {
  Connect();
  const size_t inline_bytes = client().capabilities().max_inline_bytes;
  std::set<size_t> sizes = {1, 2, 3, 7, 8, 9, 4095, 4096, 4097};
  for (const size_t edge : {inline_bytes, scale().mtu, 2 * scale().mtu}) {
    for (const size_t size : {edge - 1, edge, edge + 1}) {
      if (size > 0 && size <= Largest()) sizes.insert(size);
    }
  }
  uint64_t seed = 1;
  for (const size_t size : sizes) WriteAndReadBack(size, 0, 0, seed++);
}

TEST_P(OneSidedTest, Unaligned) {
  Connect();
  uint64_t seed = 1;
  for (const size_t here : {1, 3, 8}) {
    for (const size_t there : {0, 1, 5}) {
      WriteAndReadBack(1000, here, there, seed++);
    }
  }
}

TEST_P(OneSidedTest, AcrossPages) {
  Connect();
  WriteAndReadBack(2, 4095, 4095 - 24, 1);
  WriteAndReadBack(3 * 4096, 4000, 100, 2);
  WriteAndReadBack(64 << 10, 123, 4095, 3);
}

TEST_P(OneSidedTest, LargestTransfer) {
  Connect();
  WriteAndReadBack(Largest() - 1, 0, 0, 1);
  WriteAndReadBack(Largest(), 0, 0, 2);
}

TEST_P(OneSidedTest, ZeroLength) {
  Connect();
  const MemoryHandle local = Sink(16);
  const MemoryHandle remote = server().Memory(16, kRemoteAll);
  Succeed(client(), client().Write({local.Part(0, 0)}, remote.Remote()),
          "WRITE of nothing");
  Succeed(client(), client().Read({local.Part(0, 0)}, remote.Remote()),
          "READ of nothing");
  Succeed(client(), client().Write({}, remote.Remote()),
          "WRITE of an empty list");
  ExpectUntouched(remote);
  ExpectUntouched(local);
}

TEST_P(OneSidedTest, FirstAndLastByteOfARegion) {
  Connect();
  constexpr size_t kSize = 5000;
  const MemoryHandle source = client().Memory(1);
  const MemoryHandle target = server().Memory(kSize, kRemoteAll);
  source.Fill(1);
  Succeed(client(), client().Write({source.All()}, target.Remote(0)),
          "WRITE to the first byte");
  Succeed(client(), client().Write({source.All()}, target.Remote(kSize - 1)),
          "WRITE to the last byte");
  Fence(client(), target.Remote());
  ExpectBytes(target, 0, 1, 1);
  ExpectBytes(target, kSize - 1, 1, 1);
  ExpectUntouched(target, 1, kSize - 2);
}

TEST_P(OneSidedTest, GathersAndScatters) {
  Connect();
  const transport::Capabilities& caps = client().capabilities();
  const size_t gather = std::min<size_t>(4, caps.max_send_sges);
  const size_t scatter = std::min<size_t>(4, caps.max_read_sges);
  constexpr size_t kPart = 512;
  const MemoryHandle source = client().Memory(gather * kPart);
  const MemoryHandle target = server().Memory(4 * kPart, kRemoteAll);
  const MemoryHandle sink = Sink(4 * kPart);
  std::vector<Piece> from;
  for (size_t i = 0; i < gather; ++i) {
    source.FillPart(i * kPart, kPart, i);
    from.push_back(source.Part((gather - 1 - i) * kPart, kPart));
  }
  Succeed(client(), client().Write(from, target.Remote()),
          "WRITE with a gather list");
  Fence(client(), target.Remote());
  for (size_t i = 0; i < gather; ++i) {
    ExpectBytes(target, i * kPart, kPart, gather - 1 - i);
  }
  target.Fill(77);
  std::vector<Piece> to;
  for (size_t i = 0; i < scatter; ++i) {
    to.push_back(sink.Part((scatter - 1 - i) * kPart, kPart));
  }
  Succeed(client(), client().Read(to, target.Remote()),
          "READ with a scatter list");
  for (size_t i = 0; i < scatter; ++i) {
    ExpectBytes(sink, (scatter - 1 - i) * kPart, kPart, 77, i * kPart);
  }
}

TEST_P(OneSidedTest, BothSidesMayRead) {
  Connect();
  const MemoryHandle near = client().Memory(3000, kRemoteAll);
  const MemoryHandle far = server().Memory(3000, kRemoteAll);
  near.Fill(1);
  Succeed(server(), server().Read({far.All()}, near.Remote()),
          "READ by the listening side");
  ExpectBytes(far, 0, 3000, 1);
  far.Fill(2);
  Succeed(server(), server().Write({far.All()}, near.Remote()),
          "WRITE by the listening side");
  Fence(server(), near.Remote());
  ExpectBytes(near, 0, 3000, 2);
}

TEST_P(OneSidedTest, WriteThenSendArrivesInThatOrder) {
  Connect();
  const size_t size = std::min<size_t>(Largest(), 100 << 10);
  const MemoryHandle source = client().Memory(size);
  const MemoryHandle note = client().Memory(8);
  const MemoryHandle target = server().Memory(size, kRemoteAll);
  const MemoryHandle inbox = server().Memory(8);
  const int rounds = std::min(50, scale().operations);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const uint64_t seed = 10 + static_cast<uint64_t>(round);
    source.Fill(seed);
    const Posted receive = server().Receive({inbox.All()});
    Operation write;
    write.kind = OperationKind::kWrite;
    write.pieces = {source.All()};
    write.remote = target.Remote();
    const Posted written = client().Post(write);
    const Posted sent = client().Send({note.All()});
    // The RECEIVE alone says that the data before it is there.
    Succeed(server(), receive, "RECEIVE behind a WRITE");
    ExpectBytes(target, 0, size, seed);
    Succeed(client(), written, "WRITE before a SEND");
    Succeed(client(), sent, "SEND behind a WRITE");
  }
}

// Whoever has the completion uses the memory for something else, whether the
// bytes have left by then or not.
TEST_P(OneSidedTest, MemoryIsFreeOnceCompleted) {
  Connect();
  constexpr uint64_t kOther = 1000;
  constexpr size_t kCount = 16;
  const size_t size = std::min<size_t>(Largest(), 32 << 10);
  const MemoryHandle source = client().Memory(kCount * size);
  const MemoryHandle target = server().Memory(kCount * size, kRemoteAll);
  std::vector<Posted> posted;
  for (size_t i = 0; i < kCount; ++i) {
    source.FillPart(i * size, size, i);
    Operation write;
    write.kind = OperationKind::kWrite;
    write.pieces = {source.Part(i * size, size)};
    write.remote = target.Remote(i * size);
    posted.push_back(client().Post(write));
  }
  client().Flush();
  // The youngest first: those are under way.
  for (size_t i = kCount; i-- > 0;) {
    Succeed(client(), posted[i], "WRITE among many");
    source.FillPart(i * size, size, kOther);
  }
  Fence(client(), target.Remote());
  for (size_t i = 0; i < kCount && !HasFailure(); ++i) {
    ExpectBytes(target, i * size, size, i);
  }
}

TEST_P(OneSidedTest, BeyondTheEndIsRefused) {
  Connect();
  const MemoryHandle source = client().Memory(101);
  const MemoryHandle target = server().Memory(100, kRemoteAll);
  source.Fill(1);
  ExpectRefused(client(), client().Write({source.All()}, target.Remote()),
                "WRITE of one byte more than the region");
  ExpectUntouched(target);
}

TEST_P(OneSidedTest, BeforeTheStartIsRefused) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle target = server().Memory(100, kRemoteAll, 100);
  RemoteBuffer before = target.Remote();
  if (before.address == 0) {
    NotSupported("addresses before a region that starts at 0");
    return;
  }
  --before.address;
  ExpectRefused(client(), client().Write({source.All()}, before),
                "WRITE to one byte before the region");
  ExpectUntouched(target);
}

TEST_P(OneSidedTest, ReadBeyondTheEndIsRefused) {
  Connect();
  const MemoryHandle sink = Sink(200);
  const MemoryHandle target = server().Memory(100, kRemoteAll);
  ExpectRefused(client(), client().Read({sink.Part(0, 50)}, target.Remote(51)),
                "READ over the end of the region");
  ExpectUntouched(sink);
}

TEST_P(OneSidedTest, WrongKeyIsRefused) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle target = server().Memory(100, kRemoteAll);
  RemoteBuffer wrong = target.Remote();
  wrong.key.value ^= 0x80;  // Of the same index, where keys have an index.
  ExpectRefused(client(), client().Write({source.All()}, wrong),
                "WRITE with a wrong key");
  ExpectUntouched(target);
}

TEST_P(OneSidedTest, RevokedKeyIsRefused) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle target = server().Memory(100, kRemoteAll);
  const RemoteBuffer old = target.Remote();
  Succeed(client(), client().Write({source.All()}, old),
          "WRITE while the region exists");
  Fence(client(), old);
  server_host().Deregister(target.id);
  ExpectRefused(client(),
                client().Write({source.All()}, {old.address + 50, old.key}),
                "WRITE with the key of a region that is gone");
  ExpectUntouched(target, 10, 90);
}

TEST_P(OneSidedTest, WriteNeedsPermission) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle target = server().Memory(100, Access::kRemoteRead);
  ExpectRefused(client(), client().Write({source.All()}, target.Remote()),
                "WRITE to a region for reading");
  ExpectUntouched(target);
}

TEST_P(OneSidedTest, ReadNeedsPermission) {
  if (!expected().checks_read_permission) {
    NotSupported("checking the permission to read");
    return;
  }
  Connect();
  const MemoryHandle sink = Sink(10);
  const MemoryHandle target = server().Memory(100, Access::kRemoteWrite);
  ExpectRefused(client(), client().Read({sink.All()}, target.Remote()),
                "READ of a region for writing");
  ExpectUntouched(sink);
}

TEST_P(OneSidedTest, LocalMemoryIsClosedToThePeer) {
  Connect();
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle target = server().Memory(100, Access::kLocal);
  ExpectRefused(client(), client().Write({source.All()}, target.Remote()),
                "WRITE to a region without remote access");
  ExpectUntouched(target);
}

TEST_P(OneSidedTest, RegionOfAnotherHostIsRefused) {
  // A key of our own means nothing, or something else, to the peer.
  Connect();
  const MemoryHandle source = client().Memory(100);
  const MemoryHandle own = client().Memory(100, kRemoteAll);
  const Arrived arrived =
      Await(client(), client().Write({source.All()}, own.Remote()),
            "WRITE with a key of the own side");
  // One protection domain may serve both ends of a process; then the key is
  // good.
  if (arrived.status == CompletionStatus::kOk) return;
  if (expected().refusals_are_named) {
    EXPECT_EQ(arrived.status, CompletionStatus::kRemoteAccess);
  }
  ExpectUntouched(own);
}

TEST_P(OneSidedTest, RefusalLeavesOtherConnectionsAlone) {
  Connect();
  auto [other_client, other_server] = ConnectAnother();
  ASSERT_NE(other_server.host(), nullptr);
  const MemoryHandle source = client().Memory(10);
  const MemoryHandle target = server().Memory(10, Access::kLocal);
  ExpectRefused(client(), client().Write({source.All()}, target.Remote()),
                "WRITE without permission");
  EXPECT_TRUE(other_client.State().connected)
      << "the damage of one connection spread to another";
  const MemoryHandle from = other_client.Memory(10);
  const MemoryHandle to = other_server.Memory(10);
  from.Fill(4);
  const Posted receive = other_server.Receive({to.All()});
  Succeed(other_client, other_client.Send({from.All()}),
          "SEND of the other connection");
  Succeed(other_server, receive, "RECEIVE of the other connection");
  ExpectBytes(to, 0, 10, 4);
}

TEST_P(OneSidedTest, ReadDepthIsRespected) {
  EndPlan plan;
  plan.read_depth = 4;
  Connect(plan, plan);
  const uint32_t depth = client().capabilities().max_read_depth;
  EXPECT_GE(depth, 1u);
  EXPECT_LE(depth, 4u) << "more than either side asked for";
  const MemoryHandle sink = Sink(16 * 64);
  const MemoryHandle target = server().Memory(64, kRemoteAll);
  target.Fill(6);
  std::vector<Posted> accepted;
  bool would_block = false;
  for (uint32_t i = 0; i < 16 && !would_block; ++i) {
    Operation read;
    read.kind = OperationKind::kRead;
    read.pieces = {sink.Part(i * 64, 64)};
    read.remote = target.Remote();
    const Posted posted = client().Post(read);
    would_block = posted.result == PostResult::kWouldBlock;
    if (!would_block) accepted.push_back(posted);
  }
  EXPECT_TRUE(would_block)
      << "16 READs were accepted at once, with a read depth of " << depth;
  EXPECT_EQ(accepted.size(), depth)
      << "exactly max_read_depth READs may be outstanding";
  client().Flush();
  for (const Posted& posted : accepted) Succeed(client(), posted, "READ");
  // There is room again.
  Succeed(client(), client().Read({sink.Part(0, 64)}, target.Remote()),
          "READ after the others completed");
}

TEST_P(OneSidedTest, ReadsAndWritesInARow) {
  Connect();
  constexpr size_t kSize = 256;
  const MemoryHandle source = client().Memory(kSize);
  const MemoryHandle sink = Sink(kSize);
  const MemoryHandle target = server().Memory(kSize, kRemoteAll);
  const int rounds = scale().operations / 4;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const uint64_t seed = static_cast<uint64_t>(round);
    source.Fill(seed);
    const Posted write = client().Write({source.All()}, target.Remote());
    const Posted read = client().Read({sink.All()}, target.Remote());
    Succeed(client(), write, "WRITE in a row");
    Succeed(client(), read, "READ in a row");
    ExpectBytes(sink, 0, kSize, seed);
  }
}

}  // namespace
}  // namespace skiff::testing
