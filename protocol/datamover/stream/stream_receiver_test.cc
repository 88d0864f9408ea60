#include "protocol/datamover/stream/stream_receiver.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/codec/wire_test_util.h"

namespace skiff::protocol {
namespace {

// A Data-Out on the wire; its tag is `tag`.
std::string Wire(uint32_t tag, const std::string& ahs, const std::string& data,
                 bool digests) {
  ScsiDataOutPdu pdu;
  pdu.initiator_task_tag = tag;
  Bhs bhs;
  Encode(pdu, bhs.data());
  return WireOf(bhs, ahs, data, {digests, digests});
}

// Collects PDUs; `kind` is what it says when asked where data go.
class Collector : public StreamReceiver::Handler {
 public:
  struct Got {
    uint32_t tag;
    std::string ahs;
    std::string data;
    bool digest_error;
  };

  void OnPdu(const StreamReceiver::Pdu& pdu, absl::Span<const uint8_t> data,
             StreamReceiver::DigestError error) override {
    Add(pdu, std::string(data.begin(), data.end()), error);
  }
  StreamReceiver::Sink OnPduStart(const StreamReceiver::Pdu& pdu) override {
    StreamReceiver::Sink sink;
    sink.kind = kind;
    if (kind != StreamReceiver::Sink::kPlace) return sink;
    // In uneven pieces, behind an offset.
    place.assign(pdu.frame.data_segment_length + 5, '\0');
    const size_t cut = place.size() / 3;
    pieces[0] = {place.data(), cut};
    pieces[1] = {place.data() + cut, 0};
    pieces[2] = {place.data() + cut, place.size() - cut};
    sink.iov = pieces;
    sink.iov_count = 3;
    sink.offset = 5;
    return sink;
  }
  void OnPlaced(const StreamReceiver::Pdu& pdu,
                StreamReceiver::DigestError error) override {
    Add(pdu,
        kind == StreamReceiver::Sink::kPlace ? place.substr(5) : "(dropped)",
        error);
  }
  void OnFramingError(const std::string& why) override { failure = why; }
  bool ReceivePaused() const override { return got.size() >= pause_at; }

  void Add(const StreamReceiver::Pdu& pdu, std::string data,
           StreamReceiver::DigestError error) {
    got.push_back({pdu.frame.initiator_task_tag,
                   std::string(pdu.ahs.begin(), pdu.ahs.end()), std::move(data),
                   error != StreamReceiver::DigestError::kNone});
  }

