#include "protocol/negotiation/negotiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

std::vector<TextPair> Views(const std::vector<KeyValue>& keys) {
  std::vector<TextPair> pairs;
  for (const KeyValue& key : keys) pairs.push_back({key.first, key.second});
  return pairs;
}

// "A=1 B=2" from keys and back.
std::string Joined(const std::vector<KeyValue>& keys) {
  return absl::StrJoin(keys, " ", absl::PairFormatter("="));
}
std::vector<KeyValue> Keys(absl::string_view text) {
  std::vector<KeyValue> keys;
  for (absl::string_view pair : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    keys.push_back(absl::StrSplit(pair, absl::MaxSplits('=', 1)));
  }
  return keys;
}

Negotiator::Options As(Role role) {
  Negotiator::Options options;
  options.role = role;
  return options;
}

// What a target with `offer` answers; errors as "! message".
std::string Answer(Negotiator* negotiator, absl::string_view keys,
                   uint8_t stage = kInOperational) {
  const std::vector<KeyValue> in = Keys(keys);
  std::vector<KeyValue> out;
  const absl::Status status = negotiator->OnKeys(stage, Views(in), &out);
  if (!status.ok()) return absl::StrCat("! ", status.message());
  return Joined(out);
}
std::string TargetAnswer(absl::string_view keys, const Offer& offer = Offer()) {
  Negotiator target(As(Role::kTarget), offer);
  return Answer(&target, keys);
}

// What an initiator that proposed `offer` makes of the target's keys.
std::string InitiatorAnswer(absl::string_view keys,
                            const Offer& offer = Offer(),
                            Parameters* parameters = nullptr) {
  Negotiator initiator(As(Role::kInitiator), offer);
  std::vector<KeyValue> proposals;
  initiator.ProposeAll(&proposals);
  std::string answer = Answer(&initiator, keys);
  if (parameters != nullptr) *parameters = initiator.parameters();
  return answer;
}

TEST(NegotiatorTest, TheInitiatorProposesEverything) {
  Negotiator initiator(As(Role::kInitiator), Offer());
  std::vector<KeyValue> out;
  initiator.ProposeAll(&out);
  EXPECT_EQ(Joined(out),
            "HeaderDigest=None,CRC32C DataDigest=None,CRC32C MaxConnections=1 "
            "InitialR2T=No ImmediateData=Yes MaxRecvDataSegmentLength=262144 "
            "MaxBurstLength=1048576 FirstBurstLength=262144 DefaultTime2Wait=0 "
            "DefaultTime2Retain=0 MaxOutstandingR2T=8 DataPDUInOrder=Yes "
            "DataSequenceInOrder=Yes ErrorRecoveryLevel=0");
  out.clear();
  initiator.ProposeAll(&out);
  EXPECT_TRUE(out.empty()) << "nothing is proposed twice";
}

TEST(NegotiatorTest, TheTargetOnlyDeclares) {
  Negotiator target(As(Role::kTarget), Offer());
  std::vector<KeyValue> out;
  target.Declare(&out);
  EXPECT_EQ(Joined(out), "MaxRecvDataSegmentLength=262144");
  EXPECT_EQ(target.parameters().target_max_recv_data_segment_length, 262144u);
  EXPECT_EQ(target.parameters().initiator_max_recv_data_segment_length, 8192u);
}

