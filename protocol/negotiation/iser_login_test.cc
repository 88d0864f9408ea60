#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/negotiation/initiator_login.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/login_test_util.h"
#include "protocol/negotiation/target_login.h"

// Logins over RDMA: both of our sides back to back, and each against what the
// initiators and targets of the field send.

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

InitiatorLoginOptions IserOptions() {
  InitiatorLoginOptions options = DefaultOptions();
  options.offer.iser.enabled = true;
  return options;
}

class IserPolicy : public FakePolicy {
 public:
  IserPolicy() { offer.iser.enabled = true; }
};

// One request with all operational keys, as every initiator of the field sends
// it; returns what the target says, or why it failed.
std::string TargetAnswer(TargetLogin* target, absl::string_view keys,
                         absl::string_view session = "Normal") {
  LoginRequestPdu request;
  request.transit = true;
  request.csg = LoginStage::kOperational;
  request.nsg = LoginStage::kFullFeature;
  const TargetLogin::Reply reply = *target->OnRequest(
      request, Bytes(Text(absl::StrCat("InitiatorName=", kInitiator,
                                       "|TargetName=", kTarget,
                                       "|SessionType=", session, "|", keys))));
  if (target->state() == TargetLogin::State::kFailed) return target->failure();
  return Shown(reply.data);
}

// What the initiator makes of a target's answer to all that it proposed.
InitiatorLogin::State InitiatorGets(InitiatorLogin* initiator,
                                    absl::string_view keys) {
  InitiatorLogin::Request next = initiator->Start();
  LoginResponsePdu response;
  response.transit = true;
  response.csg = LoginStage::kOperational;
  response.nsg = LoginStage::kFullFeature;
  response.tsih = kTsih;
  return initiator->OnResponse(response, Bytes(Text(keys)), &next);
}

constexpr char kOpenIscsiKeys[] =
    "DefaultTime2Wait=2|DefaultTime2Retain=0|IFMarker=No|OFMarker=No|"
    "ErrorRecoveryLevel=0|InitialR2T=No|ImmediateData=Yes|"
    "MaxBurstLength=16776192|FirstBurstLength=262144|MaxOutstandingR2T=1|"
    "MaxConnections=1|DataPDUInOrder=Yes|DataSequenceInOrder=Yes|"
    "InitiatorRecvDataSegmentLength=262144|TargetRecvDataSegmentLength=8192|"
    "RDMAExtensions=Yes|";

TEST(IserLoginTest, BothOfOurSides) {
  IserPolicy policy;
  InitiatorLoginOptions options = IserOptions();
  options.offer.iser.initiator_recv_data_segment_length = 4096;
  options.offer.iser.max_outstanding_unexpected_pdus = 5;
  policy.offer.iser.max_outstanding_unexpected_pdus = 7;
  policy.offer.iser.max_ahs_length = 64;
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded())
      << login.initiator.failure() << login.target.failure();
  EXPECT_EQ(login.exchanges, 1);
  const Parameters& parameters = login.initiator.parameters();
  EXPECT_EQ(parameters, login.target.parameters());
  EXPECT_EQ(policy.established, parameters);
  EXPECT_EQ(parameters.header_digest, Digest::kNone);
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 4096u);
  EXPECT_EQ(parameters.target_max_recv_data_segment_length, 8192u);
  const IserParameters& iser = parameters.iser;
  EXPECT_TRUE(iser.enabled);
  EXPECT_TRUE(iser.rdma_extensions);
  EXPECT_TRUE(iser.rfc7145);
  EXPECT_EQ(iser.initiator_recv_data_segment_length, 4096u);
  EXPECT_EQ(iser.target_recv_data_segment_length, 8192u);
  EXPECT_EQ(iser.initiator_max_outstanding_unexpected_pdus, 5u);
  EXPECT_EQ(iser.target_max_outstanding_unexpected_pdus, 7u);
  EXPECT_EQ(iser.initiator_max_ahs_length, 256u);
  EXPECT_EQ(iser.target_max_ahs_length, 64u);
  EXPECT_TRUE(iser.tagged_buffer_for_solicited_data_only);
  EXPECT_FALSE(iser.hello_required);
  EXPECT_EQ(iser.write_base(), IserWriteBase::kSolicitedData);
}

