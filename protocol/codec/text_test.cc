#include "protocol/codec/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Strings = std::vector<std::pair<std::string, std::string>>;

// "|" stands for the null in these tests.
std::string Text(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '|') c = '\0';
  }
  return out;
}

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

Strings Parsed(const std::string& text) {
  std::vector<TextPair> pairs;
  const absl::Status status = ParseText(text, &pairs);
  EXPECT_TRUE(status.ok()) << status;
  Strings out;
  for (const TextPair& pair : pairs) {
    out.emplace_back(std::string(pair.key), std::string(pair.value));
  }
  return out;
}

TEST(ParseTextTest, Pairs) {
  EXPECT_THAT(Parsed(""), IsEmpty());
  EXPECT_THAT(Parsed(Text("SendTargets=|")),
              ElementsAre(Pair("SendTargets", "")));
  EXPECT_THAT(Parsed(Text("HeaderDigest=CRC32C,None|X-com.example=a=b=c|")),
              ElementsAre(Pair("HeaderDigest", "CRC32C,None"),
                          Pair("X-com.example", "a=b=c")));
  EXPECT_THAT(Parsed(Text("iSCSIProtocolLevel=1|X#NodeArchitecture=a|")),
              ElementsAre(Pair("iSCSIProtocolLevel", "1"),
                          Pair("X#NodeArchitecture", "a")));
  EXPECT_THAT(Parsed(Text(std::string(63, 'K') + "=v|")),
              ElementsAre(Pair(std::string(63, 'K'), "v")));
}

TEST(ParseTextTest, PairsPointIntoTheText) {
  const std::string text = Text("Key=value|");
  std::vector<TextPair> pairs(3);
  ASSERT_TRUE(ParseText(text, &pairs).ok());
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].key.data(), text.data());
  EXPECT_EQ(pairs[0].value.data(), text.data() + 4);
}

struct BadText {
  std::string text;
  const char* error;
};

TEST(ParseTextTest, Errors) {
  const BadText cases[] = {
      {"Key=value", "no null"},
      {Text("A=b|Key=value"), "no null"},
      {Text("Key|"), "no \"=\""},
      {Text("|"), "no \"=\""},
      {Text("A=b||"), "no \"=\""},
      {Text("=value|"), "no key"},
      {Text(std::string(64, 'K') + "=v|"), "64 characters"},
      {Text(std::string(70000, 'K') + "=v|"), "70000 characters"},
      {Text("Two words=v|"), "not a key name"},
      {Text("1Key=v|"), "not a key name"},
      {Text("-=v|"), "not a key name"},
      {Text("Ke\x01y=v|"), "not a key name"},
      {Text("Ke\xc3\xa9=v|"), "not a key name"},
      {Text("A=b| C=d|"), "not a key name"},
  };
  for (const BadText& bad : cases) {
    std::vector<TextPair> pairs;
    const absl::Status status = ParseText(bad.text, &pairs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.error));
    EXPECT_LT(status.message().size(), 512u);
  }
}

TEST(ParseTextTest, RandomBytesStayInside) {
  std::mt19937 random(11);
  constexpr char kLikely[] = {'\0', '=', 'A', 'z', ',', '#', ' ', '\xff'};
  for (int round = 0; round < 50000; ++round) {
    std::string text(random() % 40, ' ');
    for (char& c : text) c = kLikely[random() % sizeof(kLikely)];
    std::vector<TextPair> pairs;
    if (!ParseText(text, &pairs).ok()) continue;
    size_t bytes = 0;
    for (const TextPair& pair : pairs) {
      EXPECT_TRUE(IsKeyName(pair.key));
      bytes += pair.key.size() + pair.value.size() + 2;
    }
    EXPECT_EQ(bytes, text.size());
  }
}

TEST(QuotedTest, EscapesAndShortens) {
  EXPECT_EQ(Quoted("a\"b\n\xff"), "\"a\\\"b\\n\\xff\"");
  EXPECT_EQ(Quoted(std::string(64, 'x')), '"' + std::string(64, 'x') + '"');
  EXPECT_EQ(Quoted(std::string(65, 'x')), '"' + std::string(64, 'x') + "...\"");
}

