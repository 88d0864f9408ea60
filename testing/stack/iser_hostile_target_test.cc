// An initiator against iSER targets that break the rules: the session is lost
// with a reason, and the caller's memory is not touched once a command is over.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/datamover/datamover.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/iser_raw_target_test_util.h"

namespace skiff::protocol {
namespace {

class HostileTargetTest : public RawTargetTest {
 protected:
  TaskManagementResponsePdu Complete(uint32_t tag) {
    TaskManagementResponsePdu response;
    response.initiator_task_tag = tag;
    response.stat_sn = stat_sn_++;
    response.exp_cmd_sn = pdu_.cmd_sn + 1;
    response.max_cmd_sn = pdu_.cmd_sn + 10;
    return response;
  }
  // Aborts the command and is told that it was.
  void AbortIt() {
    stack_.initiator->Abort(&command_);
    const std::optional<std::string> message = peer_.Next();
    ASSERT_TRUE(message.has_value());
    TaskManagementRequestPdu request;
    ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*message), &request).ok());
    peer_.Send(ToIser(Complete(request.initiator_task_tag)));
    ASSERT_TRUE(stack_.RunUntil([this] { return finished_; }));
    EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kAborted);
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, HostileTargetTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Iwarp" : "InfiniBand";
                         });

TEST_P(HostileTargetTest, AnHonestOneIsBelieved) {
  LogIn();
  Submit();
  peer_.Write(std::string(kBytes, 'd'), Remote());
  peer_.Send(ToIser(Good()), header_.read_stag);
  EXPECT_TRUE(stack_.RunUntil([this] { return finished_; }));
  EXPECT_EQ(command_.outcome, scsi::Command::Outcome::kCompleted);
  EXPECT_EQ(memory_.view(), std::string(kBytes, 'd'));
}

TEST_P(HostileTargetTest, AcceptsWithPrivateDataThatAreNotIsers) {
  peer_.SetPrivateData({0x80, 0});
  Connect();
  ExpectRefused("private data is 2 bytes; iSER's is 4");
}

TEST_P(HostileTargetTest, AnswersALoginWithAMessageThatIsTooShort) {
  for (const size_t size : {0, 27, 28, 75}) {
    SCOPED_TRACE(size);
    Connect();
    stack_.RunUntil([this] { return peer_.endpoint() != nullptr; });
    ASSERT_TRUE(peer_.Next().has_value());
    peer_.Send(ToIser(LoginResponsePdu()).substr(0, size));
    ExpectRefused(absl::StrCat("iSER message of ", size, " bytes"));
    EXPECT_TRUE(peer_.Closed());
    peer_.AcceptAnother();
  }
}

TEST_P(HostileTargetTest, KeysEndWithTheirCommands) {
  for (const bool remotely : {false, true}) {
    SCOPED_TRACE(remotely);
    if (!stack_.ready().has_value()) LogIn();
    Submit();
    if (remotely) {
      peer_.Send(ToIser(Good()), header_.read_stag);
    } else {
      peer_.Send(ToIser(Good()));
    }
    ASSERT_TRUE(stack_.RunUntil([this] { return finished_; }));
    memory_.Use(kBytes, kUntouched);
  }
  peer_.Write(std::string(kBytes, 'x'), Remote());
  EXPECT_TRUE(peer_.Closed());
  EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
}

TEST_P(HostileTargetTest, WritesBeyondTheBuffer) {
  LogIn();
  Submit();
  peer_.Write(std::string(kBytes, 'x'), Remote(1));
  EXPECT_TRUE(peer_.Closed());
  ExpectLost("session lost");
}

TEST_P(HostileTargetTest, WritesBeforeTheBuffer) {
  LogIn();
  Submit();
  peer_.Write(std::string(16, 'x'), Remote(-8));
  EXPECT_TRUE(peer_.Closed());
  ExpectLost("session lost");
}

TEST_P(HostileTargetTest, InvalidatesAKeyThatIsNone) {
  LogIn();
  Submit();
  peer_.Send(ToIser(Good()), 0x4242);
  ExpectLost("session lost");
}