TEST(IserLoginTest, WhatTheInitiatorWantsToBeDifferent) {
  IserPolicy policy;
  InitiatorLoginOptions options = IserOptions();
  options.offer.iser.tagged_buffer_for_solicited_data_only = false;
  options.offer.iser.hello_required = true;
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  const IserParameters& iser = login.initiator.parameters().iser;
  EXPECT_EQ(iser, login.target.parameters().iser);
  EXPECT_TRUE(iser.hello_required);
  EXPECT_EQ(iser.write_base(), IserWriteBase::kWholeBuffer);
}

TEST(IserLoginTest, OurSidesAsDeployed) {
  IserPolicy policy;
  InitiatorLoginOptions options = IserOptions();
  options.offer.iser.rfc7145_keys = false;
  options.offer.iser.hello_required = true;  // There is no key to say so.
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  const IserParameters& iser = login.initiator.parameters().iser;
  EXPECT_EQ(iser, login.target.parameters().iser);
  EXPECT_FALSE(iser.rfc7145);
  EXPECT_FALSE(iser.hello_required);
  EXPECT_EQ(iser.write_base(), IserWriteBase::kSolicitedData);
}

TEST(IserLoginTest, AuthenticationComesFirst) {
  IserPolicy policy;
  policy.auth_methods = {"Fake"};
  InitiatorLoginOptions options = IserOptions();
  UseAuth({"Fake"}, "secret", true, &options);
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded()) << login.initiator.failure();
  EXPECT_TRUE(login.target.parameters().iser.rdma_extensions);
}

TEST(IserLoginTest, NoSessionUnlessBothSidesAgree) {
  {
    FakePolicy without;
    Login login(&without, IserOptions());
    login.Run();
    EXPECT_THAT(std::string(login.initiator.failure().message()),
                HasSubstr("the target does not agree to RDMAExtensions=Yes"));
  }
  {
    IserPolicy policy;
    Login login(&policy, DefaultOptions());
    login.Run();
    EXPECT_THAT(
        login.target.failure(),
        HasSubstr("the initiator does not agree to RDMAExtensions=Yes"));
    EXPECT_EQ(policy.establishments, 0);
  }
}

// Linux's target sends texts of no more than InitiatorRecvDataSegmentLength,
// which it takes for 0 unless it is told.
TEST(IserLoginTest, DiscoveryTellsHowMuchEndsReceive) {
  IserPolicy policy;
  InitiatorLoginOptions options = IserOptions();
  options.identity.session_type = SessionType::kDiscovery;
  options.identity.target_name.clear();
  policy.offer.iser.target_recv_data_segment_length = 4096;
  Login login(&policy, options);
  login.Run();
  ASSERT_TRUE(login.Succeeded())
      << login.initiator.failure() << login.target.failure();
  const Parameters& parameters = login.target.parameters();
  EXPECT_EQ(parameters, login.initiator.parameters());
  EXPECT_TRUE(parameters.iser.enabled);
  EXPECT_TRUE(parameters.iser.rdma_extensions);
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 8192u);
  EXPECT_EQ(parameters.target_max_recv_data_segment_length, 4096u);
}

// What is sent has to fit our buffers, too.
TEST(IserLoginTest, WeSendNoMoreThanABufferHolds) {
  IserPolicy policy;
  policy.offer.iser.initiator_recv_data_segment_length = 1 << 20;
  InitiatorLoginOptions options = IserOptions();
  options.identity.session_type = SessionType::kDiscovery;
  options.identity.target_name.clear();
  options.offer.iser.target_recv_data_segment_length = 1 << 20;
  TargetLogin target(&policy, {});
  TargetAnswer(&target, kOpenIscsiKeys, "Discovery");
  EXPECT_EQ(target.parameters().iser.initiator_recv_data_segment_length,
            262144u);
  EXPECT_EQ(target.parameters().initiator_max_recv_data_segment_length, 8192u);

  InitiatorLogin initiator(options);
  EXPECT_EQ(InitiatorGets(&initiator,
                          "RDMAExtensions=Yes|DefaultTime2Retain=0|"
                          "TargetRecvDataSegmentLength=262144|"
                          "InitiatorRecvDataSegmentLength=8192|"),
            InitiatorLogin::State::kFullFeature)
      << initiator.failure();
  EXPECT_EQ(initiator.parameters().iser.target_recv_data_segment_length,
            262144u);
  EXPECT_EQ(initiator.parameters().target_max_recv_data_segment_length, 8192u);
}

