// Messages that are longer than their receiver said, in both roles: data
// segments beyond what login allows and what was negotiated, and messages that
// do not fit a receive.

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/iser_raw_initiator_test_util.h"
#include "testing/stack/iser_raw_target_test_util.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kLimit = 512;  // What the tests negotiate.
constexpr size_t kReceive = 8576;
constexpr char kBeyondTheReceive[] =
    "receive failed: the message was longer than the receive";

std::string FabricName(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Iwarp" : "InfiniBand";
}

std::string TooMuch(const std::string& pdu, size_t size,
                    const std::string& limit) {
  return absl::StrCat(pdu, " with a data segment of ", size, " bytes; ", limit);
}

// --- A target of ours.

class LengthsAtTargetTest : public RawInitiatorTest {
 protected:
  void LogIn() {
    RawInitiatorTest::LogIn(
        absl::StrCat("InitialR2T=No|ImmediateData=Yes|"
                     "TargetRecvDataSegmentLength=",
                     kLimit, "|"));
  }
  std::string Ping(size_t size) {
    NopOutPdu nop;
    nop.immediate = true;
    nop.initiator_task_tag = ++tag_;
    nop.cmd_sn = cmd_sn_;
    return ToIser(nop, std::string(size, 'p'));
  }
  // One byte more than negotiated ends the connection.
  template <typename Pdu>
  void ExpectTooMuchIn(const Pdu& pdu, const std::string& name) {
    peer_.Send(ToIser(pdu, std::string(kLimit + 1, 'x')));
    ExpectClosed(TooMuch(name, kLimit + 1, "TargetRecvDataSegmentLength=512"));
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LengthsAtTargetTest, ::testing::Bool(),
                         FabricName);

TEST_P(LengthsAtTargetTest, WhatWasNegotiatedIsTaken) {
  LogIn();
  peer_.Send(ToIser(Command(0, kLimit), std::string(kLimit, 'i')));
  ASSERT_TRUE(peer_.Next().has_value());
  peer_.Send(Ping(kLimit));
  ASSERT_TRUE(peer_.Next().has_value());
  // Padding does not count.
  peer_.Send(Ping(kLimit - 1) + std::string(3, '\0'));
  ASSERT_TRUE(peer_.Next().has_value());
  EXPECT_TRUE(peer_.connected());
  ExpectServes();
}

TEST_P(LengthsAtTargetTest, MoreImmediateData) {
  LogIn();
  ExpectTooMuchIn(Command(0, 2 * kLimit), "SCSI Command");
}

TEST_P(LengthsAtTargetTest, MoreUnsolicitedData) {
  LogIn();
  ScsiDataOutPdu data;
  data.final = true;
  data.initiator_task_tag = 5;
  data.target_transfer_tag = kReservedTag;
  ExpectTooMuchIn(data, "SCSI Data-Out");
}

TEST_P(LengthsAtTargetTest, MoreText) {
  LogIn();
  TextRequestPdu text;
  text.final = text.immediate = true;
  text.initiator_task_tag = 5;
  text.target_transfer_tag = kReservedTag;
  text.cmd_sn = cmd_sn_;
  ExpectTooMuchIn(text, "Text Request");
}

TEST_P(LengthsAtTargetTest, MorePingData) {
  LogIn();
  peer_.Send(Ping(kLimit + 1));
  ExpectClosed(
      TooMuch("NOP-Out", kLimit + 1, "TargetRecvDataSegmentLength=512"));
}

// Who says nothing of it gets the default.
TEST_P(LengthsAtTargetTest, MoreThanTheDefault) {
  RawInitiatorTest::LogIn();
  peer_.Send(Ping(8192));
  ASSERT_TRUE(peer_.Next().has_value());
  peer_.Send(Ping(8193));
  ExpectClosed(TooMuch("NOP-Out", 8193, "TargetRecvDataSegmentLength=8192"));
}

TEST_P(LengthsAtTargetTest, MoreThanLoginAllows) {
  std::string keys;
  while (LoginRequest(keys).size() < kIserControlSize + 8193) keys += 'x';
  peer_.Send(LoginRequest(keys));
  ExpectClosed(TooMuch("Login Request", 8193, "MaxRecvDataSegmentLength=8192"));
}

TEST_P(LengthsAtTargetTest, BeyondTheReceiveInLogin) {
  peer_.Send(std::string(kReceive + 1, '\x10'));
  ExpectClosed(kBeyondTheReceive);
}

TEST_P(LengthsAtTargetTest, BeyondTheReceive) {
  LogIn();
  peer_.Send(Ping(kReceive + 1 - kIserControlSize));
  ExpectClosed(kBeyondTheReceive);
}

// --- An initiator of ours.

class LengthsAtInitiatorTest : public RawTargetTest {
 protected:
  LengthsAtInitiatorTest() {
    offer_.initiator_recv_data_segment_length = kLimit;
  }
  std::string Ping(size_t size) {
    NopInPdu nop;
    nop.stat_sn = stat_sn_;
    nop.exp_cmd_sn = pdu_.cmd_sn + 1;
    nop.max_cmd_sn = pdu_.cmd_sn + 10;
    return ToIser(nop, std::string(size, 'p'));
  }
  ScsiResponsePdu CheckCondition() {
    ScsiResponsePdu response = Good();
    response.status = 2;
    return response;
  }
  // SenseLength and sense data, so many bytes in all.
  static std::string Sense(size_t size) {
    std::string sense(size, '\0');
    sense[0] = static_cast<char>((size - 2) >> 8);
    sense[1] = static_cast<char>(size - 2);
    sense[2] = 0x70;
    sense[4] = 0x05;  // ILLEGAL REQUEST.
    return sense;
  }
  // One byte more than negotiated ends the session.
  template <typename Pdu>
  void ExpectTooMuchIn(const Pdu& pdu, const std::string& data,
                       const std::string& name) {
    peer_.Send(ToIser(pdu, data));
    ExpectLost(TooMuch(name, kLimit + 1, "InitiatorRecvDataSegmentLength=512"));
    EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LengthsAtInitiatorTest, ::testing::Bool(),
                         FabricName);

TEST_P(LengthsAtInitiatorTest, WhatWasNegotiatedIsTaken) {
  LogIn();
  Submit();
  peer_.Send(ToIser(CheckCondition(), Sense(kLimit)));
  EXPECT_TRUE(stack_.RunUntil([this] { return finished_; }));
  EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kCompleted);
  EXPECT_EQ(command_.status, 2);
  EXPECT_TRUE(stack_.initiator->connected());
}

// Linux's target pads, and does not count that.
TEST_P(LengthsAtInitiatorTest, PaddingDoesNotCount) {
  LogIn();
  Submit();
  peer_.Send(ToIser(CheckCondition(), Sense(kLimit - 1)) +
             std::string(3, '\0'));
  EXPECT_TRUE(stack_.RunUntil([this] { return finished_; }));
  EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kCompleted);
  EXPECT_TRUE(stack_.initiator->connected());
}

