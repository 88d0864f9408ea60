#include "protocol/negotiation/initiator_login.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "protocol/negotiation/login_test_util.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr LoginStage kSec = LoginStage::kSecurity;
constexpr LoginStage kOp = LoginStage::kOperational;
constexpr LoginStage kFull = LoginStage::kFullFeature;
using State = InitiatorLogin::State;

// A target's answers to everything that the default offer proposes.
constexpr char kAnswers[] =
    "TargetPortalGroupTag=1|HeaderDigest=None|DataDigest=None|"
    "MaxConnections=1|InitialR2T=No|ImmediateData=Yes|"
    "MaxRecvDataSegmentLength=262144|MaxBurstLength=262144|"
    "FirstBurstLength=65536|DefaultTime2Wait=2|DefaultTime2Retain=0|"
    "MaxOutstandingR2T=1|DataPDUInOrder=Yes|DataSequenceInOrder=Yes|"
    "ErrorRecoveryLevel=0|";

LoginResponsePdu Response(LoginStage csg, LoginStage nsg) {
  LoginResponsePdu pdu;
  pdu.csg = csg;
  pdu.nsg = nsg;
  pdu.transit = csg != nsg;
  if (nsg == kFull) pdu.tsih = 5;
  return pdu;
}

class InitiatorLoginTest : public ::testing::Test {
 protected:
  std::string Start() {
    login_ = std::make_unique<InitiatorLogin>(options_);
    request_ = login_->Start();
    return Shown(request_.data);
  }
  State Answer(const LoginResponsePdu& pdu, absl::string_view text) {
    return login_->OnResponse(pdu, Bytes(Text(text)), &request_);
  }
  std::string Failure() const {
    return std::string(login_->failure().message());
  }

  InitiatorLoginOptions options_ = DefaultOptions();
  std::unique_ptr<InitiatorLogin> login_;
  InitiatorLogin::Request request_;
};

TEST_F(InitiatorLoginTest, FirstRequest) {
  options_.identity.initiator_alias = "Host";
  EXPECT_EQ(Start(),
            "InitiatorName=iqn.2001-04.com.example:host|InitiatorAlias=Host|"
            "TargetName=iqn.2001-04.com.example:disk|SessionType=Normal|"
            "HeaderDigest=None,CRC32C|DataDigest=None,CRC32C|MaxConnections=1|"
            "InitialR2T=No|ImmediateData=Yes|MaxRecvDataSegmentLength=262144|"
            "MaxBurstLength=1048576|FirstBurstLength=262144|DefaultTime2Wait=0|"
            "DefaultTime2Retain=0|MaxOutstandingR2T=8|DataPDUInOrder=Yes|"
            "DataSequenceInOrder=Yes|ErrorRecoveryLevel=0|");
  EXPECT_TRUE(request_.pdu.transit);
  EXPECT_EQ(request_.pdu.csg, kOp);
  EXPECT_EQ(request_.pdu.nsg, kFull);
  EXPECT_EQ(request_.pdu.cid, 9);
  EXPECT_EQ(request_.pdu.tsih, 0);
}

TEST_F(InitiatorLoginTest, FirstRequestWithSecurity) {
  UseAuth({"Fake"}, "secret", false, &options_);
  EXPECT_THAT(Start(), HasSubstr("AuthMethod=Fake|"));
  EXPECT_THAT(Shown(request_.data), Not(HasSubstr("HeaderDigest")));
  EXPECT_FALSE(request_.pdu.transit);
  EXPECT_EQ(request_.pdu.csg, kSec);
  UseAuth({"Fake", "None"}, "secret", false, &options_);
  EXPECT_THAT(Start(), HasSubstr("AuthMethod=Fake,None|"));
  EXPECT_TRUE(request_.pdu.transit);
  EXPECT_EQ(request_.pdu.nsg, kOp);
}

TEST_F(InitiatorLoginTest, OneExchange) {
  Start();
  EXPECT_EQ(Answer(Response(kOp, kFull), kAnswers), State::kFullFeature)
      << login_->failure();
  EXPECT_EQ(login_->tsih(), 5);
  EXPECT_EQ(login_->identity().target_portal_group_tag, 1);
  EXPECT_TRUE(login_->failure().ok());
}

