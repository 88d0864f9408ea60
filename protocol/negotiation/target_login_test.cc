#include "protocol/negotiation/target_login.h"

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
using ::testing::StartsWith;

constexpr char kNames[] =
    "InitiatorName=iqn.2001-04.com.example:host|"
    "TargetName=iqn.2001-04.com.example:disk|";

LoginRequestPdu Request(LoginStage csg, LoginStage nsg) {
  LoginRequestPdu pdu;
  pdu.csg = csg;
  pdu.nsg = nsg;
  pdu.transit = csg != nsg;
  pdu.isid = {0x40, 0, 0, 1, 0, 2};
  pdu.cid = 3;
  pdu.initiator_task_tag = 4;
  return pdu;
}
constexpr LoginStage kSec = LoginStage::kSecurity;
constexpr LoginStage kOp = LoginStage::kOperational;
constexpr LoginStage kFull = LoginStage::kFullFeature;

class TargetLoginTest : public ::testing::Test {
 protected:
  TargetLogin::Reply Send(const LoginRequestPdu& pdu, absl::string_view text) {
    if (login_ == nullptr) {
      login_ = std::make_unique<TargetLogin>(&policy_, limits_);
    }
    reply_ = *login_->OnRequest(pdu, Bytes(Text(text)));
    return reply_;
  }

  // The reply as text; "0207" for a rejection.
  std::string SendText(LoginStage csg, LoginStage nsg, absl::string_view text) {
    Send(Request(csg, nsg), text);
    if (reply_.pdu.status_class != 0) return Status();
    return Shown(reply_.data);
  }

  std::string Status() const {
    return absl::StrCat(absl::Hex(reply_.pdu.status_class, absl::kZeroPad2),
                        absl::Hex(reply_.pdu.status_detail, absl::kZeroPad2));
  }

  FakePolicy policy_;
  TargetLogin::Limits limits_;
  std::unique_ptr<TargetLogin> login_;
  TargetLogin::Reply reply_;
};

TEST_F(TargetLoginTest, OnePdu) {
  policy_.alias = "Disk 1";
  EXPECT_EQ(SendText(kOp, kFull, kNames),
            "TargetPortalGroupTag=7|TargetAlias=Disk 1|"
            "MaxRecvDataSegmentLength=262144|");
  EXPECT_TRUE(reply_.pdu.transit);
  EXPECT_EQ(reply_.pdu.csg, kOp);
  EXPECT_EQ(reply_.pdu.nsg, kFull);
  EXPECT_EQ(reply_.pdu.tsih, kTsih);
  EXPECT_EQ(reply_.pdu.isid, (Isid{0x40, 0, 0, 1, 0, 2}));
  EXPECT_EQ(reply_.pdu.initiator_task_tag, 4u);
  EXPECT_EQ(login_->state(), TargetLogin::State::kFullFeature);
  // All the initiator's values are the defaults (section 6.3.1).
  Parameters expected;
  expected.target_max_recv_data_segment_length = 262144;
  EXPECT_EQ(login_->parameters(), expected);
}

// The target that is named is no more than a word then.
TEST_F(TargetLoginTest, DiscoveryOfATargetThatIsNotThere) {
  policy_.portal_group_tag.reset();
  EXPECT_EQ(
      SendText(kOp, kFull, absl::StrCat(kNames, "SessionType=Discovery|")),
      "MaxRecvDataSegmentLength=262144|");
  EXPECT_EQ(Status(), "0000");
}

TEST_F(TargetLoginTest, SecurityStraightToFullFeature) {
  EXPECT_EQ(SendText(kSec, kFull, absl::StrCat(kNames, "AuthMethod=None|")),
            "TargetPortalGroupTag=7|AuthMethod=None|");
  EXPECT_TRUE(reply_.pdu.transit);
  EXPECT_EQ(reply_.pdu.nsg, kFull);
  EXPECT_EQ(login_->parameters(), Parameters());
}