TEST(NegotiatorTest, ResultFunctions) {
  Offer offer;
  offer.header_digest = {Digest::kCrc32c};
  const std::pair<const char*, const char*> cases[] = {
      // OR.
      {"InitialR2T=Yes", "InitialR2T=Yes"},
      {"InitialR2T=No", "InitialR2T=No"},
      {"DataPDUInOrder=No", "DataPDUInOrder=Yes"},
      // AND.
      {"ImmediateData=Yes", "ImmediateData=Yes"},
      {"ImmediateData=No", "ImmediateData=No"},
      // Minimum and maximum.
      {"MaxBurstLength=512", "MaxBurstLength=512"},
      {"MaxBurstLength=16777215", "MaxBurstLength=1048576"},
      {"MaxBurstLength=0x10000", "MaxBurstLength=65536"},
      {"DefaultTime2Wait=0", "DefaultTime2Wait=0"},
      {"DefaultTime2Wait=3600", "DefaultTime2Wait=3600"},
      {"DefaultTime2Retain=20", "DefaultTime2Retain=0"},
      {"MaxConnections=65535", "MaxConnections=1"},
      {"ErrorRecoveryLevel=2", "ErrorRecoveryLevel=0"},
      {"iSCSIProtocolLevel=2", "iSCSIProtocolLevel=1"},
      {"iSCSIProtocolLevel=0", "iSCSIProtocolLevel=0"},
      // Lists: the proposer's order.
      {"DataDigest=CRC32C,None", "DataDigest=CRC32C"},
      {"DataDigest=None,CRC32C", "DataDigest=None"},
      {"DataDigest=Y-com.example.x,CRC32C", "DataDigest=CRC32C"},
      {"HeaderDigest=None,CRC32C", "HeaderDigest=CRC32C"},
      {"TaskReporting=FastAbort,ResponseFence,RFC3720",
       "TaskReporting=RFC3720"},
      {"TaskReporting=FastAbort", "TaskReporting=Reject"},
      // Declarations need no answer.
      {"MaxRecvDataSegmentLength=512", ""},
      {"X#NodeArchitecture=ExampleOS/v1234", ""},
      // Out of bounds.
      {"MaxBurstLength=511", "MaxBurstLength=Reject"},
      {"MaxOutstandingR2T=0", "MaxOutstandingR2T=Reject"},
      {"DefaultTime2Wait=3601", "DefaultTime2Wait=Reject"},
      // Obsolete, section 13.25.
      {"OFMarker=No IFMarker=Yes OFMarkInt=2048~8192 IFMarkInt=1",
       "OFMarker=Reject IFMarker=Reject OFMarkInt=Reject IFMarkInt=Reject"},
      // Unknown.
      {"X-com.example.frob=1", "X-com.example.frob=NotUnderstood"},
      // Not on this connection.
      {"RDMAExtensions=Yes", "RDMAExtensions=No"},
      {"TargetRecvDataSegmentLength=8192 InitiatorRecvDataSegmentLength=512",
       "TargetRecvDataSegmentLength=Irrelevant "
       "InitiatorRecvDataSegmentLength=Irrelevant"},
      {"MaxAHSLength=0 iSERHelloRequired=Yes", ""},
  };
  for (const auto& [keys, answer] : cases) {
    EXPECT_EQ(TargetAnswer(keys, offer), answer) << keys;
  }
}

TEST(NegotiatorTest, FirstBurstFollowsWhatItDependsOn) {
  Offer offer;
  offer.max_burst_length = 8192;
  offer.first_burst_length = 8192;
  // Not above the MaxBurstLength agreed on, whatever the order.
  EXPECT_EQ(TargetAnswer("FirstBurstLength=65536 MaxBurstLength=4096", offer),
            "MaxBurstLength=4096 FirstBurstLength=4096");
  // Irrelevant without unsolicited data.
  offer.initial_r2t = true;
  EXPECT_EQ(TargetAnswer("FirstBurstLength=4192 InitialR2T=No ImmediateData=No",
                         offer),
            "InitialR2T=Yes ImmediateData=No FirstBurstLength=Irrelevant");
  Negotiator initiator(As(Role::kInitiator), [] {
    Offer offer;
    offer.initial_r2t = true;
    offer.immediate_data = false;
    return offer;
  }());
  std::vector<KeyValue> out;
  initiator.ProposeAll(&out);
  EXPECT_THAT(Joined(out), ::testing::Not(HasSubstr("FirstBurstLength")));
}