// LIO proposes what it cares for in addition to its answers, and ends the stage
// after it has got the initiator's.
TEST_F(InitiatorLoginTest, ATargetWithProposalsOfItsOwn) {
  options_.offer.default_time2retain = 20;
  Start();
  EXPECT_EQ(Answer(Response(kOp, kOp), absl::StrCat(kAnswers,
                                                    "IFMarker=No|X-lio=1|"
                                                    "TaskReporting=RFC3720|"
                                                    "TargetAlias=LIO Target|")),
            State::kInProgress)
      << login_->failure();
  EXPECT_EQ(Shown(request_.data),
            "X-lio=NotUnderstood|TaskReporting=RFC3720|IFMarker=Reject|");
  EXPECT_TRUE(request_.pdu.transit);
  EXPECT_EQ(Answer(Response(kOp, kFull), ""), State::kFullFeature);
  EXPECT_EQ(login_->identity().target_alias, "LIO Target");
}

// A target may say in each stage which one it is, if it is the same.
TEST_F(InitiatorLoginTest, ATargetThatRepeatsItself) {
  UseAuth({"Fake", "None"}, "secret", false, &options_);
  const auto enter_operational = [this] {
    Start();
    return Answer(Response(kSec, kOp),
                  "AuthMethod=None|TargetPortalGroupTag=1|TargetAlias=a|");
  };
  ASSERT_EQ(enter_operational(), State::kInProgress) << login_->failure();
  EXPECT_EQ(
      Answer(Response(kOp, kFull), absl::StrCat(kAnswers, "TargetAlias=a|")),
      State::kFullFeature)
      << login_->failure();
  ASSERT_EQ(enter_operational(), State::kInProgress) << login_->failure();
  EXPECT_EQ(
      Answer(Response(kOp, kFull), absl::StrCat(kAnswers, "TargetAlias=b|")),
      State::kFailed);
  EXPECT_THAT(Failure(), HasSubstr("second time"));
}

TEST_F(InitiatorLoginTest, ATargetThatTakesItsTime) {
  options_.offer.default_time2retain = 20;
  Start();
  EXPECT_EQ(Answer(Response(kOp, kOp), "InitialR2T=Yes|"), State::kInProgress);
  EXPECT_EQ(request_.data, "");
  EXPECT_TRUE(request_.pdu.transit);
  EXPECT_EQ(Answer(Response(kOp, kOp), "MaxBurstLength=65536|"),
            State::kInProgress);
  EXPECT_EQ(Answer(Response(kOp, kFull), "FirstBurstLength=65536|"),
            State::kFullFeature)
      << login_->failure();
  EXPECT_EQ(login_->parameters().max_burst_length, 65536u);
}

TEST_F(InitiatorLoginTest, ContinuedResponses) {
  Start();
  LoginResponsePdu part = Response(kOp, kOp);
  part.continue_ = true;
  EXPECT_EQ(Answer(part, "TargetPortalGroup"), State::kInProgress);
  EXPECT_EQ(request_.data, "");
  EXPECT_TRUE(request_.pdu.transit);
  EXPECT_EQ(Answer(part, "Tag"), State::kInProgress);
  EXPECT_EQ(Answer(Response(kOp, kFull), &kAnswers[20]), State::kFullFeature)
      << login_->failure();
}

// A declaration that this side doesn't know doesn't hold up the stage's end.
TEST_F(InitiatorLoginTest, UnknownDeclarationWithTheFinalResponse) {
  Start();
  EXPECT_EQ(Answer(Response(kOp, kFull),
                   absl::StrCat(kAnswers, "X-com.example.rack=3|")),
            State::kFullFeature)
      << login_->failure();
}

TEST_F(InitiatorLoginTest, TheDiscoverySessionOfOldTargetsHasNoTsih) {
  options_.identity.session_type = SessionType::kDiscovery;
  options_.identity.target_name.clear();
  EXPECT_THAT(Start(), HasSubstr("SessionType=Discovery|"));
  LoginResponsePdu pdu = Response(kOp, kFull);
  pdu.tsih = 0;
  EXPECT_EQ(Answer(pdu,
                   "HeaderDigest=None|DataDigest=None|"
                   "DefaultTime2Retain=0|"),
            State::kFullFeature)
      << login_->failure();
}

TEST_F(InitiatorLoginTest, Redirections) {
  const std::pair<const char*, const char*> good[] = {
      {"TargetAddress=10.0.0.1:3261|", "10.0.0.1:3261"},
      {"TargetAddress=10.0.0.1:3261,1|", "10.0.0.1:3261"},
      {"TargetAddress=[fe80::1]|TargetAddress=other|", "[fe80::1]"},
  };
  LoginResponsePdu pdu;
  pdu.status_class = 1;
  pdu.status_detail = 2;
  for (const auto& [text, address] : good) {
    Start();
    EXPECT_EQ(Answer(pdu, text), State::kRedirected);
    EXPECT_EQ(login_->redirect_address(), address);
  }
  for (const std::string& bad :
       {std::string(), std::string("TargetAddress=|"),
        std::string("TargetAddress=,1|"), std::string("TargetAddress=a b|"),
        "TargetAddress=" + std::string(256, 'a') + "|",
        std::string("TargetAddress"), std::string("TargetAlias=x|")}) {
    Start();
    EXPECT_EQ(Answer(pdu, bad), State::kFailed);
  }
}