// open-iscsi gives up over any key that it did not send.
TEST(IserLoginTest, TheLinuxInitiatorGetsWhatItKnows) {
  IserPolicy policy;
  policy.offer.initial_r2t = true;
  TargetLogin target(&policy, {});
  EXPECT_EQ(
      TargetAnswer(&target, kOpenIscsiKeys),
      "TargetPortalGroupTag=7|RDMAExtensions=Yes|MaxConnections=1|"
      "InitialR2T=Yes|ImmediateData=Yes|MaxBurstLength=1048576|"
      "FirstBurstLength=262144|DefaultTime2Wait=2|DefaultTime2Retain=0|"
      "MaxOutstandingR2T=1|DataPDUInOrder=Yes|DataSequenceInOrder=Yes|"
      "ErrorRecoveryLevel=0|TargetRecvDataSegmentLength=8192|"
      "InitiatorRecvDataSegmentLength=8192|OFMarker=Reject|IFMarker=Reject|");
  EXPECT_EQ(target.state(), TargetLogin::State::kFullFeature);
  EXPECT_FALSE(target.parameters().iser.rfc7145);
  EXPECT_EQ(target.parameters().iser.write_base(),
            IserWriteBase::kSolicitedData);
  EXPECT_EQ(target.parameters().initiator_max_recv_data_segment_length,
            kDeployedIserResponseData);
}

TEST(IserLoginTest, DigestsEndAsNone) {
  IserPolicy policy;
  const struct {
    const char* offered;
    const char* answer;
  } cases[] = {
      {"HeaderDigest=CRC32C,None|", "HeaderDigest=None|"},
      {"DataDigest=None|", "DataDigest=None|"},
      {"DataDigest=CRC32C|", "DataDigest=Irrelevant|"},
  };
  for (const auto& test_case : cases) {
    TargetLogin target(&policy, {});
    EXPECT_THAT(TargetAnswer(&target, absl::StrCat(test_case.offered,
                                                   "RDMAExtensions=Yes|")),
                HasSubstr(test_case.answer));
    EXPECT_EQ(target.parameters().header_digest, Digest::kNone);
    EXPECT_EQ(target.parameters().data_digest, Digest::kNone);
  }
}

TEST(IserLoginTest, MaxRecvDataSegmentLengthIsIgnored) {
  IserPolicy policy;
  TargetLogin target(&policy, {});
  EXPECT_THAT(TargetAnswer(&target,
                           "MaxRecvDataSegmentLength=65536|RDMAExtensions=Yes|"
                           "MaxAHSLength=256|"),
              Not(HasSubstr("MaxRecvDataSegmentLength")));
  EXPECT_EQ(target.parameters().initiator_max_recv_data_segment_length, 8192u);
}

// One key of the RFC's own is enough to show what the initiator goes by, and
// then its defaults are the RFC's.
TEST(IserLoginTest, AnRfcInitiatorGetsTheRfc) {
  IserPolicy policy;
  TargetLogin target(&policy, {});
  EXPECT_THAT(TargetAnswer(&target, "RDMAExtensions=Yes|MaxAHSLength=0|"),
              HasSubstr("MaxOutstandingUnexpectedPDUs=32|MaxAHSLength=256|"));
  const IserParameters& iser = target.parameters().iser;
  EXPECT_TRUE(iser.rfc7145);
  EXPECT_EQ(iser.initiator_max_ahs_length, 0u);
  EXPECT_EQ(iser.initiator_max_outstanding_unexpected_pdus, 0u);
  EXPECT_EQ(iser.write_base(), IserWriteBase::kWholeBuffer);
}

