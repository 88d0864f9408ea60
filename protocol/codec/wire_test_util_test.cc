#include "protocol/codec/wire_test_util.h"

#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

TEST(WireTest, CutsWhatItBuilds) {
  for (const bool header : {false, true}) {
    for (const bool data : {false, true}) {
      const WireDigests digests = {header, data};
      NopOutPdu nop;
      nop.initiator_task_tag = 7;
      const std::string payload = RandomBytes(13, 1);
      const std::string wire =
          ToWire(nop, payload, digests) + ToWire(nop, "", digests);
      EXPECT_EQ(wire.size(),
                2 * kBhsSize + 16 + (header ? 8 : 0) + (data ? 4 : 0));
      const auto pdus = ParseWire(wire, digests);
      ASSERT_TRUE(pdus.ok()) << pdus.status();
      ASSERT_EQ(pdus->size(), 2u);
      EXPECT_EQ((*pdus)[0].opcode(), Opcode::kNopOut);
      EXPECT_EQ((*pdus)[0].data, payload);
      EXPECT_EQ((*pdus)[1].data, "");
    }
  }
}

TEST(WireTest, SeesEveryWrongByteUnderADigest) {
  const WireDigests digests = {true, true};
  const std::string wire = ToWire(NopOutPdu(), "data", digests);
  for (size_t i = 0; i < wire.size(); ++i) {
    std::string wrong = wire;
    wrong[i] = static_cast<char>(wrong[i] ^ 1);
    EXPECT_FALSE(ParseWire(wrong, digests).ok()) << i;
    EXPECT_FALSE(ParseWire(wire.substr(0, i), digests).ok() && i > 0) << i;
  }
}

TEST(WireTest, CopiesThroughSpans) {
  std::string first(3, '?');
  std::string second(4, '?');
  const iovec spans[] = {{first.data(), 3}, {nullptr, 0}, {second.data(), 4}};
  EXPECT_EQ(CopyIn("hello", spans), 5u);
  EXPECT_EQ(first + second, "hello??");
  EXPECT_EQ(CopyIn("too much", spans), 7u);
  EXPECT_EQ(CopyOut(spans), "too muc");
  EXPECT_EQ(CopyOut(spans, 4), "too ");
}

}  // namespace
}  // namespace skiff::protocol
