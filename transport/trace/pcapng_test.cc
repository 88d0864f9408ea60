#include "transport/trace/pcapng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "transport/trace/pcapng_reader.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;

const absl::Time kWhen =
    absl::FromUnixSeconds(1763762400) + absl::Nanoseconds(123456789);

PcapngConversation Conversation(const std::string& local,
                                const std::string& peer) {
  auto conversation = PcapngConversation::Create(local, peer);
  EXPECT_TRUE(conversation.ok()) << conversation.status();
  return *std::move(conversation);
}

TEST(PcapngTest, TheReaderFindsWhatWasWritten) {
  for (const auto& [local, peer] :
       {std::pair("10.0.0.1:3260", "10.0.0.2:41234"),
        std::pair("[fe80::1]:3260", "[fe80::2]:1")}) {
    PcapngConversation conversation = Conversation(local, peer);
    // One by one: the order in which arguments are evaluated is open.
    std::string file = PcapngHeader();
    file += conversation.Data(true, kWhen, "hello", "a greeting");
    file += conversation.Data(false, kWhen, "you");
    file += conversation.Data(true, kWhen, "!");
    const auto segments = ReadPcapng(file);
    ASSERT_TRUE(segments.ok()) << segments.status();
    ASSERT_EQ(segments->size(), 3u);
    EXPECT_EQ((*segments)[0].from, local);
    EXPECT_EQ((*segments)[0].to, peer);
    EXPECT_EQ((*segments)[0].bytes, "hello");
    EXPECT_EQ((*segments)[0].comment, "a greeting");
    EXPECT_EQ((*segments)[0].when, kWhen);
    EXPECT_EQ((*segments)[1].from, peer);
    EXPECT_EQ((*segments)[1].bytes, "you");
    EXPECT_EQ((*segments)[1].comment, "");
    EXPECT_EQ((*segments)[2].sequence, (*segments)[0].sequence + 5);
  }
}

TEST(PcapngTest, LongDataAreSeveralSegments) {
  PcapngConversation conversation = Conversation("1.2.3.4:5", "1.2.3.4:6");
  const std::string data(3 * PcapngConversation::kMaxSegment + 1, 'x');
  const std::string file = absl::StrCat(
      PcapngHeader(), conversation.Data(false, kWhen, data, "long"));
  const auto segments = ReadPcapng(file);
  ASSERT_TRUE(segments.ok()) << segments.status();
  ASSERT_EQ(segments->size(), 4u);
  std::string all;
  uint32_t sequence = (*segments)[0].sequence;
  for (const CapturedSegment& segment : *segments) {
    EXPECT_EQ(segment.sequence, sequence);
    sequence += static_cast<uint32_t>(segment.bytes.size());
    absl::StrAppend(&all, segment.bytes);
  }
  EXPECT_EQ(all, data);
  EXPECT_EQ((*segments)[0].comment, "long");
  EXPECT_EQ((*segments)[1].comment, "");
}

// Byte for byte, so that writer and reader cannot agree on something wrong.
TEST(PcapngTest, TheBytesOfAPacket) {
  PcapngConversation conversation =
      Conversation("10.0.0.1:3260", "10.0.0.2:41234");
  const std::string block =
      conversation.Data(true, absl::UnixEpoch() + absl::Nanoseconds(7), "abcd");
  ASSERT_EQ(block.size(), 12u + 20u + 44u);
  const std::string packet = block.substr(8 + 20, 44);
  const unsigned char expected[] = {
      0x45, 0,    0,    44,   0,  0, 0x40, 0, 64,  6,   0x26, 0xca,
      10,   0,    0,    1,    10, 0, 0,    2,                     // IPv4.
      0x0c, 0xbc, 0xa1, 0x12, 0,  0, 0,    1, 0,   0,   0,    1,  // TCP.
      0x50, 0x18, 0xff, 0xff, 0,  0, 0,    0, 'a', 'b', 'c',  'd'};
  EXPECT_EQ(packet, std::string(reinterpret_cast<const char*>(expected),
                                sizeof(expected)));
}

TEST(PcapngTest, AddressesMustBeNumericAndOfOneKind) {
  EXPECT_FALSE(PcapngConversation::Create("host:1", "10.0.0.1:1").ok());
  EXPECT_FALSE(PcapngConversation::Create("", "").ok());
  EXPECT_THAT(std::string(PcapngConversation::Create("[::1]:1", "10.0.0.1:1")
                              .status()
                              .message()),
              HasSubstr("of one kind, not [::1]:1 and 10.0.0.1:1"));
}

TEST(PcapngReaderTest, SaysWhereItIsWrong) {
  PcapngConversation conversation = Conversation("1.2.3.4:5", "1.2.3.4:6");
  const std::string good =
      absl::StrCat(PcapngHeader(), conversation.Data(true, kWhen, "abcd", "c"));
  EXPECT_FALSE(ReadPcapng("").ok());
  EXPECT_FALSE(ReadPcapng("no capture at all").ok());
  for (size_t size = 1; size < good.size(); ++size) {
    const bool whole_blocks = size == 28 || size == PcapngHeader().size();
    EXPECT_EQ(ReadPcapng(good.substr(0, size)).ok(), whole_blocks) << size;
  }
  std::string bad = good;
  bad[28 + 8] = 1;
  EXPECT_THAT(std::string(ReadPcapng(bad).status().message()),
              HasSubstr("at byte 28, the link type is 1"));
}

TEST(PcapngReaderTest, DamageIsSafe) {
  PcapngConversation conversation = Conversation("[::1]:5", "[::1]:6");
  const std::string good = absl::StrCat(
      PcapngHeader(), conversation.Data(true, kWhen, "abcd", "comment"));
  std::mt19937 random(11);
  int still_good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = good;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const std::string copy(damaged);
    const auto segments = ReadPcapng(copy);
    if (!segments.ok()) continue;
    ++still_good;
    for (const CapturedSegment& segment : *segments) {
      EXPECT_GE(segment.bytes.data(), copy.data());
      EXPECT_LE(segment.bytes.data() + segment.bytes.size(),
                copy.data() + copy.size());
    }
  }
  EXPECT_GT(still_good, 100);
}

}  // namespace
}  // namespace skiff::transport