TEST_P(LengthsAtInitiatorTest, MoreSense) {
  LogIn();
  Submit();
  ExpectTooMuchIn(CheckCondition(), Sense(kLimit + 1), "SCSI Response");
}

TEST_P(LengthsAtInitiatorTest, MoreOfARejectedPdu) {
  LogIn();
  Submit();
  RejectPdu reject;
  reject.stat_sn = stat_sn_;
  ExpectTooMuchIn(reject, std::string(kLimit + 1, 'x'), "Reject");
}

TEST_P(LengthsAtInitiatorTest, MoreText) {
  LogIn();
  Submit();
  TextResponsePdu text;
  text.final = true;
  text.stat_sn = stat_sn_;
  ExpectTooMuchIn(text, std::string(kLimit + 1, 'x'), "Text Response");
}

TEST_P(LengthsAtInitiatorTest, MoreOfAnEvent) {
  LogIn();
  Submit();
  AsyncMessagePdu event;
  event.stat_sn = stat_sn_;
  ExpectTooMuchIn(event, std::string(kLimit + 1, 'x'), "Asynchronous Message");
}

TEST_P(LengthsAtInitiatorTest, MorePingData) {
  LogIn();
  Submit();
  peer_.Send(Ping(kLimit + 1));
  ExpectLost(
      TooMuch("NOP-In", kLimit + 1, "InitiatorRecvDataSegmentLength=512"));
}

TEST_P(LengthsAtInitiatorTest, MoreThanTheDefault) {
  offer_ = IserOffer();
  LogIn();
  Submit();
  peer_.Send(ToIser(CheckCondition(), Sense(8192)));
  ASSERT_TRUE(stack_.RunUntil([this] { return finished_; }));
  EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kCompleted);
  Submit();
  peer_.Send(ToIser(CheckCondition(), Sense(8193)));
  ExpectLost(
      TooMuch("SCSI Response", 8193, "InitiatorRecvDataSegmentLength=8192"));
}

TEST_P(LengthsAtInitiatorTest, MoreThanLoginAllows) {
  Connect();
  stack_.RunUntil([this] { return peer_.endpoint() != nullptr; });
  ASSERT_TRUE(peer_.Next().has_value());
  peer_.Send(ToIser(LoginResponsePdu(), std::string(8193, 'x')));
  ExpectRefused(
      TooMuch("Login Response", 8193, "MaxRecvDataSegmentLength=8192"));
}

TEST_P(LengthsAtInitiatorTest, BeyondTheReceiveInLogin) {
  Connect();
  stack_.RunUntil([this] { return peer_.endpoint() != nullptr; });
  ASSERT_TRUE(peer_.Next().has_value());
  peer_.Send(std::string(kReceive + 1, '\x10'));
  ExpectRefused(kBeyondTheReceive);
}

TEST_P(LengthsAtInitiatorTest, BeyondTheReceive) {
  LogIn();
  Submit();
  peer_.Send(Ping(kReceive + 1 - kIserControlSize));
  ExpectLost(kBeyondTheReceive);
  EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
}

}  // namespace
}  // namespace skiff::protocol