TEST(NegotiatorTest, DiscoveryKeepsOnlyWhatIsRelevant) {
  Negotiator::Options options = As(Role::kTarget);
  options.session_type = SessionType::kDiscovery;
  Negotiator target(options, Offer());
  EXPECT_EQ(
      Answer(&target,
             "HeaderDigest=None MaxConnections=4 InitialR2T=No "
             "ImmediateData=Yes MaxBurstLength=65536 FirstBurstLength=65536 "
             "DefaultTime2Wait=0 DefaultTime2Retain=0 MaxOutstandingR2T=1 "
             "DataPDUInOrder=No DataSequenceInOrder=No ErrorRecoveryLevel=2"),
      "HeaderDigest=None MaxConnections=Irrelevant InitialR2T=Irrelevant "
      "ImmediateData=Irrelevant MaxBurstLength=Irrelevant "
      "FirstBurstLength=Irrelevant DefaultTime2Wait=0 DefaultTime2Retain=0 "
      "MaxOutstandingR2T=Irrelevant DataPDUInOrder=Irrelevant "
      "DataSequenceInOrder=Irrelevant ErrorRecoveryLevel=0");
  EXPECT_EQ(target.parameters().max_connections, 1u);
  options.role = Role::kInitiator;
  Negotiator initiator(options, Offer());
  std::vector<KeyValue> out;
  initiator.ProposeAll(&out);
  EXPECT_EQ(Joined(out),
            "HeaderDigest=None,CRC32C DataDigest=None,CRC32C "
            "MaxRecvDataSegmentLength=262144 DefaultTime2Wait=0 "
            "DefaultTime2Retain=0 ErrorRecoveryLevel=0");
}

TEST(NegotiatorTest, LaterConnectionsNegotiateTheirOwnKeysOnly) {
  Negotiator::Options options = As(Role::kTarget);
  options.leading = false;
  Negotiator target(options, Offer());
  EXPECT_EQ(Answer(&target, "DataDigest=CRC32C MaxBurstLength=512"),
            "DataDigest=CRC32C MaxBurstLength=Irrelevant");
  options.role = Role::kInitiator;
  Negotiator initiator(options, Offer());
  std::vector<KeyValue> out;
  initiator.ProposeAll(&out);
  EXPECT_EQ(Joined(out),
            "HeaderDigest=None,CRC32C DataDigest=None,CRC32C "
            "MaxRecvDataSegmentLength=262144");
}

TEST(NegotiatorTest, ProposalsThatEndTheLogin) {
  Offer offer;
  offer.header_digest = {Digest::kCrc32c};
  const std::pair<const char*, const char*> cases[] = {
      {"InitialR2T=yes", "neither Yes nor No"},
      {"InitialR2T=", "neither Yes nor No"},
      {"MaxBurstLength=abc", "not a number from 512"},
      {"MaxBurstLength=-1", "not a number from 512"},
      {"MaxBurstLength=512~1024", "not a number from 512"},
      {"MaxBurstLength=99999999999999999999", "not a number from 512"},
      {"HeaderDigest=None", "only CRC32C"},
      {"DataDigest=Y-unknown", "only None,CRC32C"},
      {"DataDigest=", "not a list"},
      {"DataDigest=CRC32C,,None", "not a list"},
      {"MaxRecvDataSegmentLength=511", "512 to 16777215"},
      {"MaxRecvDataSegmentLength=16777216", "512 to 16777215"},
      {"MaxRecvDataSegmentLength=0", "512 to 16777215"},
      {"MaxRecvDataSegmentLength=Reject", "only an answer"},
      {"InitialR2T=Irrelevant", "only an answer"},
      {"IFMarker=NotUnderstood", "only an answer"},
      {"X-com.example.a=NotUnderstood", "never sent"},
      {"ImmediateData=Yes ImmediateData=Yes", "second time"},
      {"IFMarker=No IFMarker=No", "second time"},
      {"MaxRecvDataSegmentLength=512 MaxRecvDataSegmentLength=512",
       "second time"},
      {"TargetAlias=x", "not for an initiator"},
      {"TargetPortalGroupTag=1", "not for an initiator"},
      {"AuthMethod=None", "not allowed in operational"},
      {"SendTargets=All", "not allowed in operational"},
      {"InitiatorName=iqn.2001-04.com.example", "no place"},
  };
  for (const auto& [keys, error] : cases) {
    const std::string answer = TargetAnswer(keys, offer);
    EXPECT_THAT(answer, ::testing::StartsWith("! ")) << keys;
    EXPECT_THAT(answer, HasSubstr(error)) << keys;
  }
}