TEST(TextCollectorTest, OneSegmentIsNotCopied) {
  TextCollector collector(100);
  const std::string text = Text("A=b|");
  ASSERT_TRUE(collector.Add(Bytes(text), false).ok());
  EXPECT_TRUE(collector.complete());
  EXPECT_EQ(collector.text().data(), text.data());
  EXPECT_EQ(collector.text(), text);
}

TEST(TextCollectorTest, SplitAtAnyByte) {
  const std::string text = Text("InitialR2T=No|MaxBurstLength=65536|");
  for (size_t first = 1; first < text.size(); ++first) {
    for (size_t second = first + 1; second <= text.size(); ++second) {
      TextCollector collector(text.size());
      ASSERT_TRUE(collector.Add(Bytes(text.substr(0, first)), true).ok());
      EXPECT_FALSE(collector.complete());
      ASSERT_TRUE(
          collector.Add(Bytes(text.substr(first, second - first)), true).ok());
      EXPECT_FALSE(collector.complete());
      const std::string rest = text.substr(second);
      ASSERT_TRUE(collector.Add(Bytes(rest), false).ok());
      EXPECT_TRUE(collector.complete());
      ASSERT_EQ(collector.text(), text);
    }
  }
}

TEST(TextCollectorTest, StartsAgainAfterACompleteKeySet) {
  TextCollector collector(8);
  const std::string first = "12345678";
  const std::string second = "abc";
  const std::string third = "xyz";
  ASSERT_TRUE(collector.Add(Bytes(first.substr(0, 4)), true).ok());
  ASSERT_TRUE(collector.Add(Bytes(first.substr(4)), false).ok());
  EXPECT_EQ(collector.text(), first);
  ASSERT_TRUE(collector.Add(Bytes(second), false).ok());
  EXPECT_EQ(collector.text(), second);
  ASSERT_TRUE(collector.Add(Bytes(third), true).ok());
  ASSERT_TRUE(collector.Add({}, false).ok());
  EXPECT_EQ(collector.text(), third);
  ASSERT_TRUE(collector.Add({}, false).ok());
  EXPECT_EQ(collector.text(), "");
}

TEST(TextCollectorTest, Limits) {
  TextCollector collector(8);
  EXPECT_TRUE(collector.Add(Bytes("12345678"), false).ok());
  EXPECT_EQ(collector.Add(Bytes("123456789"), false).code(),
            absl::StatusCode::kResourceExhausted);
  TextCollector split(8);
  EXPECT_TRUE(split.Add(Bytes("12345"), true).ok());
  EXPECT_EQ(split.Add(Bytes("6789"), false).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TextCollectorTest, ContinuationNeedsData) {
  TextCollector collector(8);
  EXPECT_EQ(collector.Add({}, true).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TextWriterTest, SplitsAtTheLimit) {
  for (size_t limit = 1; limit < 40; ++limit) {
    TextWriter writer;
    EXPECT_TRUE(writer.empty());
    writer.Add("InitialR2T", "No");
    writer.Add("TargetAlias", "");
    EXPECT_FALSE(writer.empty());
    const std::string expected = Text("InitialR2T=No|TargetAlias=|");
    std::string all;
    bool more = true;
    while (more) {
      const std::string segment = writer.Next(limit, &more);
      EXPECT_LE(segment.size(), limit);
      EXPECT_FALSE(segment.empty());
      all += segment;
    }
    EXPECT_EQ(all, expected);
    EXPECT_TRUE(writer.empty());
  }
}

TEST(TextWriterTest, NothingIsAnEmptySegment) {
  TextWriter writer;
  bool more = true;
  EXPECT_EQ(writer.Next(8192, &more), "");
  EXPECT_FALSE(more);
}

TEST(TextWriterTest, CanBeUsedAgain) {
  TextWriter writer;
  bool more = true;
  writer.Add("A", "1");
  EXPECT_EQ(writer.Next(100, &more), Text("A=1|"));
  writer.Add("B", "2");
  EXPECT_EQ(writer.Next(100, &more), Text("B=2|"));
  EXPECT_FALSE(more);
}

}  // namespace
}  // namespace skiff::protocol
