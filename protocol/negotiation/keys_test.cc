#include "protocol/negotiation/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "protocol/codec/text.h"

namespace skiff::protocol {
namespace {

using ::testing::HasSubstr;

TEST(KeysTest, NamesAreKeyNamesAndDistinct) {
  std::set<absl::string_view> names;
  for (const KeySpec& key : AllKeys()) {
    EXPECT_TRUE(IsKeyName(key.name)) << key.name;
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(FindKey(key.name), &key);
  }
  EXPECT_EQ(FindKey("headerdigest"), nullptr);
  EXPECT_EQ(FindKey(""), nullptr);
}

// RFC 7143 section 13, RFC 7144 section 7 and RFC 7145 section 6 in full, and
// AuthMethod.
TEST(KeysTest, EveryKeyOfTheStandards) {
  for (const char* name : {"AuthMethod",
                           "HeaderDigest",
                           "DataDigest",
                           "MaxConnections",
                           "SendTargets",
                           "TargetName",
                           "InitiatorName",
                           "TargetAlias",
                           "InitiatorAlias",
                           "TargetAddress",
                           "TargetPortalGroupTag",
                           "InitialR2T",
                           "ImmediateData",
                           "MaxRecvDataSegmentLength",
                           "MaxBurstLength",
                           "FirstBurstLength",
                           "DefaultTime2Wait",
                           "DefaultTime2Retain",
                           "MaxOutstandingR2T",
                           "DataPDUInOrder",
                           "DataSequenceInOrder",
                           "ErrorRecoveryLevel",
                           "SessionType",
                           "TaskReporting",
                           "iSCSIProtocolLevel",
                           "IFMarker",
                           "OFMarker",
                           "IFMarkInt",
                           "OFMarkInt",
                           "X#NodeArchitecture",
                           "RDMAExtensions",
                           "TargetRecvDataSegmentLength",
                           "InitiatorRecvDataSegmentLength",
                           "MaxOutstandingUnexpectedPDUs",
                           "MaxAHSLength",
                           "TaggedBufferForSolicitedDataOnly",
                           "iSERHelloRequired"}) {
    EXPECT_NE(FindKey(name), nullptr) << name;
  }
}

// A row is complete: what it is decides what it needs.
TEST(KeysTest, RowsAreConsistent) {
  for (const KeySpec& key : AllKeys()) {
    SCOPED_TRACE(std::string(key.name));
    EXPECT_NE(key.from_initiator | key.from_target, kNever);
    const bool number = key.type == KeyType::kNumber;
    EXPECT_EQ(number, key.maximum != 0);
    EXPECT_LE(key.minimum, key.maximum);
    const bool negotiated = key.result != KeyResult::kDeclaration &&
                            key.result != KeyResult::kRejected;
    if (key.use != KeyUse::kOperational) continue;
    EXPECT_EQ(number, static_cast<bool>(key.number_offer));
    EXPECT_EQ(number, static_cast<bool>(key.number_of_initiator));
    EXPECT_EQ(number, static_cast<bool>(key.number_of_target));
    const bool boolean = key.type == KeyType::kBoolean;
    EXPECT_EQ(boolean, static_cast<bool>(key.flag_offer));
    EXPECT_EQ(boolean, static_cast<bool>(key.flag));
    // A flag that is declared is one side's: there is one place for it.
    if (boolean && !negotiated) {
      EXPECT_EQ(key.from_target, kNever);
    }
    if (key.type == KeyType::kList) {
      EXPECT_EQ(key.digest_offer == nullptr, !key.only_choice.empty());
    }
    if (negotiated && number) {
      EXPECT_EQ(key.number_of_initiator, key.number_of_target);
    }
    // Keys of the session belong to its first connection.
    if (negotiated) {
      EXPECT_EQ(key.scope == KeyScope::kSession, key.leading_only);
    }
  }
}

// Section 13's defaults are what Parameters starts with.
TEST(KeysTest, DefaultsAreInRange) {
  const Parameters defaults;
  for (const KeySpec& key : AllKeys()) {
    if (!key.number_of_target) continue;
    EXPECT_TRUE(InRange(key, key.number_of_target.In(defaults))) << key.name;
    EXPECT_TRUE(InRange(key, key.number_of_initiator.In(defaults))) << key.name;
  }
  EXPECT_TRUE(CheckIntegrity(defaults).ok());
}

TEST(KeysTest, WhoAndWhen) {
  const KeySpec& alias = *FindKey("TargetAlias");
  EXPECT_TRUE(CheckKeyAllowed(alias, Role::kTarget, kInSecurity).ok());
  EXPECT_THAT(
      std::string(
          CheckKeyAllowed(alias, Role::kInitiator, kInSecurity).message()),
      HasSubstr("not for an initiator"));
  const KeySpec& burst = *FindKey("MaxBurstLength");
  EXPECT_TRUE(CheckKeyAllowed(burst, Role::kInitiator, kInOperational).ok());
  EXPECT_THAT(
      std::string(
          CheckKeyAllowed(burst, Role::kInitiator, kInSecurity).message()),
      HasSubstr("not allowed in security"));
  EXPECT_FALSE(CheckKeyAllowed(burst, Role::kTarget, kInFullFeature).ok());
  const KeySpec& name = *FindKey("TargetName");
  EXPECT_TRUE(CheckKeyAllowed(name, Role::kInitiator, kInOperational).ok());
  EXPECT_FALSE(CheckKeyAllowed(name, Role::kTarget, kInOperational).ok());
  EXPECT_TRUE(CheckKeyAllowed(name, Role::kTarget, kInFullFeature).ok());
  const KeySpec& auth = *FindKey("AuthMethod");
  EXPECT_TRUE(CheckKeyAllowed(auth, Role::kInitiator, kInSecurity).ok());
  EXPECT_FALSE(CheckKeyAllowed(auth, Role::kInitiator, kInOperational).ok());
  const KeySpec& receive = *FindKey("MaxRecvDataSegmentLength");
  EXPECT_TRUE(CheckKeyAllowed(receive, Role::kTarget, kInFullFeature).ok());
  EXPECT_FALSE(CheckKeyAllowed(receive, Role::kTarget, kInSecurity).ok());
}

// What section 12 lists for the security stage, and nothing else.
TEST(KeysTest, SecurityStage) {
  std::set<std::string> keys;
  for (const KeySpec& key : AllKeys()) {
    if (((key.from_initiator | key.from_target) & kInSecurity) != 0) {
      keys.insert(std::string(key.name));
    }
  }
  EXPECT_EQ(keys, (std::set<std::string>{
                      "SessionType", "InitiatorName", "TargetName",
                      "TargetAddress", "InitiatorAlias", "TargetAlias",
                      "TargetPortalGroupTag", "AuthMethod"}));
}

struct BadOffer {
  std::function<void(Offer*)> change;
  const char* error;
};

TEST(ValidateTest, TheDefaultOfferIsValid) {
  EXPECT_TRUE(Validate(Offer(), Role::kTarget).ok());
}

TEST(ValidateTest, Errors) {
  const BadOffer cases[] = {
      {[](Offer* o) { o->header_digest.clear(); }, "HeaderDigest: no digest"},
      {[](Offer* o) {
         o->data_digest = {Digest::kNone, Digest::kNone};
       },
       "DataDigest: a digest is offered twice"},
      {[](Offer* o) { o->max_connections = 0; }, "MaxConnections=0"},
      {[](Offer* o) { o->max_connections = 65536; }, "range 1 to 65535"},
      {[](Offer* o) { o->max_recv_data_segment_length = 511; },
       "MaxRecvDataSegmentLength=511 is not in the range 512 to 16777215"},
      {[](Offer* o) { o->max_recv_data_segment_length = 1 << 24; },
       "MaxRecvDataSegmentLength"},
      {[](Offer* o) { o->max_burst_length = 1 << 24; }, "MaxBurstLength"},
      {[](Offer* o) { o->first_burst_length = 100; }, "FirstBurstLength"},
      {[](Offer* o) { o->first_burst_length = o->max_burst_length + 1; },
       "exceeds MaxBurstLength"},
      {[](Offer* o) { o->default_time2wait = 3601; }, "DefaultTime2Wait"},
      {[](Offer* o) { o->default_time2retain = 3601; }, "DefaultTime2Retain"},
      {[](Offer* o) { o->max_outstanding_r2t = 0; }, "MaxOutstandingR2T"},
      {[](Offer* o) { o->error_recovery_level = 3; }, "ErrorRecoveryLevel"},
      {[](Offer* o) { o->error_recovery_level = 1; },
       "MaxOutstandingR2T=8 must be 1"},
      {[](Offer* o) { o->iscsi_protocol_level = 32; }, "iSCSIProtocolLevel"},
  };
  for (const BadOffer& bad : cases) {
    Offer offer;
    bad.change(&offer);
    const absl::Status status = Validate(offer, Role::kTarget);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.error;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.error));
  }
}

TEST(ValidateTest, FirstBurstDoesNotMatterWithoutUnsolicitedData) {
  Offer offer;
  offer.initial_r2t = true;
  offer.immediate_data = false;
  offer.max_burst_length = 512;
  EXPECT_TRUE(Validate(offer, Role::kTarget).ok());
}

}  // namespace
}  // namespace skiff::protocol