TEST_F(InitiatorLoginTest, UnknownStatusDetailsCountByTheirClass) {
  LoginResponsePdu pdu;
  for (const auto& [status_class, code] :
       {std::pair{2, absl::StatusCode::kFailedPrecondition},
        std::pair{3, absl::StatusCode::kUnavailable},
        std::pair{200, absl::StatusCode::kFailedPrecondition}}) {
    pdu.status_class = static_cast<uint8_t>(status_class);
    pdu.status_detail = 0x99;
    Start();
    EXPECT_EQ(Answer(pdu, "garbage"), State::kFailed);
    EXPECT_EQ(login_->failure().code(), code);
  }
}

struct Bad {
  std::function<void(LoginResponsePdu*)> change;
  std::string text;
  const char* failure;
};

TEST_F(InitiatorLoginTest, BadResponses) {
  const auto same = [](LoginResponsePdu*) {};
  const std::string answers = kAnswers;
  const Bad cases[] = {
      {[](LoginResponsePdu* p) { p->version_active = 1; }, answers,
       "iSCSI version 1"},
      {[](LoginResponsePdu* p) { p->csg = kSec; }, answers,
       "stage 0 in stage 1"},
      {[](LoginResponsePdu* p) { p->nsg = kOp; }, answers,
       "transition from stage 1 to stage 1"},
      {[](LoginResponsePdu* p) { p->continue_ = true; }, answers,
       "both the T and the C bit"},
      {[](LoginResponsePdu* p) {
         p->continue_ = true;
         p->transit = false;
       },
       "", "no data to continue"},
      {[](LoginResponsePdu* p) { p->tsih = 0; }, answers, "no TSIH"},
      {same, answers + answers, "second time"},
      {same, answers + "TargetAlias=a|TargetAlias=b|", "second time"},
      {same, answers + "TargetAlias=\xff|", "not printable"},
      {same, "TargetPortalGroupTag=65536|", "TargetPortalGroupTag"},
      {same, "TargetPortalGroupTag=|", "TargetPortalGroupTag"},
      {same, answers + "InitiatorName=x|", "not for a target"},
      {same, answers + "AuthMethod=None|", "not allowed in operational"},
      {same, answers + "TargetName=x|", "not allowed in operational"},
      {same, answers + "TaskReporting=RFC3720|", "ends the stage"},
      {same, answers + "Junk", "no null"},
      {same, "MaxBurstLength=2000000|", "can't be the answer"},
      {same, "MaxRecvDataSegmentLength=1|", "512 to"},
      {same, "HeaderDigest=NotUnderstood|", "must understand"},
      {same, "", "not answered"},
      {same, std::string(70000, 'a'), "65536 bytes"},
  };
  for (const Bad& bad : cases) {
    Start();
    LoginResponsePdu pdu = Response(kOp, kFull);
    bad.change(&pdu);
    EXPECT_EQ(Answer(pdu, bad.text), State::kFailed) << bad.failure;
    EXPECT_THAT(Failure(), HasSubstr(bad.failure));
    EXPECT_LT(Failure().size(), 400u);
  }
}

TEST_F(InitiatorLoginTest, AnswersBeforeTheRequestIsComplete) {
  std::vector<std::string> methods(200, std::string(100, 'x'));
  UseAuth(methods, "secret", false, &options_);
  for (const bool with_data : {true, false}) {
    Start();
    ASSERT_TRUE(request_.pdu.continue_);
    EXPECT_FALSE(request_.pdu.transit);
    LoginResponsePdu pdu = Response(kSec, kSec);
    pdu.continue_ = !with_data;
    EXPECT_EQ(Answer(pdu, with_data ? "TargetAlias=x|" : ""), State::kFailed);
    EXPECT_THAT(Failure(), HasSubstr("before the request is complete"));
  }
}

TEST_F(InitiatorLoginTest, BadSecurityResponses) {
  const std::pair<const char*, const char*> cases[] = {
      {"AuthMethod=Other|", "was not offered"},
      {"AuthMethod=Fake,None|", "was not offered"},
      {"AuthMethod=Reject|", "accepts none"},
      {"AuthMethod=Fake|AuthMethod=Fake|", "second time"},
      {"HeaderDigest=None|", "not allowed in security"},
  };
  UseAuth({"Fake"}, "secret", false, &options_);
  for (const auto& [text, failure] : cases) {
    Start();
    EXPECT_EQ(Answer(Response(kSec, kSec), text), State::kFailed);
    EXPECT_THAT(Failure(), HasSubstr(failure));
  }
  Start();
  EXPECT_EQ(Answer(Response(kSec, kOp), "AuthMethod=Fake|"), State::kFailed);
  EXPECT_THAT(Failure(), HasSubstr("has not finished"));
}