TEST(IserLoginTest, ADiscoveryThatAsksForRdmaIsGranted) {
  IserPolicy policy;
  TargetLogin target(&policy, {});
  const std::string answer = TargetAnswer(&target, kOpenIscsiKeys, "Discovery");
  EXPECT_THAT(answer, HasSubstr("RDMAExtensions=Yes|"));
  EXPECT_THAT(answer, HasSubstr("InitiatorRecvDataSegmentLength=8192|"));
  EXPECT_EQ(target.state(), TargetLogin::State::kFullFeature);
}

TEST(IserLoginTest, BadValuesEndTheLogin) {
  IserPolicy policy;
  for (const char* keys :
       {"RDMAExtensions=Maybe|", "RDMAExtensions=No|",
        "RDMAExtensions=Yes|MaxAHSLength=1|",
        "RDMAExtensions=Yes|MaxAHSLength=4294967296|",
        "RDMAExtensions=Yes|MaxOutstandingUnexpectedPDUs=x|",
        "RDMAExtensions=Yes|iSERHelloRequired=1|",
        "RDMAExtensions=Yes|MaxAHSLength=2|MaxAHSLength=2|"}) {
    TargetLogin target(&policy, {});
    TargetAnswer(&target, keys);
    EXPECT_EQ(target.state(), TargetLogin::State::kFailed) << keys;
    EXPECT_NE(target.failure(), "") << keys;
  }
}

TEST(IserLoginTest, LengthsOutOfRangeAreLeftAtTheDefault) {
  IserPolicy policy;
  TargetLogin target(&policy, {});
  EXPECT_THAT(TargetAnswer(&target,
                           "RDMAExtensions=Yes|TargetRecvDataSegmentLength=1|"),
              HasSubstr("TargetRecvDataSegmentLength=Reject|"));
  EXPECT_EQ(target.parameters().target_max_recv_data_segment_length, 8192u);
}

TEST(IserLoginTest, TheInitiatorProposesWhatTheFieldKnowsAndTheRfcHas) {
  InitiatorLogin initiator(IserOptions());
  const std::string keys = Shown(initiator.Start().data);
  EXPECT_THAT(keys, HasSubstr("|SessionType=Normal|RDMAExtensions=Yes|"));
  EXPECT_THAT(keys,
              HasSubstr("|TargetRecvDataSegmentLength=8192|"
                        "InitiatorRecvDataSegmentLength=8192|"
                        "MaxOutstandingUnexpectedPDUs=32|MaxAHSLength=256|"
                        "TaggedBufferForSolicitedDataOnly=Yes|"));
  EXPECT_THAT(keys, Not(HasSubstr("Digest")));
  EXPECT_THAT(keys, Not(HasSubstr("iSERHelloRequired")));
  EXPECT_THAT(keys, Not(HasSubstr("MaxRecvDataSegmentLength")));
}

constexpr char kTargetAnswers[] =
    "TargetPortalGroupTag=1|RDMAExtensions=Yes|InitialR2T=Yes|"
    "ImmediateData=Yes|MaxBurstLength=262144|FirstBurstLength=65536|"
    "DefaultTime2Wait=2|DefaultTime2Retain=0|MaxOutstandingR2T=1|"
    "DataPDUInOrder=Yes|DataSequenceInOrder=Yes|ErrorRecoveryLevel=0|"
    "MaxConnections=1|TargetRecvDataSegmentLength=8192|"
    "InitiatorRecvDataSegmentLength=8192|";

// The Linux target knows none of the RFC's own keys.
TEST(IserLoginTest, TheLinuxTarget) {
  InitiatorLoginOptions options = IserOptions();
  options.offer.iser.tagged_buffer_for_solicited_data_only = false;
  options.offer.iser.hello_required = true;
  InitiatorLogin initiator(options);
  EXPECT_EQ(InitiatorGets(&initiator,
                          absl::StrCat(kTargetAnswers,
                                       "MaxOutstandingUnexpectedPDUs="
                                       "NotUnderstood|"
                                       "MaxAHSLength=NotUnderstood|"
                                       "TaggedBufferForSolicitedDataOnly="
                                       "NotUnderstood|"
                                       "iSERHelloRequired=NotUnderstood|")),
            InitiatorLogin::State::kFullFeature)
      << initiator.failure();
  const IserParameters& iser = initiator.parameters().iser;
  EXPECT_FALSE(iser.rfc7145);
  EXPECT_FALSE(iser.hello_required);
  EXPECT_EQ(iser.initiator_max_outstanding_unexpected_pdus, 0u);
  EXPECT_EQ(iser.write_base(), IserWriteBase::kSolicitedData);
  EXPECT_EQ(initiator.parameters().initiator_max_recv_data_segment_length,
            8192u);
}

