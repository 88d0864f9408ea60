#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/codec/pdu.h"
#include "protocol/codec/pdu_test_util.h"

// Every reason for which a header is refused, one at a time: a good header with
// one change.

namespace skiff::protocol {
namespace {

struct Change {
  const char* what;
  size_t offset;
  std::vector<uint8_t> bytes;
  const char* field;
};

const std::vector<uint8_t> kAllOnes = {0xff, 0xff, 0xff, 0xff};
const std::vector<uint8_t> kZeros = {0, 0, 0, 0};

template <typename Pdu>
void ExpectInvalid(const Pdu& good, const std::vector<Change>& changes) {
  const Bhs start = EncodeToBhs(good);
  Pdu pdu;
  const DecodeResult unchanged = Decode(start.data(), &pdu);
  ASSERT_TRUE(unchanged.ok()) << unchanged.field;
  for (const Change& change : changes) {
    Bhs bhs = start;
    std::copy(change.bytes.begin(), change.bytes.end(),
              bhs.begin() + static_cast<ptrdiff_t>(change.offset));
    const DecodeResult result = Decode(bhs.data(), &pdu);
    EXPECT_EQ(result.code, DecodeResult::kInvalidField) << change.what;
    EXPECT_STREQ(result.field, change.field) << change.what;
  }
  // Every other opcode is somebody else's PDU.
  for (uint8_t opcode = 0; opcode < 0x40; ++opcode) {
    if (opcode == (start[0] & 0x3f)) continue;
    Bhs bhs = start;
    bhs[0] = opcode;
    const DecodeResult result = Decode(bhs.data(), &pdu);
    EXPECT_EQ(result.code, DecodeResult::kWrongOpcode) << int{opcode};
    EXPECT_STREQ(result.field, "Opcode");
  }
}

const Change kNoFinal = {"F is 0", 1, {0x00}, "F"};
const Change kAhs = {"AHSs", 4, {0x01}, "TotalAHSLength"};
const Change kData = {"a data segment", 7, {0x01}, "DataSegmentLength"};
const Change kNoTag = {"reserved ITT", 16, kAllOnes, "InitiatorTaskTag"};

TEST(PduRejectTest, ScsiCommand) {
  ScsiCommandPdu good;
  good.read = true;
  good.expected_data_transfer_length = 512;
  ExpectInvalid(
      good,
      {
          {"ATTR 5", 1, {0xc5}, "ATTR"},
          {"ATTR 6", 1, {0xc6}, "ATTR"},
          {"ATTR 7", 1, {0xc7}, "ATTR"},
          {"neither F nor W", 1, {0x41}, "F"},
          {"length without R, W", 1, {0x81}, "ExpectedDataTransferLength"},
          {"R and W without AHS", 1, {0xe1}, "TotalAHSLength"},
          kNoTag,
      });
}

TEST(PduRejectTest, ScsiCommandAcceptsWhatTheRulesAllow) {
  ScsiCommandPdu pdu;
  // R and W may be set when nothing is to be transferred.
  pdu.write = true;
  pdu.final = false;
  EXPECT_TRUE(Decode(EncodeToBhs(pdu).data(), &pdu).ok());
  // Both directions, with the AHS that has the read length.
  pdu = ScsiCommandPdu();
  pdu.read = pdu.write = true;
  Bhs bhs = EncodeToBhs(pdu);
  EncodeLengths(bhs.data(), 8, 0);
  EXPECT_TRUE(Decode(bhs.data(), &pdu).ok());
}

TEST(PduRejectTest, ScsiResponse) {
  ExpectInvalid(ScsiResponsePdu(), {
                                       kNoFinal,
                                       kAhs,
                                       kNoTag,
                                       {"response 2", 2, {0x02}, "Response"},
                                       {"response 0x7f", 2, {0x7f}, "Response"},
                                       {"O and U", 1, {0x86}, "U"},
                                       {"o and u", 1, {0x98}, "u"},
                                   });
}

TEST(PduRejectTest, ScsiResponseIgnoresTheFlagsOfATargetFailure) {
  ScsiResponsePdu pdu;
  pdu.response = ScsiResponsePdu::kTargetFailure;
  Bhs bhs = EncodeToBhs(pdu);
  bhs[1] = 0xff;
  ASSERT_TRUE(Decode(bhs.data(), &pdu).ok());
  EXPECT_FALSE(pdu.overflow || pdu.underflow || pdu.bidi_read_overflow ||
               pdu.bidi_read_underflow);
  bhs[2] = 0x80;  // Vendor-specific responses are allowed.
  EXPECT_TRUE(Decode(bhs.data(), &pdu).ok());
}

TEST(PduRejectTest, TaskManagement) {
  TaskManagementRequestPdu request;
  request.function = 1;
  ExpectInvalid(request, {{"F is 0", 1, {0x01}, "F"}, kAhs, kData, kNoTag});
  ExpectInvalid(TaskManagementResponsePdu(), {kNoFinal, kAhs, kData, kNoTag});
}

TEST(PduRejectTest, TaskManagementKeepsUnknownFunctionsAndResponses) {
  TaskManagementRequestPdu request;
  request.function = 0x7f;
  ASSERT_TRUE(Decode(EncodeToBhs(request).data(), &request).ok());
  EXPECT_EQ(request.function, 0x7f);
  TaskManagementResponsePdu response;
  response.response = 99;
  ASSERT_TRUE(Decode(EncodeToBhs(response).data(), &response).ok());
  EXPECT_EQ(response.response, 99);
}

TEST(PduRejectTest, Data) {
  ExpectInvalid(ScsiDataOutPdu(), {kAhs, kNoTag});
  ScsiDataInPdu in;
  in.final = true;
  in.has_status = true;
  ExpectInvalid(in, {
                        kAhs,
                        kNoTag,
                        {"S without F", 1, {0x01}, "S"},
                        {"O and U", 1, {0x87}, "U"},
                    });
}

TEST(PduRejectTest, R2t) {
  R2tPdu good;
  good.target_transfer_tag = 5;
  good.desired_data_transfer_length = 512;
  ExpectInvalid(
      good, {
                kNoFinal,
                kAhs,
                kData,
                kNoTag,
                {"reserved TTT", 20, kAllOnes, "TargetTransferTag"},
                {"asks for nothing", 44, kZeros, "DesiredDataTransferLength"},
            });
}

TEST(PduRejectTest, AsyncMessageAndReject) {
  ExpectInvalid(AsyncMessagePdu(), {kNoFinal, kAhs});
  ExpectInvalid(RejectPdu(), {kNoFinal, kAhs});
}

TEST(PduRejectTest, Text) {
  ExpectInvalid(TextRequestPdu(), {{"C with F", 1, {0xc0}, "C"}, kAhs, kNoTag});
  ExpectInvalid(TextResponsePdu(),
                {
                    {"C with F", 1, {0xc0}, "C"},
                    {"not final, reserved TTT", 1, {0x00}, "TargetTransferTag"},
                    kAhs,
                    kNoTag,
                });
}

TEST(PduRejectTest, LoginRequest) {
  LoginRequestPdu good;
  good.transit = true;
  good.nsg = LoginStage::kOperational;
  ExpectInvalid(good, {
                          {"C with T", 1, {0xc1}, "C"},
                          {"CSG 2", 1, {0x8b}, "CSG"},
                          {"NSG 2", 1, {0x82}, "NSG"},
                          kAhs,
                          kNoTag,
                      });
}

TEST(PduRejectTest, LoginResponse) {
  LoginResponsePdu good;
  good.transit = true;
  good.nsg = LoginStage::kOperational;
  ExpectInvalid(good, {
                          {"C with T", 1, {0xc1}, "C"},
                          {"CSG 2", 1, {0x8b}, "CSG"},
                          {"NSG 2", 1, {0x82}, "NSG"},
                          kAhs,
                      });
}

TEST(PduRejectTest, Logout) {
  ExpectInvalid(LogoutRequestPdu(), {
                                        kNoFinal,
                                        kAhs,
                                        kData,
                                        kNoTag,
                                        {"reason 3", 1, {0x83}, "ReasonCode"},
                                    });
  ExpectInvalid(LogoutResponsePdu(), {kNoFinal, kAhs, kData, kNoTag});
}

TEST(PduRejectTest, Snack) {
  SnackRequestPdu good;
  good.type = SnackRequestPdu::kDataOrR2t;
  ExpectInvalid(good, {
                          kNoFinal,
                          kAhs,
                          kNoTag,
                          {"type 4", 1, {0x84}, "Type"},
                          {"type 15", 1, {0x8f}, "Type"},
                      });
  good.type = SnackRequestPdu::kRData;
  good.target_transfer_tag = 7;
  ExpectInvalid(good, {
                          kNoTag,
                          {"no SNACK tag", 20, kAllOnes, "SNACKTag"},
                          {"SNACK tag 0", 20, kZeros, "SNACKTag"},
                          {"BegRun", 43, {0x01}, "BegRun"},
                          {"RunLength", 47, {0x01}, "RunLength"},
                      });
  good = SnackRequestPdu();
  good.type = SnackRequestPdu::kDataAck;
  good.initiator_task_tag = kReservedTag;
  good.target_transfer_tag = 7;
  good.beg_run = 9;
  ExpectInvalid(good, {
                          {"an ITT", 16, kZeros, "InitiatorTaskTag"},
                          {"RunLength", 47, {0x01}, "RunLength"},
                      });
  good.type = SnackRequestPdu::kStatus;
  good.run_length = 3;
  ExpectInvalid(good, {{"an ITT", 16, kZeros, "InitiatorTaskTag"}});
}

TEST(PduRejectTest, Nop) {
  NopOutPdu out;
  out.immediate = true;
  ExpectInvalid(out, {kNoFinal, kAhs, {"not immediate", 0, {0x00}, "I"}});
  NopInPdu ping;
  ExpectInvalid(ping, {kNoFinal, kAhs, kData});
  NopInPdu answer;
  answer.initiator_task_tag = 3;
  ExpectInvalid(answer, {{"a TTT", 20, kZeros, "TargetTransferTag"}});
}

}  // namespace
}  // namespace skiff::protocol