// Section 6.3.1: willing to negotiate security, but proposing nothing.
TEST_F(TargetLoginTest, SecurityWithoutAProposal) {
  EXPECT_EQ(SendText(kSec, kOp, kNames), "TargetPortalGroupTag=7|");
  EXPECT_TRUE(reply_.pdu.transit);
  EXPECT_EQ(reply_.pdu.nsg, kOp);
  EXPECT_EQ(reply_.pdu.tsih, 0);
  EXPECT_EQ(SendText(kOp, kFull, ""), "MaxRecvDataSegmentLength=262144|");
  EXPECT_EQ(login_->state(), TargetLogin::State::kFullFeature);
}

TEST_F(TargetLoginTest, ManyPdusOneDeclaration) {
  SendText(kOp, kOp, kNames);
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(SendText(kOp, kOp, "InitialR2T=No|"), "InitialR2T=No|");
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(SendText(kOp, kOp, ""), "");
  EXPECT_EQ(SendText(kOp, kFull, "ImmediateData=No|"), "ImmediateData=No|");
  EXPECT_EQ(login_->state(), TargetLogin::State::kFullFeature);
  EXPECT_FALSE(login_->parameters().initial_r2t);
  EXPECT_EQ(policy_.admissions, 1);
}

// The keys as libiscsi sends them.
TEST_F(TargetLoginTest, Libiscsi) {
  SendText(kSec, kOp,
           absl::StrCat("InitiatorName=iqn.2007-10.com.github:sahlberg:test|"
                        "InitiatorAlias=test|TargetName=",
                        kTarget, "|SessionType=Normal|AuthMethod=None|"));
  ASSERT_EQ(Status(), "0000") << login_->failure();
  EXPECT_EQ(SendText(kOp, kFull,
                     "HeaderDigest=None,CRC32C|DataDigest=None|InitialR2T=No|"
                     "ImmediateData=Yes|MaxBurstLength=262144|"
                     "FirstBurstLength=262144|DefaultTime2Wait=2|"
                     "DefaultTime2Retain=0|IFMarker=No|OFMarker=No|"
                     "MaxConnections=1|MaxRecvDataSegmentLength=262144|"
                     "DataPDUInOrder=Yes|DataSequenceInOrder=Yes|"
                     "MaxOutstandingR2T=1|ErrorRecoveryLevel=0|"
                     "X-libiscsi-test=1|"),
            "MaxRecvDataSegmentLength=262144|X-libiscsi-test=NotUnderstood|"
            "HeaderDigest=None|DataDigest=None|MaxConnections=1|InitialR2T=No|"
            "ImmediateData=Yes|MaxBurstLength=262144|FirstBurstLength=262144|"
            "DefaultTime2Wait=2|DefaultTime2Retain=0|MaxOutstandingR2T=1|"
            "DataPDUInOrder=Yes|DataSequenceInOrder=Yes|ErrorRecoveryLevel=0|"
            "OFMarker=Reject|IFMarker=Reject|");
  EXPECT_EQ(login_->state(), TargetLogin::State::kFullFeature);
}

// As libiscsi, and QEMU with it, log in with credentials: the operational stage
// begins with who they are, once more.
TEST_F(TargetLoginTest, LibiscsiWithCredentials) {
  const std::string identity = absl::StrCat(
      "InitiatorName=iqn.2007-10.com.github:sahlberg:test|InitiatorAlias=test|"
      "TargetName=",
      kTarget, "|SessionType=Normal|");
  SendText(kSec, kOp, absl::StrCat(identity, "AuthMethod=CHAP,None|"));
  ASSERT_EQ(Status(), "0000") << login_->failure();
  EXPECT_EQ(SendText(kOp, kFull, absl::StrCat(identity, "InitialR2T=No|")),
            "MaxRecvDataSegmentLength=262144|InitialR2T=No|")
      << login_->failure();
  EXPECT_EQ(login_->state(), TargetLogin::State::kFullFeature);
  EXPECT_EQ(policy_.admissions, 1);
}