TEST(NegotiatorTest, ARepeatInALaterKeySetIsARenegotiation) {
  Negotiator target(As(Role::kTarget), Offer());
  EXPECT_EQ(Answer(&target, "MaxBurstLength=65536"), "MaxBurstLength=65536");
  EXPECT_THAT(Answer(&target, "MaxBurstLength=65536"),
              HasSubstr("second time"));
}

TEST(NegotiatorTest, OperationalKeysHaveNoPlaceInSecurity) {
  Negotiator target(As(Role::kTarget), Offer());
  EXPECT_THAT(Answer(&target, "MaxBurstLength=65536", kInSecurity),
              HasSubstr("not allowed in security"));
}

TEST(NegotiatorTest, UnknownKeysAreBounded) {
  Negotiator::Options options = As(Role::kTarget);
  options.max_unknown_keys = 2;
  Negotiator target(options, Offer());
  EXPECT_EQ(Answer(&target, "A=1 B=2"), "A=NotUnderstood B=NotUnderstood");
  EXPECT_THAT(Answer(&target, "C=3"), HasSubstr("more than 2 unknown keys"));
}

TEST(NegotiatorTest, FullFeaturePhaseRedeclares) {
  Parameters current;
  current.initiator_max_recv_data_segment_length = 4096;
  Negotiator target(As(Role::kTarget), Offer(), current);
  EXPECT_EQ(Answer(&target, "MaxRecvDataSegmentLength=65536", kInFullFeature),
            "");
  EXPECT_EQ(target.parameters().initiator_max_recv_data_segment_length, 65536u);
  EXPECT_THAT(Answer(&target, "InitialR2T=No", kInFullFeature),
              HasSubstr("not allowed in the full feature phase"));
}

TEST(NegotiatorTest, AnswersThatAreAccepted) {
  Parameters parameters;
  EXPECT_EQ(
      InitiatorAnswer("HeaderDigest=CRC32C InitialR2T=Yes ImmediateData=No "
                      "FirstBurstLength=Irrelevant MaxBurstLength=65536 "
                      "DefaultTime2Wait=5 MaxConnections=Reject "
                      "MaxRecvDataSegmentLength=65536 "
                      "DataPDUInOrder=Yes",
                      Offer(), &parameters),
      "");
  EXPECT_EQ(parameters.header_digest, Digest::kCrc32c);
  EXPECT_TRUE(parameters.initial_r2t);
  EXPECT_FALSE(parameters.immediate_data);
  EXPECT_EQ(parameters.max_burst_length, 65536u);
  EXPECT_EQ(parameters.default_time2wait, 5u);
  EXPECT_EQ(parameters.max_connections, 1u);
  EXPECT_EQ(parameters.target_max_recv_data_segment_length, 65536u);
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 262144u);
}

TEST(NegotiatorTest, AnswersThatEndTheLogin) {
  Offer offer;
  offer.immediate_data = false;
  offer.data_digest = {Digest::kCrc32c};
  offer.max_burst_length = 65536;
  offer.first_burst_length = 65536;
  offer.default_time2wait = 2;
  const std::pair<const char*, const char*> cases[] = {
      {"ImmediateData=Yes", "can't be the answer to No"},
      {"DataPDUInOrder=No", "can't be the answer to Yes"},
      {"MaxBurstLength=65537", "can't be the answer to 65536"},
      {"DefaultTime2Wait=1", "can't be the answer to 2"},
      {"MaxBurstLength=100", "512 to 16777215"},
      {"MaxBurstLength=Maybe", "512 to 16777215"},
      {"DefaultTime2Wait=3601", "0 to 3600"},
      {"ImmediateData=Maybe", "neither Yes nor No"},
      {"DataDigest=None", "not offered"},
      {"HeaderDigest=None,CRC32C", "not offered"},
      {"HeaderDigest=CRC16", "not offered"},
      {"DataDigest=Reject", "was answered with Reject"},
      {"DataDigest=Irrelevant", "was answered with Irrelevant"},
      {"MaxBurstLength=Reject", "the default does not satisfy"},
      {"InitialR2T=NotUnderstood", "must understand"},
      {"InitialR2T=Yes InitialR2T=Yes", "second time"},
      {"InitiatorAlias=x", "not for a target"},
      {"TargetName=iqn.2001-04.com.example", "not allowed in operational"},
  };
  for (const auto& [keys, error] : cases) {
    const std::string answer = InitiatorAnswer(keys, offer);
    EXPECT_THAT(answer, ::testing::StartsWith("! ")) << keys;
    EXPECT_THAT(answer, HasSubstr(error)) << keys;
  }
}

