#include <gtest/gtest.h>

#include <string>

#include "protocol/codec/pdu.h"
#include "protocol/codec/pdu_test_util.h"

// Each PDU's bytes, written by hand from its format in RFC 7143 section 11.
// `ignored` marks the bits that a receiver ignores: the format's reserved ones,
// and those that have no meaning for the values in the header.

namespace skiff::protocol {
namespace {

// Which single bits can be flipped without a change of what is decoded.
template <typename Pdu>
Bhs IgnoredBits(const Bhs& golden) {
  Bhs ignored = {};
  for (size_t bit = 0; bit < kBhsSize * 8; ++bit) {
    Bhs flipped = golden;
    const uint8_t mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    flipped[bit / 8] ^= mask;
    Pdu pdu;
    if (Decode(flipped.data(), &pdu).ok() && EncodeToBhs(pdu) == golden) {
      ignored[bit / 8] |= mask;
    }
  }
  return ignored;
}

template <typename Pdu>
void ExpectGolden(const Pdu& pdu, const char* golden_hex,
                  const char* ignored_hex) {
  const Bhs golden = FromHex(golden_hex);
  EXPECT_EQ(ToHex(EncodeToBhs(pdu)), ToHex(golden));
  Pdu decoded;
  const DecodeResult result = Decode(golden.data(), &decoded);
  ASSERT_TRUE(result.ok()) << result.field;
  EXPECT_EQ(ToHex(EncodeToBhs(decoded)), ToHex(golden));

  Bhs expected = FromHex(ignored_hex);
  Bhs ignored = IgnoredBits<Pdu>(golden);
  // The lengths belong to the framing.
  for (size_t i = 4; i < 8; ++i) expected[i] = ignored[i] = 0;
  EXPECT_EQ(ToHex(ignored), ToHex(expected));
}

TEST(PduGoldenTest, ScsiCommand) {
  ScsiCommandPdu pdu;
  pdu.immediate = true;
  pdu.final = true;
  pdu.write = true;
  pdu.attribute = TaskAttribute::kHeadOfQueue;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.expected_data_transfer_length = 0x21222324;
  pdu.cmd_sn = 0x31323334;
  pdu.exp_stat_sn = 0x41424344;
  for (size_t i = 0; i < 16; ++i) {
    pdu.cdb[i] = static_cast<uint8_t>(0x80 + i);
  }
  ExpectGolden(pdu,
               "41a30000 00000000 00010203 04050607 11121314 21222324"
               "31323334 41424344 80818283 84858687 88898a8b 8c8d8e8f",
               "8018ffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 00000000 00000000 00000000 00000000");
}

TEST(PduGoldenTest, ScsiCommandRead) {
  ScsiCommandPdu pdu;
  pdu.read = true;
  pdu.attribute = TaskAttribute::kSimple;
  EXPECT_EQ(ToHex(EncodeToBhs(pdu)).substr(0, 8), "01c10000");
}

TEST(PduGoldenTest, ScsiResponse) {
  ScsiResponsePdu pdu;
  pdu.bidi_read_overflow = true;
  pdu.underflow = true;
  pdu.status = 0x02;
  pdu.initiator_task_tag = 0x11121314;
  pdu.snack_tag = 0x21222324;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.exp_data_sn = 0x61626364;
  pdu.bidi_read_residual_count = 0x71727374;
  pdu.residual_count = 0x81828384;
  ExpectGolden(pdu,
               "21920002 00000000 00000000 00000000 11121314 21222324"
               "31323334 41424344 51525354 61626364 71727374 81828384",
               "c0610000 00000000 ffffffff ffffffff 00000000 00000000"
               "00000000 00000000 00000000 00000000 00000000 00000000");
}

TEST(PduGoldenTest, ScsiResponseTheOtherFlags) {
  ScsiResponsePdu pdu;
  pdu.bidi_read_underflow = true;
  pdu.overflow = true;
  EXPECT_EQ(ToHex(EncodeToBhs(pdu)).substr(0, 8), "218c0000");
  ScsiResponsePdu decoded;
  EXPECT_TRUE(Decode(EncodeToBhs(pdu).data(), &decoded).ok());
  EXPECT_TRUE(decoded.bidi_read_underflow);
  EXPECT_TRUE(decoded.overflow);
  EXPECT_FALSE(decoded.bidi_read_overflow);
  EXPECT_FALSE(decoded.underflow);
}

TEST(PduGoldenTest, TaskManagementRequest) {
  TaskManagementRequestPdu pdu;
  pdu.immediate = true;
  pdu.function = static_cast<uint8_t>(TaskManagementFunction::kAbortTask);
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.referenced_task_tag = 0x21222324;
  pdu.cmd_sn = 0x31323334;
  pdu.exp_stat_sn = 0x41424344;
  pdu.ref_cmd_sn = 0x51525354;
  pdu.exp_data_sn = 0x61626364;
  ExpectGolden(pdu,
               "42810000 00000000 00010203 04050607 11121314 21222324"
               "31323334 41424344 51525354 61626364 00000000 00000000",
               "8000ffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 00000000 00000000 ffffffff ffffffff");
}

TEST(PduGoldenTest, TaskManagementResponse) {
  TaskManagementResponsePdu pdu;
  pdu.response = TaskManagementResponsePdu::kNotSupported;
  pdu.initiator_task_tag = 0x11121314;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  ExpectGolden(pdu,
               "22800500 00000000 00000000 00000000 11121314 00000000"
               "31323334 41424344 51525354 00000000 00000000 00000000",
               "c07f00ff 00000000 ffffffff ffffffff 00000000 ffffffff"
               "00000000 00000000 00000000 ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, ScsiDataOut) {
  ScsiDataOutPdu pdu;
  pdu.final = true;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.target_transfer_tag = 0x21222324;
  pdu.exp_stat_sn = 0x41424344;
  pdu.data_sn = 0x61626364;
  pdu.buffer_offset = 0x71727374;
  ExpectGolden(pdu,
               "05800000 00000000 00010203 04050607 11121314 21222324"
               "00000000 41424344 00000000 61626364 71727374 00000000",
               "c07fffff 00000000 00000000 00000000 00000000 00000000"
               "ffffffff 00000000 ffffffff 00000000 00000000 ffffffff");
}

TEST(PduGoldenTest, ScsiDataIn) {
  ScsiDataInPdu pdu;
  pdu.final = true;
  pdu.acknowledge = true;
  pdu.underflow = true;
  pdu.has_status = true;
  pdu.status = 0x04;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.target_transfer_tag = 0x21222324;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.data_sn = 0x61626364;
  pdu.buffer_offset = 0x71727374;
  pdu.residual_count = 0x81828384;
  ExpectGolden(pdu,
               "25c30004 00000000 00010203 04050607 11121314 21222324"
               "31323334 41424344 51525354 61626364 71727374 81828384",
               "c038ff00 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 00000000 00000000 00000000 00000000");
}

TEST(PduGoldenTest, ScsiDataInWithoutStatusIgnoresResidualFlags) {
  const Bhs bhs = FromHex(
      "25860000 00000000 00000000 00000000 11121314 ffffffff"
      "00000000 41424344 51525354 00000001 00000200 00000000");
  ScsiDataInPdu pdu;
  ASSERT_TRUE(Decode(bhs.data(), &pdu).ok());
  EXPECT_FALSE(pdu.has_status);
  EXPECT_FALSE(pdu.overflow);
  EXPECT_FALSE(pdu.underflow);
  EXPECT_EQ(pdu.data_sn, 1u);
  EXPECT_EQ(pdu.buffer_offset, 512u);
}

TEST(PduGoldenTest, R2t) {
  R2tPdu pdu;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.target_transfer_tag = 0x21222324;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.r2t_sn = 0x61626364;
  pdu.buffer_offset = 0x71727374;
  pdu.desired_data_transfer_length = 0x81828384;
  ExpectGolden(pdu,
               "31800000 00000000 00010203 04050607 11121314 21222324"
               "31323334 41424344 51525354 61626364 71727374 81828384",
               "c07fffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 00000000 00000000 00000000 00000000");
}

TEST(PduGoldenTest, AsyncMessage) {
  AsyncMessagePdu pdu;
  pdu.lun = 0x0001020304050607;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.async_event = AsyncMessagePdu::kLogoutRequested;
  pdu.async_vcode = 0x62;
  pdu.parameter1 = 0x6364;
  pdu.parameter2 = 0x7172;
  pdu.parameter3 = 0x7374;
  ExpectGolden(pdu,
               "32800000 00000000 00010203 04050607 ffffffff 00000000"
               "31323334 41424344 51525354 01626364 71727374 00000000",
               "c07fffff 00000000 00000000 00000000 ffffffff ffffffff"
               "00000000 00000000 00000000 00000000 00000000 ffffffff");
}

TEST(PduGoldenTest, TextRequest) {
  TextRequestPdu pdu;
  pdu.immediate = true;
  pdu.final = false;
  pdu.continue_ = true;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.target_transfer_tag = 0x21222324;
  pdu.cmd_sn = 0x31323334;
  pdu.exp_stat_sn = 0x41424344;
  ExpectGolden(pdu,
               "44400000 00000000 00010203 04050607 11121314 21222324"
               "31323334 41424344 00000000 00000000 00000000 00000000",
               "803fffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 ffffffff ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, TextResponse) {
  TextResponsePdu pdu;
  pdu.final = true;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.target_transfer_tag = kReservedTag;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  ExpectGolden(pdu,
               "24800000 00000000 00010203 04050607 11121314 ffffffff"
               "31323334 41424344 51525354 00000000 00000000 00000000",
               "c03fffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 00000000 ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, LoginRequest) {
  LoginRequestPdu pdu;
  pdu.transit = true;
  pdu.csg = LoginStage::kOperational;
  pdu.nsg = LoginStage::kFullFeature;
  pdu.version_max = 0x12;
  pdu.version_min = 0x34;
  pdu.isid = {0x80, 0x01, 0x02, 0x03, 0x04, 0x05};
  pdu.tsih = 0x0607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.cid = 0x2122;
  pdu.cmd_sn = 0x31323334;
  pdu.exp_stat_sn = 0x41424344;
  // The I bit is fixed: a login request is immediate whatever it says.
  ExpectGolden(pdu,
               "43871234 00000000 80010203 04050607 11121314 21220000"
               "31323334 41424344 00000000 00000000 00000000 00000000",
               "c0300000 00000000 00000000 00000000 00000000 0000ffff"
               "00000000 00000000 ffffffff ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, LoginRequestWithoutTransitIgnoresTheNextStage) {
  LoginRequestPdu pdu;
  pdu.continue_ = true;
  pdu.csg = LoginStage::kOperational;
  pdu.nsg = LoginStage::kFullFeature;
  pdu.initiator_task_tag = 0x11121314;
  const Bhs bhs = EncodeToBhs(pdu);
  EXPECT_EQ(bhs[1], 0x44);
  EXPECT_EQ(IgnoredBits<LoginRequestPdu>(bhs)[1], 0x33);
}

TEST(PduGoldenTest, LoginResponse) {
  LoginResponsePdu pdu;
  pdu.transit = true;
  pdu.csg = LoginStage::kSecurity;
  pdu.nsg = LoginStage::kOperational;
  pdu.version_max = 0x12;
  pdu.version_active = 0x34;
  pdu.isid = {0x80, 0x01, 0x02, 0x03, 0x04, 0x05};
  pdu.tsih = 0x0607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.status_detail = 0x62;
  ExpectGolden(pdu,
               "23811234 00000000 80010203 04050607 11121314 00000000"
               "31323334 41424344 51525354 00620000 00000000 00000000",
               "c0300000 00000000 00000000 00000000 00000000 ffffffff"
               "00000000 00000000 00000000 0000ffff ffffffff ffffffff");
}

TEST(PduGoldenTest, LoginRejectIgnoresTheStages) {
  const Bhs bhs = FromHex(
      "23fb0000 00000000 80010203 04050000 11121314 00000000"
      "31323334 41424344 51525354 02070000 00000000 00000000");
  LoginResponsePdu pdu;
  ASSERT_TRUE(Decode(bhs.data(), &pdu).ok());
  EXPECT_EQ(pdu.status_class, 2);
  EXPECT_EQ(pdu.status_detail, 7);
  EXPECT_FALSE(pdu.transit);
  EXPECT_FALSE(pdu.continue_);
}

TEST(PduGoldenTest, LogoutRequest) {
  LogoutRequestPdu pdu;
  pdu.immediate = true;
  pdu.reason = LogoutRequestPdu::kCloseConnection;
  pdu.initiator_task_tag = 0x11121314;
  pdu.cid = 0x2122;
  pdu.cmd_sn = 0x31323334;
  pdu.exp_stat_sn = 0x41424344;
  ExpectGolden(pdu,
               "46810000 00000000 00000000 00000000 11121314 21220000"
               "31323334 41424344 00000000 00000000 00000000 00000000",
               "8000ffff 00000000 ffffffff ffffffff 00000000 0000ffff"
               "00000000 00000000 ffffffff ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, LogoutResponse) {
  LogoutResponsePdu pdu;
  pdu.response = LogoutResponsePdu::kRecoveryNotSupported;
  pdu.initiator_task_tag = 0x11121314;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.time2wait = 0x7172;
  pdu.time2retain = 0x7374;
  ExpectGolden(pdu,
               "26800200 00000000 00000000 00000000 11121314 00000000"
               "31323334 41424344 51525354 00000000 71727374 00000000",
               "c07f00ff 00000000 ffffffff ffffffff 00000000 ffffffff"
               "00000000 00000000 00000000 ffffffff 00000000 ffffffff");
}

TEST(PduGoldenTest, SnackRequest) {
  SnackRequestPdu pdu;
  pdu.type = SnackRequestPdu::kDataOrR2t;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = 0x11121314;
  pdu.target_transfer_tag = kReservedTag;
  pdu.exp_stat_sn = 0x41424344;
  pdu.beg_run = 0x71727374;
  pdu.run_length = 0x81828384;
  ExpectGolden(pdu,
               "10800000 00000000 00010203 04050607 11121314 ffffffff"
               "00000000 41424344 00000000 00000000 71727374 81828384",
               "c070ffff 00000000 00000000 00000000 00000000 00000000"
               "ffffffff 00000000 ffffffff ffffffff 00000000 00000000");
}

TEST(PduGoldenTest, Reject) {
  RejectPdu pdu;
  pdu.reason = RejectPdu::kInvalidPduField;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  pdu.data_sn_or_r2t_sn = 0x61626364;
  ExpectGolden(pdu,
               "3f800900 00000000 00000000 00000000 ffffffff 00000000"
               "31323334 41424344 51525354 61626364 00000000 00000000",
               "c07f00ff 00000000 ffffffff ffffffff ffffffff ffffffff"
               "00000000 00000000 00000000 00000000 ffffffff ffffffff");
}

TEST(PduGoldenTest, NopOut) {
  NopOutPdu pdu;
  pdu.immediate = true;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = kReservedTag;
  pdu.target_transfer_tag = 0x21222324;
  pdu.cmd_sn = 0x31323334;
  pdu.exp_stat_sn = 0x41424344;
  ExpectGolden(pdu,
               "40800000 00000000 00010203 04050607 ffffffff 21222324"
               "31323334 41424344 00000000 00000000 00000000 00000000",
               "807fffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 ffffffff ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, NopIn) {
  NopInPdu pdu;
  pdu.lun = 0x0001020304050607;
  pdu.initiator_task_tag = kReservedTag;
  pdu.target_transfer_tag = 0x21222324;
  pdu.stat_sn = 0x31323334;
  pdu.exp_cmd_sn = 0x41424344;
  pdu.max_cmd_sn = 0x51525354;
  ExpectGolden(pdu,
               "20800000 00000000 00010203 04050607 ffffffff 21222324"
               "31323334 41424344 51525354 00000000 00000000 00000000",
               "c07fffff 00000000 00000000 00000000 00000000 00000000"
               "00000000 00000000 00000000 ffffffff ffffffff ffffffff");
}

TEST(PduGoldenTest, Frame) {
  Bhs bhs = FromHex(
      "41a30000 00000000 00010203 04050607 11121314 21222324"
      "31323334 41424344 80818283 84858687 88898a8b 8c8d8e8f");
  EncodeLengths(bhs.data(), 12, 0x0a0b0c);
  EXPECT_EQ(ToHex(bhs).substr(8, 8), "030a0b0c");
  const BhsFrame frame = DecodeFrame(bhs.data());
  EXPECT_EQ(frame.opcode, 0x01);
  EXPECT_TRUE(frame.immediate);
  EXPECT_TRUE(frame.final);
  EXPECT_EQ(frame.ahs_bytes, 12u);
  EXPECT_EQ(frame.data_segment_length, 0x0a0b0cu);
  EXPECT_EQ(frame.initiator_task_tag, 0x11121314u);
}

TEST(PduGoldenTest, FrameOfTheLargestLengths) {
  Bhs bhs = {};
  EncodeLengths(bhs.data(), kMaxAhsBytes, kMaxDataSegmentLength);
  const BhsFrame frame = DecodeFrame(bhs.data());
  EXPECT_EQ(frame.ahs_bytes, 1020u);
  EXPECT_EQ(frame.data_segment_length, 0xffffffu);
  EXPECT_FALSE(frame.immediate);
  EXPECT_FALSE(frame.final);
}

TEST(PduGoldenTest, Padding) {
  EXPECT_EQ(PaddingFor(0), 0u);
  EXPECT_EQ(PaddingFor(1), 3u);
  EXPECT_EQ(PaddingFor(2), 2u);
  EXPECT_EQ(PaddingFor(3), 1u);
  EXPECT_EQ(PaddingFor(kMaxDataSegmentLength), 1u);
}

}  // namespace
}  // namespace skiff::protocol