// What is said again has to be the same, and in another stage.
TEST_F(TargetLoginTest, RedeclarationsInALaterStage) {
  const std::pair<std::string, const char*> cases[] = {
      {"InitiatorName=iqn.2001-04.com.example:HOST|", ""},
      {"TargetName=iqn.2001-04.COM.example:disk|SessionType=Normal|", ""},
      {"InitiatorAlias=a|", ""},
      {"InitiatorName=iqn.2001-04.com.example:other|", "second time"},
      {"TargetName=iqn.2001-04.com.example:other|", "second time"},
      {"SessionType=Discovery|", "second time"},
      {"InitiatorAlias=A|", "second time"},
      {"InitiatorAlias=a|InitiatorAlias=a|", "second time"},
  };
  for (const auto& [text, failure] : cases) {
    login_.reset();
    SendText(kSec, kOp,
             absl::StrCat(kNames, "SessionType=Normal|InitiatorAlias=a|"));
    ASSERT_EQ(Status(), "0000");
    SendText(kOp, kFull, text);
    EXPECT_EQ(Status(), *failure == '\0' ? "0000" : "0200") << text;
    EXPECT_THAT(login_->failure(), HasSubstr(failure)) << text;
    EXPECT_EQ(login_->identity().initiator_name, kInitiator);
  }
}

TEST_F(TargetLoginTest, ContinuedRequests) {
  const std::string keys = absl::StrCat(kNames, "InitialR2T=No|");
  LoginRequestPdu part = Request(kOp, kOp);
  part.continue_ = true;
  Send(part, keys.substr(0, 20));
  EXPECT_EQ(reply_.data, "");
  EXPECT_FALSE(reply_.pdu.transit || reply_.pdu.continue_);
  EXPECT_EQ(policy_.admissions, 0);
  Send(part, keys.substr(20, 30));
  EXPECT_EQ(reply_.data, "");
  EXPECT_THAT(SendText(kOp, kFull, keys.substr(50)),
              HasSubstr("InitialR2T=No|"));
  EXPECT_TRUE(reply_.pdu.transit);
}

TEST_F(TargetLoginTest, ContinuedResponses) {
  limits_.max_unknown_keys = 1000;
  std::string keys = kNames;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&keys, "X-", i, "=1|");
  Send(Request(kOp, kFull), keys);
  EXPECT_TRUE(reply_.pdu.continue_);
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(reply_.data.size(), 8192u);
  std::string all = reply_.data;
  EXPECT_EQ(policy_.establishments, 0);
  Send(Request(kOp, kFull), "");
  all += reply_.data;
  EXPECT_FALSE(reply_.pdu.continue_);
  EXPECT_TRUE(reply_.pdu.transit);
  EXPECT_THAT(Shown(all), HasSubstr("X-499=NotUnderstood|"));
  EXPECT_EQ(policy_.establishments, 1);
}

TEST_F(TargetLoginTest, ContinuedResponseMustBeAcknowledged) {
  limits_.max_unknown_keys = 1000;
  std::string keys = kNames;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&keys, "X-", i, "=1|");
  Send(Request(kOp, kFull), keys);
  ASSERT_TRUE(reply_.pdu.continue_);
  EXPECT_EQ(SendText(kOp, kFull, "InitialR2T=No|"), "0200");
  EXPECT_THAT(login_->failure(), HasSubstr("to be continued"));
}

TEST_F(TargetLoginTest, NamesAreNormalized) {
  SendText(kOp, kFull,
           "InitiatorName=IQN.2001-04.com.example:Host|"
           "TargetName=iqn.2001-04.com.example:DISK|");
  EXPECT_EQ(login_->identity().initiator_name, kInitiator);
  EXPECT_EQ(login_->identity().target_name, kTarget);
}

TEST_F(TargetLoginTest, RejectsTellNothingButTheStatus) {
  EXPECT_EQ(SendText(kOp, kFull, "TargetName=x|"), "0203");
  EXPECT_EQ(reply_.data, "");
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(reply_.pdu.initiator_task_tag, 4u);
  EXPECT_EQ(login_->state(), TargetLogin::State::kFailed);
}

TEST_F(TargetLoginTest, NoCommonAuthMethod) {
  policy_.auth_methods = {"Fake"};
  EXPECT_EQ(SendText(kSec, kOp, absl::StrCat(kNames, "AuthMethod=KRB5,SRP|")),
            "0201");
  EXPECT_EQ(Shown(reply_.data), "AuthMethod=Reject|");
}

