// Text Requests at a target: SendTargets, keys, and what is neither.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session/target_session.h"
#include "protocol/session/target_session_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class TargetSessionTextTest : public TargetSessionTest {};

TEST_F(TargetSessionTextTest, SendsTargetsInPiecesThatFit) {
  Start("MaxRecvDataSegmentLength=512|", /*discovery=*/true);
  TextRequestPdu text;
  text.initiator_task_tag = 9;
  text.cmd_sn = cmd_sn_++;
  Send(text, absl::string_view("SendTargets=All\0", 16));
  const auto response = Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_TRUE(response.final);
  EXPECT_EQ(response.target_transfer_tag, kReservedTag);
  EXPECT_THAT(data_, HasSubstr("TargetName=iqn.2026-11.org.example:disk"));
  EXPECT_THAT(data_, HasSubstr("TargetAddress=127.0.0.1:3260,1"));
}

// As at login (section 4.2.7.1).
TEST_F(TargetSessionTextTest, TellsOfATargetByItsNameInAnyCase) {
  for (const bool discovery : {true, false}) {
    Start("", discovery);
    TextRequestPdu text;
    text.initiator_task_tag = 9;
    text.cmd_sn = cmd_sn_++;
    Send(text,
         absl::string_view("SendTargets=IQN.2026-11.ORG.Example:DISK\0", 41));
    Answer<TextResponsePdu>(Opcode::kTextResponse);
    EXPECT_THAT(data_, HasSubstr("TargetName=iqn.2026-11.org.example:disk"));
  }
}

TEST_F(TargetSessionTextTest, TakesANewSegmentLengthAndRefusesOtherKeys) {
  Start();
  TextRequestPdu text;
  text.initiator_task_tag = 9;
  text.cmd_sn = cmd_sn_++;
  Send(text, absl::string_view("MaxRecvDataSegmentLength=512\0", 29));
  Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_EQ(data_, "");
  Send(Transfer(/*write=*/false, 0, 3));
  EXPECT_THAT(harness_->TakePdus(), SizeIs(3));
  text.cmd_sn = cmd_sn_++;
  Send(text,
       absl::string_view(
           "MaxRecvDataSegmentLength=511\0InitialR2T=Yes\0X-none=1\0", 53));
  Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_THAT(data_, HasSubstr("MaxRecvDataSegmentLength=Reject"));
  EXPECT_THAT(data_, HasSubstr("InitialR2T=Reject"));
  EXPECT_THAT(data_, HasSubstr("X-none=NotUnderstood"));
}

TEST_F(TargetSessionTextTest, RefusesHostileText) {
  const std::vector<std::string> texts = {
      "SendTargets", "=All", std::string("SendTargets=All"),
      std::string("\0\0", 2), std::string(70, 'K') + "=1"};
  for (const std::string& body : texts) {
    Start("", /*discovery=*/true);
    TextRequestPdu text;
    text.initiator_task_tag = 9;
    text.cmd_sn = cmd_sn_++;
    Send(text, body);
    EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError) << body;
  }
  // CVE-2021-28361's shape: to be continued, but nothing there.
  Start("", /*discovery=*/true);
  TextRequestPdu text;
  text.final = false;
  text.continue_ = true;
  text.cmd_sn = cmd_sn_++;
  Send(text);
  EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError);
}

// Section 6.4. Each answer is longer than its question, and each key has one.
TEST_F(TargetSessionTextTest, NoKeyIsAnsweredTwiceInOneExchange) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many.append("SendTargets=All\0", 16);
  std::string unknown;
  for (int i = 0; i < 65; ++i) {
    unknown += absl::StrCat("X-", i, "=") + std::string(1, '\0');
  }
  const std::vector<std::string> texts = {
      many, std::string("SendTargets=All\0SendTargets=\0", 29),
      std::string("InitialR2T=No\0InitialR2T=Yes\0", 29), unknown};
  for (const std::string& body : texts) {
    Start("", /*discovery=*/true);
    TextRequestPdu text;
    text.initiator_task_tag = 9;
    text.cmd_sn = cmd_sn_++;
    Send(text, body);
    EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError);
    // It counts for one exchange.
    text.cmd_sn = cmd_sn_++;
    Send(text, absl::string_view("SendTargets=All\0X-1=\0", 21));
    Answer<TextResponsePdu>(Opcode::kTextResponse);
    EXPECT_THAT(data_, HasSubstr("TargetName="));
    EXPECT_THAT(data_, HasSubstr("X-1=NotUnderstood"));
  }
}

// Nor in several requests of one.
TEST_F(TargetSessionTextTest, AKeyThatComesBackInALaterRequestIsRefused) {
  Start("", /*discovery=*/true);
  TextRequestPdu text;
  text.initiator_task_tag = 9;
  text.final = false;
  text.cmd_sn = cmd_sn_++;
  const absl::string_view question("SendTargets=All\0", 16);
  Send(text, question);
  const auto response = Answer<TextResponsePdu>(Opcode::kTextResponse);
  EXPECT_FALSE(response.final);
  EXPECT_THAT(data_, HasSubstr("TargetName="));
  text.target_transfer_tag = response.target_transfer_tag;
  text.cmd_sn = cmd_sn_++;
  Send(text, question);
  EXPECT_EQ(Rejected().reason, RejectPdu::kProtocolError);
}

TEST_F(TargetSessionTextTest, AnAnswerHasALimit) {
  options_.session.max_text_answer_bytes = 20;
  Start("", /*discovery=*/true);
  TextRequestPdu text;
  text.initiator_task_tag = 9;
  text.cmd_sn = cmd_sn_++;
  Send(text, absl::string_view("SendTargets=All\0", 16));
  EXPECT_EQ(Rejected().reason, RejectPdu::kLongOperationReject);
}

}  // namespace
}  // namespace skiff::protocol