  StreamReceiver::Sink::Kind kind = StreamReceiver::Sink::kAssemble;
  std::vector<Got> got;
  size_t pause_at = ~size_t{0};  // So many PDUs, and the next one waits.
  std::string failure;
  std::string place;
  iovec pieces[3];
};

// Feeds `wire` in reads of at most `step` bytes.
void Feed(StreamReceiver* receiver, const std::string& wire, size_t step) {
  size_t at = 0;
  while (at < wire.size()) {
    const absl::Span<const iovec> spans = receiver->Spans();
    if (spans.empty()) return;
    const size_t n = CopyIn(wire.substr(at, step), spans);
    at += n;
    receiver->BytesReceived(n);
  }
}

struct Case {
  StreamReceiver::Sink::Kind kind;
  bool digests;
};
class StreamReceiverTest : public ::testing::TestWithParam<Case> {
 protected:
  void Configure(StreamReceiver* receiver) const {
    const Digest digest = GetParam().digests ? Digest::kCrc32c : Digest::kNone;
    receiver->SetDigests(digest, digest);
    receiver->SetMaxDataSegmentLength(200000);
  }
  StreamBuffers buffers_{64 * 1024};
};

TEST_P(StreamReceiverTest, CutsTheSamePdusHoweverTheyArrive) {
  std::string wire;
  std::vector<std::string> payloads;
  uint32_t tag = 0;
  for (const size_t size :
       {0, 1, 4, 511, 4096, 1023, 1024, 16384, 40000, 70000, 3, 0, 100000}) {
    payloads.push_back(RandomBytes(size, tag));
    wire += Wire(tag, tag % 3 == 0 ? std::string(8, 'a') : "", payloads.back(),
                 GetParam().digests);
    ++tag;
  }
  std::vector<size_t> steps = {1,    2,    47,    48,    49,
                               1000, 4096, 16000, 60000, 1000000};
  for (const size_t step : steps) {
    Collector collector;
    collector.kind = GetParam().kind;
    StreamReceiver receiver(&buffers_, &collector);
    Configure(&receiver);
    Feed(&receiver, wire, step);
    EXPECT_EQ(collector.failure, "");
    ASSERT_EQ(collector.got.size(), payloads.size()) << "step " << step;
    for (size_t i = 0; i < payloads.size(); ++i) {
      const Collector::Got& got = collector.got[i];
      EXPECT_EQ(got.tag, i);
      EXPECT_EQ(got.ahs.size(), i % 3 == 0 ? 8u : 0u);
      EXPECT_FALSE(got.digest_error);
      const bool dropped = got.data == "(dropped)";
      EXPECT_TRUE(!dropped ||
                  GetParam().kind == StreamReceiver::Sink::kDiscard);
      EXPECT_TRUE(dropped || got.data == payloads[i])
          << "PDU " << i << " step " << step;
    }
    EXPECT_FALSE(receiver.mid_pdu());
    EXPECT_EQ(receiver.received_bytes(), wire.size());
  }
}

TEST_P(StreamReceiverTest, SeesEveryFlippedBitOfTheData) {
  if (!GetParam().digests) return;
  const std::string clean =
      Wire(1, "", RandomBytes(5000, 1), true) + Wire(2, "", "", true);
  for (const size_t at : {52, 1000, 5051, 5052, 5055}) {
    for (const size_t step : {700, 100000}) {
      std::string wire = clean;
      wire[at] ^= 0x10;
      Collector collector;
      collector.kind = GetParam().kind;
      StreamReceiver receiver(&buffers_, &collector);
      Configure(&receiver);
      Feed(&receiver, wire, step);
      ASSERT_EQ(collector.got.size(), 2u);
      EXPECT_TRUE(collector.got[0].digest_error) << at;
      EXPECT_FALSE(collector.got[1].digest_error);
      EXPECT_EQ(receiver.data_digest_errors(), 1u);
      EXPECT_EQ(receiver.header_digest_errors(), 0u);
    }
  }
}

TEST_P(StreamReceiverTest, AFlippedBitOfTheHeaderEndsTheStream) {
  if (!GetParam().digests) return;
  uint64_t errors = 0;
  for (size_t at = 0; at < 52; at += 5) {
    std::string wire = Wire(1, "", "", true);
    wire[at] ^= 0x01;
    // A changed length makes it wait for more: give it more.
    wire += std::string(300000, '\0');
    Collector collector;
    StreamReceiver receiver(&buffers_, &collector);
    Configure(&receiver);
    Feed(&receiver, wire, 4096);
    EXPECT_NE(collector.failure, "") << at;
    EXPECT_TRUE(collector.got.empty()) << at;
    EXPECT_LE(receiver.header_digest_errors(), 1u);
    errors += receiver.header_digest_errors();
  }
  // Some changes of the lengths are seen before.
  EXPECT_GE(errors, 5u);
}

TEST_P(StreamReceiverTest, RefusesDataBeyondTheDeclaredLength) {
  Collector collector;
  collector.kind = GetParam().kind;
  StreamReceiver receiver(&buffers_, &collector);
  Configure(&receiver);
  receiver.SetMaxDataSegmentLength(4096);
  Feed(&receiver, Wire(1, "", RandomBytes(4096, 1), GetParam().digests), 1000);
  ASSERT_EQ(collector.got.size(), 1u);
  Feed(&receiver, Wire(2, "", RandomBytes(4097, 1), GetParam().digests), 1000);
  EXPECT_EQ(collector.got.size(), 1u);
  EXPECT_NE(collector.failure.find("4097"), std::string::npos)
      << collector.failure;
  EXPECT_TRUE(receiver.Spans().empty());
}

TEST_P(StreamReceiverTest, WhatWasReceivedBeforeAPauseComesAfterIt) {
  Collector collector;
  collector.kind = GetParam().kind;
  StreamReceiver receiver(&buffers_, &collector);
  Configure(&receiver);
  std::string wire;
  for (uint32_t tag = 0; tag < 5; ++tag) {
    wire += Wire(tag, "", RandomBytes(3000, tag), GetParam().digests);
  }
  size_t spare = 0;
  for (size_t round = 0; round < 3; ++round) {
    const size_t before = collector.got.size();
    const absl::Span<const iovec> spans = receiver.Spans();
    collector.pause_at = before + 2;
    ASSERT_EQ(CopyIn(wire, spans), wire.size());
    receiver.BytesReceived(wire.size());
    EXPECT_EQ(collector.got.size(), before + 2);
    // What is kept lies in the block that served the last time.
    EXPECT_EQ(buffers_.blocks()->spare_bytes(), 0u);
    // Another connection uses the scratch meanwhile.
    std::memset(buffers_.scratch(), 0xee, buffers_.scratch_size());
    receiver.Resume();
    EXPECT_EQ(collector.got.size(), before + 2);
    collector.pause_at = before + 4;
    receiver.Resume();
    EXPECT_EQ(collector.got.size(), before + 4);
    collector.pause_at = ~size_t{0};
    receiver.Resume();
    ASSERT_EQ(collector.got.size(), before + 5);
    for (uint32_t tag = 0; tag < 5; ++tag) {
      EXPECT_EQ(collector.got[before + tag].tag, tag);
      EXPECT_EQ(collector.got[before + tag].data, RandomBytes(3000, tag));
    }
    if (round == 0) spare = buffers_.blocks()->spare_bytes();
    EXPECT_GT(spare, 0u);
    EXPECT_EQ(buffers_.blocks()->spare_bytes(), spare);
  }
}

TEST_P(StreamReceiverTest, AbandonedMemoryIsNotTouchedAgain) {
  if (GetParam().kind != StreamReceiver::Sink::kPlace) return;
  Collector collector;
  collector.kind = GetParam().kind;
  StreamReceiver receiver(&buffers_, &collector);
  Configure(&receiver);
  const std::string wire =
      Wire(1, "", RandomBytes(50000, 1), GetParam().digests) +
      Wire(2, "", "", GetParam().digests);
  Feed(&receiver, wire.substr(0, 20000), 3000);
  EXPECT_TRUE(receiver.mid_pdu());
  receiver.AbandonPlacement();
  const std::string before = collector.place;
  Feed(&receiver, wire.substr(20000), 3000);
  EXPECT_EQ(collector.place, before);
  ASSERT_EQ(collector.got.size(), 2u);
  EXPECT_EQ(collector.got[1].tag, 2u);
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamReceiverTest,
    ::testing::Values(Case{StreamReceiver::Sink::kAssemble, false},
                      Case{StreamReceiver::Sink::kAssemble, true},
                      Case{StreamReceiver::Sink::kPlace, false},
                      Case{StreamReceiver::Sink::kPlace, true},
                      Case{StreamReceiver::Sink::kDiscard, false},
                      Case{StreamReceiver::Sink::kDiscard, true}));

}  // namespace
}  // namespace skiff::protocol