TEST_P(HostileTargetTest, InvalidatesTheKeyOfAnotherCommand) {
  LogIn();
  Submit();
  const IserControlHeader first = header_;
  scsi::Command second = command_;
  bool second_finished = false;
  second.context = &second_finished;
  second.done = [](scsi::Command* done) {
    *static_cast<bool*>(done->context) = true;
  };
  stack_.initiator->Submit(&second);
  const std::optional<std::string> message = peer_.Next();
  ASSERT_TRUE(message.has_value());
  ASSERT_TRUE(DecodeIserMessage(Bytes(*message), &seen_).ok());
  ASSERT_TRUE(Decode(seen_.bhs, &pdu_).ok());
  peer_.Send(ToIser(Good()), first.read_stag);
  ExpectLost("invalidated a key of another command");
  EXPECT_TRUE(second_finished);
}

TEST_P(HostileTargetTest, InvalidatesWithAnotherPdu) {
  LogIn();
  Submit();
  NopInPdu nop;
  nop.stat_sn = stat_sn_;
  nop.target_transfer_tag = 1;
  peer_.Send(ToIser(nop), header_.read_stag);
  ExpectLost("a PDU that invalidated a key");
}

TEST_P(HostileTargetTest, AnswersWhatWasNotAsked) {
  LogIn();
  Submit();
  pdu_.initiator_task_tag ^= 0x10000;
  peer_.Send(ToIser(Good()));
  ExpectLost("unknown Initiator Task Tag");
}

// A tag can be guessed.
TEST_P(HostileTargetTest, AnswersACommandThatWasNotSent) {
  stack_.world.network().SetDefaultLink(testing::LinkOptions::Calm());
  send_queue_ = 2;
  replacement_timeout_ = absl::Minutes(1);
  LogIn();
  Submit();
  // It arrives while the last of the commands waits for the first ones to
  // complete, which takes a round trip.
  ScsiResponsePdu early = Good();
  early.initiator_task_tag = pdu_.initiator_task_tag + 3;  // The slot.
  peer_.Send(ToIser(early));
  std::deque<TestCommand> commands;
  for (int i = 0; i < 3; ++i) {
    commands.emplace_back(scsi::cdb::TestUnitReady(), 0);
    stack_.initiator->Submit(&commands.back().command);
  }
  ExpectLostAndRestored("a response to a command that was not sent");
  for (const TestCommand& command : commands) {
    EXPECT_TRUE(command.finished);
    EXPECT_EQ(command.command.outcome, scsi::Command::Outcome::kProtocolError);
  }
}

TEST_P(HostileTargetTest, AnswersAFunctionThatWasNotSent) {
  replacement_timeout_ = absl::Minutes(1);
  LogIn();
  Submit();
  // Of the first function: its slot is behind those of the commands.
  peer_.Send(ToIser(Complete(MakeTag(InitiatorOptions().max_commands, 1))));
  ExpectLostAndRestored(
      "a Task Management Response with an unknown Initiator Task Tag");
}

TEST_P(HostileTargetTest, AnswersATaskThatItCalledAborted) {
  LogIn();
  Submit();
  AbortIt();
  finished_ = false;
  peer_.Send(ToIser(Good()));
  EXPECT_TRUE(
      stack_.RunUntil([this] { return !stack_.initiator->connected(); }));
  EXPECT_THAT(absl::StrJoin(stack_.log, "\n"),
              ::testing::HasSubstr("a task that it had called aborted"));
  EXPECT_FALSE(finished_) << "the command ended twice";
}

// What the key named is not there any more, and the device says so.
TEST_P(HostileTargetTest, InvalidatesTheKeyOfATaskThatItCalledAborted) {
  LogIn();
  Submit();
  AbortIt();
  finished_ = false;
  peer_.Send(ToIser(Good()), header_.read_stag);
  EXPECT_TRUE(peer_.Closed());
  EXPECT_TRUE(
      stack_.RunUntil([this] { return !stack_.initiator->connected(); }));
  EXPECT_FALSE(finished_) << "the command ended twice";
}

TEST_P(HostileTargetTest, WritesForATaskThatItCalledAborted) {
  LogIn();
  Submit();
  AbortIt();
  peer_.Write(std::string(kBytes, 'x'), Remote());
  EXPECT_TRUE(peer_.Closed());
  EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
}

