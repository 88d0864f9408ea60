// Pings, texts and logout of an initiator's session.

#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "protocol/session/initiator_session.h"
#include "protocol/session/initiator_session_test_util.h"

namespace skiff::protocol {
namespace {

using Loss = InitiatorSession::Loss;
using State = InitiatorSession::State;

class InitiatorRequestsTest : public InitiatorSessionTest {
 protected:
  absl::AnyInvocable<void(absl::Status)> Keep(
      std::optional<absl::Status>* where) {
    return [where](absl::Status status) { *where = std::move(status); };
  }

  std::optional<absl::Status> status_;
  std::optional<absl::Status> second_;
};

TEST_F(InitiatorRequestsTest, Pings) {
  LogIn();
  session_->Ping(Keep(&status_));
  session_->Ping(Keep(&second_));
  Advance();
  const auto ping = Sent<NopOutPdu>();
  EXPECT_EQ(ping.target_transfer_tag, kReservedTag);
  EXPECT_TRUE(mover_.controls.empty());  // One at a time.
  NopInPdu pong;
  pong.initiator_task_tag = ping.initiator_task_tag;
  Deliver(pong);
  EXPECT_FALSE(status_.has_value());
  Completed();
  EXPECT_TRUE(status_->ok());
  Advance();
  EXPECT_NE(Sent<NopOutPdu>().initiator_task_tag, ping.initiator_task_tag);
}

TEST_F(InitiatorRequestsTest, PongsOfNobodyEndTheSession) {
  LogIn();
  NopInPdu pong;
  pong.initiator_task_tag = 0x12345;
  Deliver(pong);
  ExpectLost(Loss::kProtocol, "unknown Initiator Task Tag");
}

// As Linux's target posts them over iSER.
TEST_F(InitiatorRequestsTest, OverIserAPongMayComeBeforeItsTurn) {
  for (const bool iser : {true, false}) {
    options_.login.offer.iser.enabled = iser;
    LogIn();
    const auto read = Issue(MakeRead(1));
    status_.reset();
    session_->Ping(Keep(&status_));
    Advance();
    NopInPdu pong;
    pong.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
    const uint32_t before = stat_sn_;
    stat_sn_ = before + 1;
    Deliver(pong);
    if (!iser) {
      ExpectLost(Loss::kProtocol, "a NOP-In with StatSN");
      continue;
    }
    stat_sn_ = before;
    Respond(read);
    EXPECT_FALSE(session_->ended()) << session_->failure();
    EXPECT_EQ(Completed().size(), 1u);
    EXPECT_TRUE(status_.has_value() && status_->ok());
    EXPECT_EQ(Issue(MakeRead(1)).pdu.exp_stat_sn, before + 2);
    // But no ping has two answers.
    stat_sn_ = before + 2;
    Deliver(pong);
    ExpectLost(Loss::kProtocol, "unknown Initiator Task Tag");
  }
}

TEST_F(InitiatorRequestsTest, OverIserAPongIsNotTakenFromFarAway) {
  for (const int32_t distance : {1024, -1024, 1 << 30}) {
    SCOPED_TRACE(distance);
    options_.login.offer.iser.enabled = true;
    LogIn();
    session_->Ping(Keep(&status_));
    Advance();
    NopInPdu pong;
    pong.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
    stat_sn_ += static_cast<uint32_t>(distance);
    Deliver(pong);
    ExpectLost(Loss::kProtocol, "a NOP-In with StatSN");
  }
}

TEST_F(InitiatorRequestsTest, RequestsAreBounded) {
  options_.max_requests = 2;
  LogIn();
  for (int i = 0; i < 2; ++i) session_->Ping(nullptr);
  session_->Ping(Keep(&status_));
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(InitiatorRequestsTest, RequestsFailWithTheSession) {
  LogIn();
  std::optional<absl::StatusOr<std::string>> text;
  session_->Ping(Keep(&status_));
  session_->SendText(
      "x", [&](absl::StatusOr<std::string> t) { text = std::move(t); });
  Advance();
  session_->ConnectionLost(absl::UnavailableError("gone"));
  Completed();
  EXPECT_EQ(status_->message(), "gone");
  EXPECT_EQ(text->status().message(), "gone");
  session_->Ping(Keep(&second_));
  Completed();
  EXPECT_EQ(second_->code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InitiatorRequestsTest, ATextIsNotWaitedForForEver) {
  options_.timeouts.text_timeout = absl::Seconds(3);
  LogIn();
  std::optional<absl::StatusOr<std::string>> text;
  session_->SendText(
      "x", [&](absl::StatusOr<std::string> t) { text = std::move(t); });
  Advance();
  AdvanceHearing(absl::Seconds(3));
  Completed();
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->status().message(),
            "the target did not answer a Text Request within 3s "
            "(text_timeout)");
}

// Whose parts each come in time.
TEST_F(InitiatorRequestsTest, ATextThatTricklesIsNotWaitedForForEver) {
  options_.timeouts.text_answer_timeout = absl::Seconds(20);
  LogIn();
  session_->SendText("x", nullptr);
  Advance();
  TextResponsePdu part;
  part.initiator_task_tag = Sent<TextRequestPdu>().initiator_task_tag;
  part.final = false;
  part.target_transfer_tag = 1;
  for (int i = 0; i < 2; ++i) {
    AdvanceHearing(absl::Seconds(9));
    Deliver(part, "x");
    EXPECT_FALSE(session_->ended());
  }
  AdvanceHearing(absl::Seconds(2));
  ExpectLost(Loss::kTimeout,
             "did not end its answer to a Text Request within 20s "
             "(text_answer_timeout)");
}

TEST_F(InitiatorRequestsTest, GathersALongText) {
  LogIn();
  std::optional<absl::StatusOr<std::string>> text;
  session_->SendText("SendTargets=All", [&](absl::StatusOr<std::string> t) {
    text = std::move(t);
  });
  Advance();
  std::string data;
  auto request = Sent<TextRequestPdu>(&data);
  EXPECT_EQ(data, "SendTargets=All");
  EXPECT_TRUE(request.immediate);
  EXPECT_TRUE(request.final);
  EXPECT_EQ(request.target_transfer_tag, kReservedTag);

  TextResponsePdu part;
  part.initiator_task_tag = request.initiator_task_tag;
  part.final = false;
  part.continue_ = true;
  part.target_transfer_tag = 0x99;
  part.lun = 7;
  Deliver(part, "TargetNa");
  request = Sent<TextRequestPdu>(&data);
  EXPECT_EQ(data, "");
  EXPECT_EQ(request.target_transfer_tag, 0x99u);
  EXPECT_EQ(request.lun, 7u);
  EXPECT_EQ(request.initiator_task_tag, part.initiator_task_tag);
  part.continue_ = false;
  part.target_transfer_tag = 0x9a;
  Deliver(part, "me=a");
  EXPECT_EQ(Sent<TextRequestPdu>().target_transfer_tag, 0x9au);
  part.final = true;
  part.target_transfer_tag = kReservedTag;
  Deliver(part, "!");
  Completed();
  ASSERT_TRUE(text.has_value() && text->ok());
  EXPECT_EQ(**text, "TargetName=a!");
}

TEST_F(InitiatorRequestsTest, AnEndlessTextIsCutOff) {
  options_.max_text_bytes = 1000;
  options_.max_text_exchanges = 50;
  for (const std::string& piece :
       {std::string(1, 'x'), std::string(100, 'x')}) {
    LogIn();
    session_->SendText("x", nullptr);
    Advance();
    TextResponsePdu part;
    part.initiator_task_tag = Sent<TextRequestPdu>().initiator_task_tag;
    part.final = false;
    part.continue_ = true;
    part.target_transfer_tag = 1;
    for (int i = 0; i < 50 && !session_->ended(); ++i) Deliver(part, piece);
    ExpectLost(Loss::kProtocol, "a text answer");
    mover_.controls.clear();
  }
}

TEST_F(InitiatorRequestsTest, ATextThatGoesOnWithoutTextIsCutOff) {
  LogIn();
  session_->SendText("x", nullptr);
  Advance();
  TextResponsePdu part;
  part.initiator_task_tag = Sent<TextRequestPdu>().initiator_task_tag;
  part.final = false;
  part.target_transfer_tag = 1;
  Deliver(part);
  ExpectLost(Loss::kProtocol, "without any text");
}

TEST_F(InitiatorRequestsTest, ATextOfNobodyEndsTheSession) {
  LogIn();
  Deliver(TextResponsePdu());
  ExpectLost(Loss::kProtocol, "");
  LogIn();
  session_->Ping(nullptr);
  Advance();
  TextResponsePdu text;
  text.initiator_task_tag = Sent<NopOutPdu>().initiator_task_tag;
  Deliver(text);
  ExpectLost(Loss::kProtocol, "Text Response");
}

TEST_F(InitiatorRequestsTest, LogsOut) {
  LogIn();
  scsi::Command* command = MakeRead(1);
  Issue(command);
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  EXPECT_FALSE(session_->CanIssue());
  const auto request = Sent<LogoutRequestPdu>();
  EXPECT_EQ(request.reason, LogoutRequestPdu::kCloseSession);
  LogoutResponsePdu response;
  response.initiator_task_tag = request.initiator_task_tag;
  Deliver(response);
  EXPECT_EQ(session_->state(), State::kLoggedOut);
  EXPECT_TRUE(Completed().empty());
  EXPECT_TRUE(status_->ok());
  CommandList unfinished;
  session_->TakeUnfinished(&unfinished);
  EXPECT_EQ(unfinished.size(), 1u);
}

// Section 11.15.3.
TEST_F(InitiatorRequestsTest, ALogoutResponseSaysHowLongToStayAway) {
  constexpr int kDefault = 7;
  options_.login.offer.default_time2wait = kDefault;
  const struct {
    uint8_t response;
    int wait;
  } cases[] = {
      {LogoutResponsePdu::kClosed, 0},
      {LogoutResponsePdu::kCidNotFound, kDefault},
      {LogoutResponsePdu::kRecoveryNotSupported, 3},
      {LogoutResponsePdu::kCleanupFailed, 3},
  };
  for (const auto& [code, wait] : cases) {
    LogIn();
    session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
    LogoutResponsePdu response;
    response.initiator_task_tag = Sent<LogoutRequestPdu>().initiator_task_tag;
    response.response = code;
    response.time2wait = 3;
    Deliver(response);
    Completed();
    EXPECT_EQ(session_->state(), State::kLoggedOut);
    EXPECT_EQ(session_->time2wait(), absl::Seconds(wait)) << int{code};
  }
  // Nor does one say anything that is about another connection.
  LogIn();
  session_->Logout(LogoutRequestPdu::kRemoveForRecovery, 8, now_,
                   Keep(&status_));
  LogoutResponsePdu response;
  response.initiator_task_tag = Sent<LogoutRequestPdu>().initiator_task_tag;
  Deliver(response);
  EXPECT_EQ(session_->time2wait(), absl::Seconds(kDefault));
}

TEST_F(InitiatorRequestsTest, ALogoutMayFailTimeOutOrBeCutShort) {
  LogIn();
  session_->Logout(LogoutRequestPdu::kCloseConnection, 0, now_, Keep(&status_));
  LogoutResponsePdu response;
  response.initiator_task_tag = Sent<LogoutRequestPdu>().initiator_task_tag;
  response.response = LogoutResponsePdu::kCleanupFailed;
  response.time2wait = 3;
  Deliver(response);
  Completed();
  EXPECT_FALSE(status_->ok());
  EXPECT_EQ(session_->state(), State::kLoggedOut);
  EXPECT_EQ(session_->time2wait(), absl::Seconds(3));

  LogIn();
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  AdvanceHearing(options_.timeouts.logout_timeout);
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session_->state(), State::kLoggedOut);
  mover_.controls.clear();

  LogIn();
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  session_->ConnectionLost(absl::UnavailableError("closed"));
  Completed();
  EXPECT_TRUE(status_->ok());
  EXPECT_EQ(session_->state(), State::kLoggedOut);
}

TEST_F(InitiatorRequestsTest, ALogoutHasItsTimeAlsoInAnIdleSession) {
  LogIn();
  Advance();
  now_ += absl::Hours(1);
  session_->Logout(LogoutRequestPdu::kCloseSession, 0, now_, Keep(&status_));
  EXPECT_EQ(Advance(), now_ + options_.timeouts.logout_timeout);
  EXPECT_EQ(session_->state(), State::kLoggingOut);
  Sent<LogoutRequestPdu>();
}

TEST_F(InitiatorRequestsTest, RemovingAConnectionKeepsTheSession) {
  LogIn();
  session_->Logout(LogoutRequestPdu::kRemoveForRecovery, 8, now_,
                   Keep(&status_));
  const auto request = Sent<LogoutRequestPdu>();
  EXPECT_EQ(request.cid, 8);
  EXPECT_EQ(request.reason, LogoutRequestPdu::kRemoveForRecovery);
  LogoutResponsePdu response;
  response.initiator_task_tag = request.initiator_task_tag;
  response.response = LogoutResponsePdu::kRecoveryNotSupported;
  Deliver(response);
  Completed();
  EXPECT_EQ(status_->code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(session_->state(), State::kFullFeature);
}

}  // namespace
}  // namespace skiff::protocol
