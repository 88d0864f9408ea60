#ifndef SKIFF_TESTING_STACK_ISER_RAW_TARGET_TEST_UTIL_H_
#define SKIFF_TESTING_STACK_ISER_RAW_TARGET_TEST_UTIL_H_

#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/sim/guard_pages.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/iser_raw_login.h"
#include "testing/stack/iser_raw_peer.h"

namespace skiff::protocol {

// An initiator whose target is the test, message by message. The parameter says
// whether over iWARP or InfiniBand.
class RawTargetTest : public ::testing::TestWithParam<bool> {
 protected:
  // Whole pages, so that nobody may touch the next byte at either end.
  static constexpr size_t kBytes = 8192;
  static constexpr char kPortal[] = "sim://hostile:3260?kind=rdma";
  static constexpr char kUntouched = '\xa5';

  RawTargetTest()
      : RawTargetTest(GetParam() ? testing::SimRdmaOptions::Iwarp()
                                 : testing::SimRdmaOptions::InfiniBand()) {}
  explicit RawTargetTest(const testing::SimRdmaOptions& fabric)
      : stack_(1, 1, fabric), peer_(&stack_.world), memory_(kBytes) {
    memory_.Use(kBytes, kUntouched);
    peer_.AcceptAt(*stack_.registry.Find("sim"),
                   stack_.world.AddReactor("hostile"), kPortal);
  }

  // Starts an initiator, which is accepted when the world goes on.
  void Connect() {
    InitiatorOptions options = stack_.Options();
    options.portal = transport::Address::Parse(kPortal).value();
    options.reconnect.replacement_timeout = replacement_timeout_;
    options.connect.send_queue = send_queue_;
    options.offer.iser = offer_;
    stack_.Connect(options);
  }
  // An initiator in full feature phase with one command at the target, which
  // answers nothing by itself.
  void LogIn() {
    Connect();
    ASSERT_NO_FATAL_FAILURE(AnswerLogin());
    ASSERT_TRUE(stack_.RunUntil([this] { return stack_.ready().has_value(); }));
    ASSERT_TRUE(stack_.ready()->ok()) << *stack_.ready();
  }
  // What the target does, for the first session or one that is restored.
  void AnswerLogin() {
    while (!login_.done()) {
      stack_.RunUntil([this] { return peer_.endpoint() != nullptr; });
      const std::optional<std::string> message = peer_.Next();
      ASSERT_TRUE(message.has_value());
      peer_.Send(login_.Answer(*message, stat_sn_++));
      stack_.world.RunFor(absl::Milliseconds(1));
      ASSERT_EQ(login_.failure(), "");
    }
  }

  // A read into `memory_`.
  void Submit() {
    iov_ = {memory_.data(), kBytes};
    SetCdb(scsi::cdb::Read(0, 16), &command_);
    command_.data_in = &iov_;
    command_.data_in_count = 1;
    command_.data_in_length = kBytes;
    command_.context = this;
    command_.done = [](scsi::Command* done) {
      static_cast<RawTargetTest*>(done->context)->finished_ = true;
    };
    finished_ = false;
    stack_.initiator->Submit(&command_);
    Take();
  }
  // The read, as the target sees it.
  void Take() {
    const std::optional<std::string> message = peer_.Next();
    ASSERT_TRUE(message.has_value());
    ASSERT_TRUE(DecodeIserMessage(Bytes(*message), &seen_).ok());
    ASSERT_TRUE(seen_.control.read_stag_valid);
    EXPECT_FALSE(seen_.control.write_stag_valid);
    header_ = seen_.control;
    ASSERT_TRUE(Decode(seen_.bhs, &pdu_).ok());
  }
  ScsiResponsePdu Good() {
    ScsiResponsePdu response;
    response.initiator_task_tag = pdu_.initiator_task_tag;
    response.stat_sn = stat_sn_++;
    response.exp_cmd_sn = pdu_.cmd_sn + 1;
    response.max_cmd_sn = pdu_.cmd_sn + 10;
    return response;
  }
  transport::RemoteBuffer Remote(uint64_t offset = 0) const {
    return {header_.read_base_offset + offset, {header_.read_stag}};
  }

  // A read, which the target serves, ends well.
  void ExpectReads() {
    ASSERT_NO_FATAL_FAILURE(Submit());
    peer_.Write(std::string(kBytes, 'd'), Remote());
    peer_.Send(ToIser(Good()));
    EXPECT_TRUE(stack_.RunUntil([this] { return finished_; }));
    EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kCompleted);
    EXPECT_EQ(memory_.view(), std::string(kBytes, 'd'));
  }
  // It never gets into full feature phase, and says why.
  void ExpectRefused(const std::string& why) {
    ASSERT_TRUE(stack_.RunUntil([this] { return stack_.ready().has_value(); }));
    EXPECT_THAT(stack_.ready()->message(), ::testing::HasSubstr(why));
  }
  void ExpectLost(const std::string& why) {
    EXPECT_TRUE(stack_.RunUntil(
        [this] { return !stack_.initiator->connected(); }, absl::Seconds(10)));
    const std::string log = absl::StrJoin(stack_.log, "\n");
    EXPECT_THAT(log, ::testing::HasSubstr(why));
    EXPECT_TRUE(stack_.RunUntil([this] { return finished_; }));
  }

  // It breaks the protocol, which ends the command in flight and leaves its
  // memory alone. Once it behaves, the session is restored and does as before.
  // Needs a `replacement_timeout_`.
  void ExpectLostAndRestored(const std::string& why) {
    ASSERT_NO_FATAL_FAILURE(ExpectLost(why));
    EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kProtocolError);
    EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
    peer_.AcceptAnother();
    login_.Restart();
    ASSERT_NO_FATAL_FAILURE(AnswerLogin());
    ExpectReads();
    EXPECT_EQ(stack_.initiator->stats().reconnects, 1u);
  }

  SimStack stack_;
  RawIserPeer peer_;
  IserOffer offer_;  // The initiator's.
  absl::Duration replacement_timeout_ = absl::ZeroDuration();
  uint32_t send_queue_ = transport::ConnectOptions().send_queue;
  RawTargetLogin login_;
  uint32_t stat_sn_ = 1;
  // Between guard pages: the simulated network copies into it, so that a byte
  // too many crashes the test.
  testing::GuardPages memory_;
  iovec iov_ = {};
  scsi::Command command_;
  bool finished_ = false;
  IserMessage seen_;
  IserControlHeader header_;
  ScsiCommandPdu pdu_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_STACK_ISER_RAW_TARGET_TEST_UTIL_H_