// The session has ended in order, and nothing of it counts any more.
TEST_P(HostileTargetTest, SendsPdusAfterTheLogoutResponse) {
  LogIn();
  Submit();
  peer_.Send(ToIser(Good()));
  ASSERT_TRUE(stack_.RunUntil([this] { return finished_; }));
  std::optional<absl::Status> logged_out;
  stack_.initiator->Logout(
      [&logged_out](const absl::Status& status) { logged_out = status; });
  const std::optional<std::string> message = peer_.Next();
  ASSERT_TRUE(message.has_value());
  LogoutRequestPdu logout;
  ASSERT_TRUE(Decode(RawIserPeer::BhsOf(*message), &logout).ok());
  LogoutResponsePdu response;
  response.initiator_task_tag = logout.initiator_task_tag;
  response.stat_sn = stat_sn_++;
  response.exp_cmd_sn = pdu_.cmd_sn + 1;
  response.max_cmd_sn = pdu_.cmd_sn + 10;
  peer_.Send(ToIser(response));
  NopInPdu ping;
  ping.target_transfer_tag = 1;  // Wants an answer.
  ping.stat_sn = stat_sn_;
  ping.exp_cmd_sn = response.exp_cmd_sn;
  ping.max_cmd_sn = response.max_cmd_sn;
  peer_.Send(ToIser(ping));
  peer_.Send(ToIser(Good()));
  peer_.Send(ToIser(response));
  peer_.Write(std::string(kBytes, 'x'), Remote());
  EXPECT_TRUE(peer_.Closed());
  EXPECT_TRUE(peer_.received.empty());
  ASSERT_TRUE(stack_.RunUntil([&] { return logged_out.has_value(); }));
  EXPECT_TRUE(logged_out->ok()) << *logged_out;
  EXPECT_FALSE(stack_.initiator->connected());
  EXPECT_THAT(absl::StrJoin(stack_.log, "\n"),
              ::testing::Not(::testing::HasSubstr("session lost")));
  EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
}

TEST_P(HostileTargetTest, SendsDataIn) {
  LogIn();
  Submit();
  ScsiDataInPdu data;
  data.final = true;
  data.initiator_task_tag = pdu_.initiator_task_tag;
  data.exp_cmd_sn = pdu_.cmd_sn + 1;
  data.max_cmd_sn = pdu_.cmd_sn + 9;
  peer_.Send(ToIser(data, std::string(100, 'x')));
  ExpectLost("what RDMA does");
}

TEST_P(HostileTargetTest, SendsAnR2t) {
  LogIn();
  Submit();
  R2tPdu r2t;
  r2t.initiator_task_tag = pdu_.initiator_task_tag;
  r2t.target_transfer_tag = 1;
  r2t.desired_data_transfer_length = 100;
  peer_.Send(ToIser(r2t));
  ExpectLost("what RDMA does");
}

TEST_P(HostileTargetTest, AdvertisesAnStag) {
  LogIn();
  Submit();
  peer_.Send(ToIser(Good(), "", header_));
  ExpectLost("an STag from a target");
}

TEST_P(HostileTargetTest, SendsAMessageThatIsTooShort) {
  LogIn();
  Submit();
  peer_.Send(ToIser(Good()).substr(0, 60));
  ExpectLost("iSER message of 60 bytes");
}

TEST_P(HostileTargetTest, SendsAHello) {
  LogIn();
  Submit();
  peer_.Send(ToIserHello(IserHello()));
  ExpectLost("the target sent an iSER Hello");
}

TEST_P(HostileTargetTest, SendsMoreThanThereAreReceives) {
  LogIn();
  Submit();
  for (int i = 0; i < 250; ++i) {
    NopInPdu nop;
    nop.stat_sn = stat_sn_;
    nop.exp_cmd_sn = pdu_.cmd_sn + 1;
    nop.max_cmd_sn = pdu_.cmd_sn + 10;
    peer_.Send(ToIser(nop));
  }
  stack_.world.RunFor(absl::Seconds(20));
  peer_.Poll();
  EXPECT_EQ(memory_.view(), std::string(kBytes, kUntouched));
}

TEST_P(HostileTargetTest, EndsTheConnectionUnderACommand) {
  LogIn();
  Submit();
  peer_.endpoint()->Disconnect();
  ExpectLost("session lost");
}

}  // namespace
}  // namespace skiff::protocol
