#ifndef SKIFF_TESTING_STACK_ISER_RAW_INITIATOR_TEST_UTIL_H_
#define SKIFF_TESTING_STACK_ISER_RAW_INITIATOR_TEST_UTIL_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/iser_raw_peer.h"

namespace skiff::protocol {

// A target with one ordinary session, and a second initiator that is the test,
// message by message. The parameter says whether over iWARP or InfiniBand.
class RawInitiatorTest : public ::testing::TestWithParam<bool> {
 protected:
  RawInitiatorTest()
      : RawInitiatorTest(GetParam() ? testing::SimRdmaOptions::Iwarp()
                                    : testing::SimRdmaOptions::InfiniBand(),
                         {}, MakeRamTarget()) {}
  RawInitiatorTest(const testing::SimRdmaOptions& fabric,
                   const TargetServerOptions& server,
                   std::shared_ptr<scsi::Target> target)
      : stack_(1, 1, fabric), peer_(&stack_.world) {
    stack_.StopServer();
    stack_.target = std::move(target);
    stack_.server_options = server;
    stack_.server_options.log = [this](LogLevel, absl::string_view line) {
      log_.emplace_back(line);
    };
    stack_.StartServer();
    // The session that must not notice.
    stack_.LogIn();
    TestCommand ready(scsi::cdb::TestUnitReady(), 0);
    stack_.Run(&ready.command);  // The unit attention of a new nexus.
    TestCommand fill(scsi::cdb::Write(0, kFilled), 0,
                     std::string(kFilled * kBlock, 'm'));
    stack_.Run(&fill.command);
    EXPECT_EQ(fill.command.status, 0);
    peer_.Connect(*stack_.registry.Find("sim"),
                  stack_.world.AddReactor("attacker"), stack_.portal);
  }

  static std::string LoginRequest(const std::string& keys) {
    LoginRequestPdu login;
    login.transit = true;
    login.csg = LoginStage::kOperational;
    login.nsg = LoginStage::kFullFeature;
    login.isid = {0x80, 9, 9, 9, 9, 9};
    login.initiator_task_tag = 1;
    login.cmd_sn = 1;
    const std::string text = absl::StrCat(
        "InitiatorName=iqn.2001-04.com.example:attacker|TargetName=",
        kTargetName, "|RDMAExtensions=Yes|", keys);
    return ToIser(
        login, absl::StrReplaceAll(text, {{"|", absl::string_view("\0", 1)}}));
  }
  // Ends in full feature phase, in which nothing was sent yet.
  void Negotiate(const std::string& keys) {
    peer_.Send(LoginRequest(keys));
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    LoginResponsePdu response;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &response).ok());
    ASSERT_EQ(response.status_class, 0) << absl::StrJoin(log_, "\n");
    ASSERT_TRUE(response.transit);
  }
  void LogIn(const std::string& keys = "InitialR2T=Yes|ImmediateData=Yes|") {
    ASSERT_NO_FATAL_FAILURE(Negotiate(keys));
    // The unit attention of a new nexus.
    ScsiCommandPdu ready = Command(0, 0);
    peer_.Send(ToIser(ready));
    ASSERT_TRUE(peer_.Next().has_value());
  }

  ScsiCommandPdu Command(uint32_t read, uint32_t write) {
    ScsiCommandPdu pdu;
    pdu.read = read > 0;
    pdu.write = write > 0;
    written_ = std::max<size_t>(written_, write);
    pdu.initiator_task_tag = ++tag_;
    pdu.expected_data_transfer_length = read + write;
    pdu.cmd_sn = cmd_sn_++;
    const scsi::Cdb cdb = read > 0    ? scsi::cdb::Read(0, read / kBlock)
                          : write > 0 ? scsi::cdb::Write(0, write / kBlock)
                                      : scsi::cdb::TestUnitReady();
    std::copy_n(cdb.bytes.begin(), 16, pdu.cdb.begin());
    return pdu;
  }
  static IserControlHeader Reading(transport::RemoteBuffer from) {
    IserControlHeader header;
    header.write_stag_valid = true;
    header.write_stag = static_cast<uint32_t>(from.key.value);
    header.write_base_offset = from.address;
    return header;
  }
  static IserControlHeader Writing(transport::RemoteBuffer to) {
    IserControlHeader header;
    header.read_stag_valid = true;
    header.read_stag = static_cast<uint32_t>(to.key.value);
    header.read_base_offset = to.address;
    return header;
  }
  std::unique_ptr<RawIserPeer::Memory> Buffer(size_t size,
                                              transport::Access access) {
    return std::make_unique<RawIserPeer::Memory>(peer_.endpoint()->domain(),
                                                 size, access);
  }

  // The next answer is CHECK CONDITION, ABORTED COMMAND, with these codes.
  void ExpectAbortedCommand(uint8_t asc, uint8_t ascq) {
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    ScsiResponsePdu response;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &response).ok());
    EXPECT_EQ(response.initiator_task_tag, tag_);
    EXPECT_EQ(response.status, 2);
    // SenseLength, and fixed format sense.
    ASSERT_GE(answer->size(), kIserControlSize + 2 + 18);
    const absl::string_view sense =
        absl::string_view(*answer).substr(kIserControlSize + 2);
    EXPECT_EQ(sense[2], 0x0b);
    EXPECT_EQ(static_cast<uint8_t>(sense[12]), asc);
    EXPECT_EQ(static_cast<uint8_t>(sense[13]), ascq);
  }
  // The connection goes on, and its next command is carried out.
  void ExpectStillServed() {
    peer_.Send(ToIser(Command(0, 0)));
    const std::optional<std::string> answer = peer_.Next();
    ASSERT_TRUE(answer.has_value()) << absl::StrJoin(log_, "\n");
    ScsiResponsePdu response;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*answer), &response).ok());
    EXPECT_EQ(response.initiator_task_tag, tag_);
    EXPECT_EQ(response.status, 0);
  }
  // It is gone, the log says why, and everybody else is fine.
  void ExpectClosed(const std::string& why) {
    EXPECT_TRUE(peer_.Closed());
    // The target may hear of it later.
    stack_.world.RunFor(absl::Milliseconds(100));
    EXPECT_THAT(log_, ::testing::Contains(::testing::HasSubstr(why)));
    ExpectServes();
  }
  // The medium, which has no guard pages, is as it was behind what the test's
  // commands may write.
  void ExpectServes() {
    TestCommand read(scsi::cdb::Read(0, kFilled), kFilled * kBlock);
    stack_.initiator->Submit(&read.command);
    EXPECT_TRUE(stack_.RunUntil([&] { return read.finished; }));
    EXPECT_EQ(read.command.outcome, scsi::Command::Outcome::kCompleted);
    EXPECT_EQ(read.buffer.find_first_not_of('m', written_), std::string::npos);
    EXPECT_EQ(stack_.initiator->stats().reconnects, 0u);
  }

  static constexpr uint32_t kFilled = 64;  // Blocks of the medium.

  std::vector<std::string> log_;
  SimStack stack_;
  RawIserPeer peer_;
  uint32_t tag_ = 100;
  uint32_t cmd_sn_ = 1;
  size_t written_ = 0;  // Bytes that commands may have written, from 0 on.
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_ISER_RAW_INITIATOR_TEST_UTIL_H_