// tgt knows one of them, and answers it as if it were negotiated.
TEST(IserLoginTest, Tgt) {
  InitiatorLogin initiator(IserOptions());
  EXPECT_EQ(
      InitiatorGets(&initiator, absl::StrCat(kTargetAnswers,
                                             "MaxOutstandingUnexpectedPDUs=32|"
                                             "MaxAHSLength=NotUnderstood|"
                                             "TaggedBufferForSolicitedDataOnly="
                                             "NotUnderstood|")),
      InitiatorLogin::State::kFullFeature)
      << initiator.failure();
  EXPECT_FALSE(initiator.parameters().iser.rfc7145);
}

TEST(IserLoginTest, ATargetMayNotTakeMoreThanWasOffered) {
  InitiatorLogin initiator(IserOptions());
  EXPECT_EQ(InitiatorGets(&initiator,
                          "RDMAExtensions=Yes|"
                          "InitiatorRecvDataSegmentLength=16384|"),
            InitiatorLogin::State::kFailed);
  EXPECT_THAT(std::string(initiator.failure().message()),
              HasSubstr("can't be the answer to 8192"));
}

TEST(IserLoginTest, ATargetMayNotDeclareWhatIsTheInitiators) {
  InitiatorLogin initiator(IserOptions());
  EXPECT_EQ(
      InitiatorGets(&initiator, "RDMAExtensions=Yes|iSERHelloRequired=Yes|"),
      InitiatorLogin::State::kFailed);
}

TEST(IserLoginTest, NoMoreUnexpectedPdusThanReceives) {
  Offer offer;
  offer.iser.max_outstanding_unexpected_pdus = 1024;
  EXPECT_TRUE(Validate(offer, Role::kTarget).ok());
  offer.iser.max_outstanding_unexpected_pdus = 1025;
  EXPECT_THAT(std::string(Validate(offer, Role::kTarget).message()),
              HasSubstr("MaxOutstandingUnexpectedPDUs=1025"));
}

TEST(IserLoginTest, OffersAreValidated) {
  Offer offer;
  offer.iser.max_ahs_length = 1;
  EXPECT_THAT(std::string(Validate(offer, Role::kTarget).message()),
              HasSubstr("MaxAHSLength=1 is not in the range"));
  offer.iser.max_ahs_length = 2;
  EXPECT_TRUE(Validate(offer, Role::kTarget).ok());
  offer.iser.initiator_recv_data_segment_length = 511;
  EXPECT_FALSE(Validate(offer, Role::kTarget).ok());
}

// Of what we receive; what the peer does is its own business.
TEST(IserLoginTest, OffersPromiseNoMoreThanReceivesHold) {
  Offer offer;
  offer.iser.initiator_recv_data_segment_length = 262144;
  EXPECT_TRUE(Validate(offer, Role::kTarget).ok());
  EXPECT_EQ(Validate(offer, Role::kInitiator).message(),
            "InitiatorRecvDataSegmentLength=262144 is more than the receives "
            "of iSER hold, 8192");
  offer = Offer();
  offer.iser.target_recv_data_segment_length = 8193;
  EXPECT_TRUE(Validate(offer, Role::kInitiator).ok());
  EXPECT_EQ(Validate(offer, Role::kTarget).message(),
            "TargetRecvDataSegmentLength=8193 is more than the receives of "
            "iSER hold, 8192");
  for (const Role role : {Role::kInitiator, Role::kTarget}) {
    offer = Offer();
    offer.iser.max_ahs_length = 257;
    EXPECT_EQ(Validate(offer, role).message(),
              "MaxAHSLength=257 is more than the receives of iSER hold, 256");
    offer.iser.max_ahs_length = 0;
    EXPECT_EQ(Validate(offer, role).message(),
              "MaxAHSLength=0, which is no limit, is more than the receives of "
              "iSER hold, 256");
  }
}

}  // namespace
}  // namespace skiff::protocol