TEST(NegotiatorTest, ATargetMayProposeToo) {
  Negotiator initiator(As(Role::kInitiator), Offer());
  EXPECT_EQ(Answer(&initiator, "MaxBurstLength=65536 IFMarker=No"),
            "MaxBurstLength=65536 IFMarker=Reject");
  std::vector<KeyValue> out;
  initiator.ProposeAll(&out);
  EXPECT_THAT(Joined(out), ::testing::Not(HasSubstr("MaxBurstLength")));
}

TEST(NegotiatorTest, NotUnderstoodConcludesLaterKeys) {
  Offer offer;
  offer.iscsi_protocol_level = 2;
  Parameters parameters;
  EXPECT_EQ(
      InitiatorAnswer("iSCSIProtocolLevel=NotUnderstood", offer, &parameters),
      "");
  EXPECT_EQ(parameters.iscsi_protocol_level, 1u);
}

TEST(NegotiatorTest, UnansweredKeys) {
  Offer offer;
  offer.immediate_data = false;
  offer.first_burst_length = 65536;
  Negotiator initiator(As(Role::kInitiator), offer);
  std::vector<KeyValue> out;
  initiator.ProposeAll(&out);
  // The defaults satisfy everything but the maximum of Time2Retain, which is 0
  // in the offer. No to an AND is the result without an answer.
  EXPECT_EQ(Answer(&initiator, "DefaultTime2Retain=0"), "");
  EXPECT_TRUE(initiator.Finish().ok());
  EXPECT_FALSE(initiator.parameters().immediate_data);
  EXPECT_EQ(initiator.parameters().max_burst_length, 262144u);

  Negotiator strict(As(Role::kInitiator), offer);
  strict.ProposeAll(&out);
  EXPECT_THAT(std::string(strict.Finish().message()),
              HasSubstr("DefaultTime2Retain=0 was not answered"));
}

TEST(NegotiatorTest, FinishChecksIntegrity) {
  Negotiator target(As(Role::kTarget), Offer());
  EXPECT_EQ(Answer(&target, "MaxBurstLength=8192"), "MaxBurstLength=8192");
  EXPECT_THAT(std::string(target.Finish().message()),
              HasSubstr("FirstBurstLength=65536 exceeds MaxBurstLength=8192"));
}

Offer RandomOffer(std::mt19937* random) {
  const auto pick = [random](uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>((*random)() % (high - low + 1));
  };
  const auto digests = [&]() -> std::vector<Digest> {
    switch (pick(0, 3)) {
      case 0:
        return {Digest::kNone};
      case 1:
        return {Digest::kCrc32c, Digest::kNone};
      default:
        return {Digest::kNone, Digest::kCrc32c};
    }
  };
  Offer offer;
  offer.header_digest = digests();
  offer.data_digest = digests();
  offer.max_connections = pick(1, 65535);
  offer.initial_r2t = pick(0, 1) != 0;
  offer.immediate_data = pick(0, 1) != 0;
  offer.max_recv_data_segment_length = pick(512, (1 << 24) - 1);
  offer.max_burst_length = pick(512, (1 << 24) - 1);
  offer.first_burst_length = pick(512, offer.max_burst_length);
  offer.default_time2wait = pick(0, 3600);
  offer.default_time2retain = pick(0, 3600);
  offer.error_recovery_level = pick(0, 2);
  offer.data_pdu_in_order = pick(0, 1) != 0;
  offer.data_sequence_in_order = pick(0, 1) != 0;
  offer.max_outstanding_r2t =
      offer.error_recovery_level != 0 && offer.data_sequence_in_order
          ? 1
          : pick(1, 65535);
  offer.iscsi_protocol_level = pick(0, 31);
  return offer;
}