TEST_F(InitiatorLoginTest, NoWayAroundTheAuthentication) {
  UseAuth({"Fake", "None"}, "secret", true, &options_);
  // The target picks the exchange and leaves it at that.
  Start();
  EXPECT_EQ(Answer(Response(kSec, kOp), "AuthMethod=Fake|"), State::kFailed);
  // The target proves nothing, or the wrong thing.
  for (const char* proof : {"Fake_R=x|", "Other=1|"}) {
    Start();
    Answer(Response(kSec, kSec), "AuthMethod=Fake|");
    EXPECT_EQ(Shown(request_.data), "Fake_A=5|");
    Answer(Response(kSec, kSec), "Fake_C=t|");
    EXPECT_EQ(Shown(request_.data), "Fake_R=tsecret|Fake_C=i|");
    EXPECT_FALSE(request_.pdu.transit);
    EXPECT_EQ(Answer(Response(kSec, kSec), proof), State::kFailed);
    EXPECT_EQ(login_->failure().code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(InitiatorLoginTest, AMethodThatCantBeStarted) {
  options_.auth_methods = {"Fake"};
  Start();
  EXPECT_EQ(Answer(Response(kSec, kSec), "AuthMethod=Fake|"), State::kFailed);
  EXPECT_EQ(login_->failure().code(), absl::StatusCode::kInternal);
}

TEST_F(InitiatorLoginTest, EndlessLoginsEnd) {
  options_.max_exchanges = 6;
  Start();
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Answer(Response(kOp, kOp), ""), State::kInProgress);
  }
  EXPECT_EQ(Answer(Response(kOp, kOp), ""), State::kFailed);
  EXPECT_THAT(Failure(), HasSubstr("after 6 exchanges"));
}

TEST_F(InitiatorLoginTest, TheTsihOfAnExistingSession) {
  options_.tsih = 4;
  EXPECT_THAT(Start(), Not(HasSubstr("SessionType")));
  EXPECT_EQ(Answer(Response(kOp, kFull), "HeaderDigest=None|DataDigest=None|"),
            State::kFailed);
  EXPECT_THAT(Failure(), HasSubstr("the TSIH is 5"));
}

TEST_F(InitiatorLoginTest, RandomResponsesAreSafe) {
  const std::vector<std::string> pieces = {kAnswers,
                                           "AuthMethod=Fake|",
                                           "AuthMethod=None|",
                                           "Fake_C=t|",
                                           "Fake_R=isecret|",
                                           "InitialR2T=No|",
                                           "MaxBurstLength=512|",
                                           "TargetAlias=x|",
                                           "TargetAddress=1.2.3.4|",
                                           "X-com.example=1|",
                                           "=",
                                           "|",
                                           "Reject",
                                           std::string(300, 'a')};
  std::mt19937 random(98);
  int full = 0;
  for (int round = 0; round < 30000; ++round) {
    InitiatorLoginOptions options = DefaultOptions();
    if (random() % 2 == 0) {
      UseAuth({"Fake", "None"}, "secret", random() % 2 == 0, &options);
    }
    InitiatorLogin login(options);
    InitiatorLogin::Request request = login.Start();
    for (int i = 0; i < 6 && login.state() == State::kInProgress; ++i) {
      std::string text;
      for (unsigned n = random() % 3; n > 0; --n) {
        text += pieces[random() % pieces.size()];
      }
      if (random() % 8 == 0 && !text.empty()) {
        text[random() % text.size()] = static_cast<char>(random());
      }
      LoginResponsePdu pdu = Response(request.pdu.csg, request.pdu.nsg);
      pdu.transit = random() % 2 == 0;
      pdu.continue_ = random() % 8 == 0;
      if (random() % 16 == 0) pdu.nsg = kFull;
      if (random() % 32 == 0) pdu.status_class = random() % 4;
      login.OnResponse(pdu, Bytes(Text(text)), &request);
      EXPECT_LE(request.data.size(), 8192u);
      EXPECT_EQ(login.state() == State::kFailed, !login.failure().ok());
    }
    if (login.state() == State::kFullFeature) ++full;
  }
  EXPECT_GT(full, 100);
}

}  // namespace
}  // namespace skiff::protocol