TEST_F(TargetLoginTest, TheExchangeHoldsTheStage) {
  policy_.auth_methods = {"Fake"};
  EXPECT_THAT(SendText(kSec, kOp, absl::StrCat(kNames, "AuthMethod=Fake|")),
              HasSubstr("AuthMethod=Fake|"));
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(SendText(kSec, kOp, ""), "");
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(SendText(kSec, kOp, "Fake_A=5|"), "Fake_C=t|");
  EXPECT_FALSE(reply_.pdu.transit);
  EXPECT_EQ(SendText(kSec, kOp, "Fake_R=tsecret|"), "");
  EXPECT_TRUE(reply_.pdu.transit);
}

TEST_F(TargetLoginTest, TheTargetCantStartWhatItAllows) {
  policy_.auth_methods = {"Fake"};
  policy_.can_start_auth = false;
  EXPECT_EQ(SendText(kSec, kOp, absl::StrCat(kNames, "AuthMethod=Fake|")),
            "0300");
}

TEST_F(TargetLoginTest, TheTargetsOwnMistakes) {
  policy_.offer.max_burst_length = 1;
  EXPECT_EQ(SendText(kOp, kFull, kNames), "0300");
  EXPECT_THAT(login_->failure(), HasSubstr("MaxBurstLength=1"));
  login_.reset();
  policy_.offer = Offer();
  policy_.tsih = 0;
  EXPECT_EQ(SendText(kOp, kFull, kNames), "0300");
}

struct BadFirst {
  std::function<void(LoginRequestPdu*)> change;
  std::string text;
  const char* status;
  const char* failure;
};

TEST_F(TargetLoginTest, BadFirstRequests) {
  const auto same = [](LoginRequestPdu*) {};
  const std::string names = kNames;
  const BadFirst cases[] = {
      {[](LoginRequestPdu* p) { p->version_min = 1; }, names, "0205",
       "lowest iSCSI version is 1"},
      {[](LoginRequestPdu* p) { p->csg = p->nsg = kFull; }, names, "0200",
       "starts in the full feature phase"},
      {[](LoginRequestPdu* p) { p->nsg = kSec; }, names, "0200",
       "does not exist"},
      {[](LoginRequestPdu* p) { p->nsg = kOp; }, names, "0200",
       "does not exist"},
      {[](LoginRequestPdu* p) { p->continue_ = true; }, names, "0200",
       "both the T and the C bit"},
      {[](LoginRequestPdu* p) {
         p->continue_ = true;
         p->transit = false;
       },
       "", "0200", "no data to continue"},
      {same, "", "0207", "no InitiatorName"},
      {same, "SessionType=Discovery|", "0207", "no InitiatorName"},
      {same, "InitiatorName=iqn.2001-04.com.example|", "0207", "no TargetName"},
      {same, "TargetName=iqn.2001-04.com.example|", "0207", "no InitiatorName"},
      {same, "InitiatorName=me|", "0200", "not an iSCSI name"},
      {same, "InitiatorName=|", "0200", "not an iSCSI name"},
      {same, names + "SessionType=Other|", "0209", "SessionType=\"Other\""},
      {same, names + names, "0200", "second time"},
      {same, names + "InitiatorAlias=a|InitiatorAlias=b|", "0200",
       "second time"},
      {same, names + "InitiatorAlias=\x01|", "0200", "not printable"},
      {same, names + "InitiatorAlias=" + std::string(256, 'a') + "|", "0200",
       "not printable"},
      {same, names + "TargetAlias=a|", "0200", "not for an initiator"},
      {same, names + "AuthMethod=None|", "0200", "not allowed in operational"},
      {same, names + "SendTargets=All|", "0200", "not allowed in operational"},
      {same, names + "InitialR2T", "0200", "no null"},
      {same, names + "InitialR2T|", "0200", "no \"=\""},
      {same, names + "=|", "0200", "no key"},
      {same, names + std::string(64, 'K') + "=v|", "0200", "64 characters"},
      {same, names + "MaxBurstLength=x|", "0200", "MaxBurstLength"},
      {same, names + "MaxRecvDataSegmentLength=1|", "0200", "512 to"},
      {same, names + "MaxBurstLength=512|", "0200", "exceeds MaxBurstLength"},
      {same, std::string(70000, 'a'), "0200", "65536 bytes"},
  };
  for (const BadFirst& bad : cases) {
    login_.reset();
    LoginRequestPdu pdu = Request(kOp, kFull);
    bad.change(&pdu);
    Send(pdu, bad.text);
    EXPECT_EQ(Status(), bad.status) << bad.failure;
    EXPECT_THAT(login_->failure(), HasSubstr(bad.failure));
    EXPECT_EQ(login_->state(), TargetLogin::State::kFailed);
    EXPECT_LT(reply_.data.size(), 300u);
  }
  EXPECT_EQ(policy_.establishments, 0);
}