// Whatever two sides offer, they agree, and both offers are kept.
TEST(NegotiatorTest, BothSidesAgree) {
  std::mt19937 random(42);
  for (int round = 0; round < 20000; ++round) {
    const Offer offer_i = RandomOffer(&random);
    const Offer offer_t = RandomOffer(&random);
    ASSERT_TRUE(Validate(offer_i, Role::kInitiator).ok() &&
                Validate(offer_t, Role::kTarget).ok());
    Negotiator initiator(As(Role::kInitiator), offer_i);
    Negotiator target(As(Role::kTarget), offer_t);
    std::vector<KeyValue> proposals;
    initiator.ProposeAll(&proposals);
    std::shuffle(proposals.begin(), proposals.end(), random);
    std::vector<KeyValue> answers;
    target.Declare(&answers);
    ASSERT_TRUE(target.OnKeys(kInOperational, Views(proposals), &answers).ok());
    std::vector<KeyValue> more;
    const absl::Status status =
        initiator.OnKeys(kInOperational, Views(answers), &more);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(more.empty());
    ASSERT_TRUE(initiator.Finish().ok());
    ASSERT_TRUE(target.Finish().ok());
    const Parameters& p = target.parameters();
    ASSERT_EQ(p, initiator.parameters());
    EXPECT_EQ(p.initial_r2t, offer_i.initial_r2t || offer_t.initial_r2t);
    EXPECT_EQ(p.immediate_data,
              offer_i.immediate_data && offer_t.immediate_data);
    EXPECT_EQ(p.max_burst_length,
              std::min(offer_i.max_burst_length, offer_t.max_burst_length));
    EXPECT_EQ(p.default_time2wait,
              std::max(offer_i.default_time2wait, offer_t.default_time2wait));
    EXPECT_EQ(p.initiator_max_recv_data_segment_length,
              offer_i.max_recv_data_segment_length);
    EXPECT_EQ(p.target_max_recv_data_segment_length,
              offer_t.max_recv_data_segment_length);
  }
}

// Keys and values near the real ones: no crash, and answers only to what came.
TEST(NegotiatorTest, RandomKeysAreSafe) {
  std::mt19937 random(43);
  const std::vector<std::string> values = {
      "Yes", "No",  "None", "CRC32C", "Reject", "Irrelevant", "0",
      "1",   "512", "8192", "0x200",  "1~2",    "",           "CRC32C,None"};
  for (int round = 0; round < 50000; ++round) {
    Negotiator negotiator(
        As(random() % 2 == 0 ? Role::kTarget : Role::kInitiator), Offer());
    std::vector<KeyValue> out;
    if (random() % 2 == 0) negotiator.ProposeAll(&out);
    for (int i = 0; i < 4; ++i) {
      const KeySpec& key = AllKeys()[random() % AllKeys().size()];
      const std::vector<KeyValue> in = {
          {std::string(key.name), values[random() % values.size()]}};
      out.clear();
      if (!negotiator.OnKeys(kInOperational, Views(in), &out).ok()) break;
      EXPECT_TRUE(out.empty() || out[0].first == in[0].first);
    }
    const Parameters& p = negotiator.parameters();
    EXPECT_GE(p.max_burst_length, 512u);
    EXPECT_GE(p.target_max_recv_data_segment_length, 512u);
    EXPECT_GE(p.initiator_max_recv_data_segment_length, 512u);
    EXPECT_GE(p.max_outstanding_r2t, 1u);
  }
}

}  // namespace
}  // namespace skiff::protocol
