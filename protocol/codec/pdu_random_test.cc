#include <gtest/gtest.h>

#include <random>

#include "protocol/codec/pdu.h"
#include "protocol/codec/pdu_test_util.h"

// Decode takes any 48 bytes. What it accepts encodes to a header that decodes
// to the same, for every PDU; what it refuses has a reason.

namespace skiff::protocol {
namespace {

constexpr int kRounds = 20000;

template <typename Pdu>
class PduRandomTest : public ::testing::Test {};

using Pdus =
    ::testing::Types<ScsiCommandPdu, ScsiResponsePdu, TaskManagementRequestPdu,
                     TaskManagementResponsePdu, ScsiDataOutPdu, ScsiDataInPdu,
                     R2tPdu, AsyncMessagePdu, TextRequestPdu, TextResponsePdu,
                     LoginRequestPdu, LoginResponsePdu, LogoutRequestPdu,
                     LogoutResponsePdu, SnackRequestPdu, RejectPdu, NopOutPdu,
                     NopInPdu>;
TYPED_TEST_SUITE(PduRandomTest, Pdus);

// Random bytes, with the edge values of tags and lengths more often than by
// chance.
Bhs RandomBhs(std::mt19937* random) {
  Bhs bhs;
  for (uint8_t& byte : bhs) byte = static_cast<uint8_t>((*random)());
  for (size_t word = 4; word < kBhsSize; word += 4) {
    const unsigned dice = (*random)() % 4;
    if (dice > 1) continue;
    for (size_t i = 0; i < 4; ++i) bhs[word + i] = dice == 0 ? 0x00 : 0xff;
  }
  return bhs;
}

TYPED_TEST(PduRandomTest, AcceptedHeadersRoundTrip) {
  std::mt19937 random(20140401);
  const uint8_t opcode = EncodeToBhs(TypeParam())[0] & 0x3f;
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    Bhs bhs = RandomBhs(&random);
    bhs[0] = static_cast<uint8_t>((bhs[0] & 0xc0) | opcode);
    TypeParam first;
    const DecodeResult result = Decode(bhs.data(), &first);
    if (!result.ok()) {
      EXPECT_EQ(result.code, DecodeResult::kInvalidField);
      EXPECT_STRNE(result.field, "");
      continue;
    }
    ++accepted;
    Bhs again = EncodeToBhs(first);
    // A bidirectional command is one only together with its AHS.
    EncodeLengths(again.data(), DecodeFrame(bhs.data()).ahs_bytes,
                  DecodeFrame(bhs.data()).data_segment_length);
    TypeParam second;
    ASSERT_TRUE(Decode(again.data(), &second).ok()) << ToHex(bhs);
    ASSERT_EQ(ToHex(EncodeToBhs(first)), ToHex(EncodeToBhs(second)));
  }
  EXPECT_GT(accepted, 10);
}

TYPED_TEST(PduRandomTest, AnyBytesAreSafe) {
  std::mt19937 random(7143);
  for (int round = 0; round < kRounds; ++round) {
    const Bhs bhs = RandomBhs(&random);
    TypeParam pdu;
    const bool ok = Decode(bhs.data(), &pdu).ok();
    const uint8_t opcode = EncodeToBhs(TypeParam())[0] & 0x3f;
    EXPECT_TRUE(!ok || (bhs[0] & 0x3f) == opcode);
  }
}

}  // namespace
}  // namespace skiff::protocol