TEST_F(TargetLoginTest, BadSecurityRequests) {
  const std::pair<std::string, const char*> cases[] = {
      {"AuthMethod=|", "not a list"},
      {"AuthMethod=,None|", "not a list"},
      {"AuthMethod=None|AuthMethod=None|", "second time"},
      {"MaxBurstLength=512|", "not allowed in security"},
      {"HeaderDigest=None|", "not allowed in security"},
  };
  for (const auto& [text, failure] : cases) {
    login_.reset();
    EXPECT_EQ(SendText(kSec, kOp, absl::StrCat(kNames, text)), "0200") << text;
    EXPECT_THAT(login_->failure(), HasSubstr(failure));
  }
}

struct BadSecond {
  std::function<void(LoginRequestPdu*)> change;
  std::string text;
  const char* failure;
};

TEST_F(TargetLoginTest, BadSecondRequests) {
  const auto same = [](LoginRequestPdu*) {};
  const BadSecond cases[] = {
      {[](LoginRequestPdu* p) { ++p->initiator_task_tag; }, "",
       "the Initiator Task Tag changed"},
      {[](LoginRequestPdu* p) { ++p->isid[5]; }, "", "the ISID changed"},
      {[](LoginRequestPdu* p) { ++p->tsih; }, "", "the TSIH changed"},
      {[](LoginRequestPdu* p) { ++p->cid; }, "", "the CID changed"},
      {[](LoginRequestPdu* p) { ++p->version_max; }, "", "the version changed"},
      {[](LoginRequestPdu* p) { ++p->version_min; }, "", "the version changed"},
      {[](LoginRequestPdu* p) { p->csg = kSec; }, "", "of stage 0 in stage 1"},
      {same, "InitiatorName=iqn.2001-04.com.example:host|", "second time"},
      {same, "TargetName=iqn.2001-04.com.example:other|", "second time"},
      {same, "SessionType=Discovery|", "too late"},
      {same, "InitialR2T=No|", "second time"},
  };
  for (const BadSecond& bad : cases) {
    login_.reset();
    SendText(kOp, kOp, absl::StrCat(kNames, "InitialR2T=No|"));
    ASSERT_EQ(Status(), "0000");
    LoginRequestPdu pdu = Request(kOp, kFull);
    bad.change(&pdu);
    Send(pdu, bad.text);
    EXPECT_EQ(Status(), "0200") << bad.failure;
    EXPECT_THAT(login_->failure(), HasSubstr(bad.failure));
  }
}

TEST_F(TargetLoginTest, LateDeclarationsThatAreAllowed) {
  SendText(kOp, kOp, kNames);
  EXPECT_EQ(SendText(kOp, kFull, "InitiatorAlias=Host|SessionType=Normal|"),
            "");
  EXPECT_EQ(login_->state(), TargetLogin::State::kFullFeature);
  EXPECT_EQ(login_->identity().initiator_alias, "Host");
}

TEST_F(TargetLoginTest, ADiscoverySessionGetsNoTargetLater) {
  SendText(kOp, kOp,
           "InitiatorName=iqn.2001-04.com.example:host|SessionType=Discovery|");
  EXPECT_THAT(Shown(reply_.data), StartsWith("MaxRecvDataSegmentLength"));
  EXPECT_EQ(SendText(kOp, kFull, "TargetName=iqn.2001-04.com.example:disk|"),
            "0200");
}

// CVE-2013-2850: what is not understood is never echoed beyond a key's length.
TEST_F(TargetLoginTest, LongKeysAreNotEchoed) {
  EXPECT_EQ(
      SendText(kOp, kFull, absl::StrCat(kNames, std::string(5000, 'A'), "=1|")),
      "0200");
  EXPECT_EQ(reply_.data, "");
  EXPECT_LT(login_->failure().size(), 300u);
  login_.reset();
  EXPECT_THAT(SendText(kOp, kFull,
                       absl::StrCat(kNames, std::string(63, 'A'), "=",
                                    std::string(5000, 'v'), "|")),
              HasSubstr(absl::StrCat(std::string(63, 'A'), "=NotUnderstood")));
}

TEST_F(TargetLoginTest, UnknownKeysAreBounded) {
  std::string keys = kNames;
  for (int i = 0; i < 65; ++i) absl::StrAppend(&keys, "A", i, "=|");
  EXPECT_EQ(SendText(kOp, kFull, keys), "0200");
  EXPECT_THAT(login_->failure(), HasSubstr("more than 64 unknown keys"));
}

TEST_F(TargetLoginTest, EndlessLoginsEnd) {
  SendText(kOp, kOp, kNames);
  for (int i = 0; i < 63; ++i) {
    ASSERT_EQ(login_->state(), TargetLogin::State::kInProgress);
    SendText(kOp, kOp, "");
  }
  EXPECT_EQ(SendText(kOp, kOp, ""), "0200");
  EXPECT_THAT(login_->failure(), HasSubstr("64 requests"));
}

// Random headers and text that is nearly right, from fixed seeds.
TEST_F(TargetLoginTest, RandomRequestsAreSafe) {
  const std::vector<std::string> pieces = {
      kNames,
      "InitiatorName=iqn.2001-04.com.example:host|",
      "SessionType=Discovery|",
      "SessionType=Normal|",
      "AuthMethod=Fake,None|",
      "AuthMethod=None|",
      "Fake_A=5|",
      "Fake_R=tsecret|",
      "InitialR2T=No|",
      "MaxBurstLength=512|",
      "FirstBurstLength=16777215|",
      "HeaderDigest=CRC32C,None|",
      "MaxRecvDataSegmentLength=65536|",
      "IFMarker=No|",
      "X-com.example=1|",
      "=",
      "|",
      "Reject",
      std::string(300, 'a')};
  std::mt19937 random(99);
  int full = 0;
  for (int round = 0; round < 30000; ++round) {
    FakePolicy policy;
    if (random() % 2 == 0) policy.auth_methods = {"Fake"};
    TargetLogin login(&policy, TargetLogin::Limits());
    LoginRequestPdu pdu = Request(random() % 2 == 0 ? kSec : kOp, kFull);
    for (int i = 0; i < 6 && login.state() == TargetLogin::State::kInProgress;
         ++i) {
      std::string text = i == 0 && random() % 8 != 0 ? kNames : "";
      for (unsigned n = random() % 4; n > 0; --n) {
        text += pieces[random() % pieces.size()];
      }
      if (random() % 8 == 0 && !text.empty()) {
        text[random() % text.size()] = static_cast<char>(random());
      }
      pdu.transit = random() % 3 != 0;
      pdu.continue_ = random() % 8 == 0;
      const LoginStage stages[] = {kSec, kOp, kFull};
      if (random() % 4 == 0) pdu.nsg = stages[random() % 3];
      if (random() % 16 == 0) pdu.csg = stages[random() % 3];
      const TargetLogin::Reply reply = *login.OnRequest(pdu, Bytes(Text(text)));
      EXPECT_LE(reply.data.size(), 8192u);
      const bool failed = login.state() == TargetLogin::State::kFailed;
      EXPECT_EQ(failed, reply.pdu.status_class != 0);
      EXPECT_EQ(failed, !login.failure().empty());
      EXPECT_FALSE(reply.pdu.transit && !pdu.transit);
      EXPECT_FALSE(reply.pdu.transit && reply.pdu.continue_);
      if (reply.pdu.transit) pdu.csg = reply.pdu.nsg;
    }
    if (login.state() == TargetLogin::State::kFullFeature) ++full;
    EXPECT_EQ(login.state() == TargetLogin::State::kFullFeature,
              policy.establishments == 1);
  }
  EXPECT_GT(full, 100);
}

}  // namespace
}  // namespace skiff::protocol
