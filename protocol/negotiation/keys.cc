#include "protocol/negotiation/keys.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kMinDataLength = 512;
constexpr uint32_t kMaxDataLength = kMaxDataSegmentLength;

// Without unsolicited data, its limit has no meaning (RFC 7143 section 13.14).
bool NoUnsolicitedData(const Parameters& parameters) {
  return parameters.initial_r2t && !parameters.immediate_data;
}

bool MayHaveUnsolicitedData(const Offer& offer) {
  return !offer.initial_r2t || offer.immediate_data;
}

// Level 1 is what a peer assumes anyway (RFC 7144 section 7.1.1).
bool HasProtocolLevel(const Offer& offer) {
  return offer.iscsi_protocol_level != 1;
}

// Digests and MaxRecvDataSegmentLength have no place in iSER (RFC 7145 sections
// 6.1 and 6.2).
bool OverStream(const Offer& offer) { return !offer.iser.enabled; }

bool OverIser(const Offer& offer) { return offer.iser.enabled; }

bool WithRfc7145Keys(const Offer& offer) {
  return offer.iser.enabled && offer.iser.rfc7145_keys;
}

// What is not wanted needs no key: a declaration that says the default.
bool HelloWanted(const Offer& offer) {
  return WithRfc7145Keys(offer) && offer.iser.hello_required;
}

// "Irrelevant when: RDMAExtensions=No" (RFC 7145 section 6).
bool NoRdmaExtensions(const Parameters& parameters) {
  return !parameters.iser.rdma_extensions;
}

const KeySpec kKeys[] = {
    // Who is who: sections 13.4 to 13.9 and 13.21.
    {.name = "InitiatorName",
     .type = KeyType::kName,
     .use = KeyUse::kIdentity,
     .from_initiator = kInLogin,
     .from_target = kNever},
    {.name = "InitiatorAlias",
     .type = KeyType::kLocalName,
     .use = KeyUse::kIdentity,
     .from_initiator = kInAnyStage,
     .from_target = kNever},
    // A target names itself only in the answer to SendTargets.
    {.name = "TargetName",
     .type = KeyType::kName,
     .use = KeyUse::kIdentity,
     .from_initiator = kInLogin,
     .from_target = kInFullFeature},
    {.name = "TargetAlias",
     .type = KeyType::kLocalName,
     .use = KeyUse::kIdentity,
     .from_initiator = kNever,
     .from_target = kInAnyStage},
    {.name = "TargetAddress",
     .type = KeyType::kText,
     .use = KeyUse::kIdentity,
     .from_initiator = kNever,
     .from_target = kInAnyStage,
     .repeatable = true},
    {.name = "TargetPortalGroupTag",
     .type = KeyType::kNumber,
     .use = KeyUse::kIdentity,
     .from_initiator = kNever,
     .from_target = kInLogin,
     .maximum = 65535},
    {.name = "SessionType",
     .type = KeyType::kText,
     .use = KeyUse::kIdentity,
     .from_initiator = kInLogin,
     .from_target = kNever,
     .leading_only = true},

    // Section 12.1.
    {.name = "AuthMethod",
     .type = KeyType::kList,
     .result = KeyResult::kChoice,
     .use = KeyUse::kSecurity,
     .scope = KeyScope::kConnection,
     .from_initiator = kInSecurity,
     .from_target = kInSecurity},

    // Section 13.3.
    {.name = "SendTargets",
     .type = KeyType::kText,
     .use = KeyUse::kDiscovery,
     .from_initiator = kInFullFeature,
     .from_target = kNever},

    // RFC 7145 section 6.3. First, because others depend on it. The RFC knows
    // no discovery over iSER, but initiators of the field do it.
    {.name = "RDMAExtensions",
     .type = KeyType::kBoolean,
     .result = KeyResult::kAnd,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .tolerated_in_discovery = true,
     .later = true,
     .proposed_when = OverIser,
     .flag_offer = &IserOffer::enabled,
     .flag = &IserParameters::rdma_extensions},

    // Operational keys: sections 13.1 and 13.10 to 13.20.
    {.name = "HeaderDigest",
     .type = KeyType::kList,
     .result = KeyResult::kChoice,
     .scope = KeyScope::kConnection,
     .proposed_when = OverStream,
     .digest_offer = &Offer::header_digest,
     .digest = &Parameters::header_digest},
    {.name = "DataDigest",
     .type = KeyType::kList,
     .result = KeyResult::kChoice,
     .scope = KeyScope::kConnection,
     .proposed_when = OverStream,
     .digest_offer = &Offer::data_digest,
     .digest = &Parameters::data_digest},
    {.name = "MaxConnections",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .minimum = 1,
     .maximum = 65535,
     .number_offer = &Offer::max_connections,
     .number_of_initiator = &Parameters::max_connections,
     .number_of_target = &Parameters::max_connections},
    {.name = "InitialR2T",
     .type = KeyType::kBoolean,
     .result = KeyResult::kOr,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .flag_offer = &Offer::initial_r2t,
     .flag = &Parameters::initial_r2t},
    {.name = "ImmediateData",
     .type = KeyType::kBoolean,
     .result = KeyResult::kAnd,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .flag_offer = &Offer::immediate_data,
     .flag = &Parameters::immediate_data},
    {.name = "MaxRecvDataSegmentLength",
     .type = KeyType::kNumber,
     .result = KeyResult::kDeclaration,
     .scope = KeyScope::kConnection,
     .from_initiator = kInOperational | kInFullFeature,
     .from_target = kInOperational | kInFullFeature,
     .proposed_when = OverStream,
     .minimum = kMinDataLength,
     .maximum = kMaxDataLength,
     .number_offer = &Offer::max_recv_data_segment_length,
     .number_of_initiator = &Parameters::initiator_max_recv_data_segment_length,
     .number_of_target = &Parameters::target_max_recv_data_segment_length},
    {.name = "MaxBurstLength",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .minimum = kMinDataLength,
     .maximum = kMaxDataLength,
     .number_offer = &Offer::max_burst_length,
     .number_of_initiator = &Parameters::max_burst_length,
     .number_of_target = &Parameters::max_burst_length},
    {.name = "FirstBurstLength",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .irrelevant_when = NoUnsolicitedData,
     .proposed_when = MayHaveUnsolicitedData,
     .minimum = kMinDataLength,
     .maximum = kMaxDataLength,
     .not_above = &Parameters::max_burst_length,
     .number_offer = &Offer::first_burst_length,
     .number_of_initiator = &Parameters::first_burst_length,
     .number_of_target = &Parameters::first_burst_length},
    {.name = "DefaultTime2Wait",
     .type = KeyType::kNumber,
     .result = KeyResult::kMaximum,
     .leading_only = true,
     .maximum = 3600,
     .number_offer = &Offer::default_time2wait,
     .number_of_initiator = &Parameters::default_time2wait,
     .number_of_target = &Parameters::default_time2wait},
    {.name = "DefaultTime2Retain",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .maximum = 3600,
     .number_offer = &Offer::default_time2retain,
     .number_of_initiator = &Parameters::default_time2retain,
     .number_of_target = &Parameters::default_time2retain},
    {.name = "MaxOutstandingR2T",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .minimum = 1,
     .maximum = 65535,
     .number_offer = &Offer::max_outstanding_r2t,
     .number_of_initiator = &Parameters::max_outstanding_r2t,
     .number_of_target = &Parameters::max_outstanding_r2t},
    {.name = "DataPDUInOrder",
     .type = KeyType::kBoolean,
     .result = KeyResult::kOr,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .flag_offer = &Offer::data_pdu_in_order,
     .flag = &Parameters::data_pdu_in_order},
    {.name = "DataSequenceInOrder",
     .type = KeyType::kBoolean,
     .result = KeyResult::kOr,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .flag_offer = &Offer::data_sequence_in_order,
     .flag = &Parameters::data_sequence_in_order},
    {.name = "ErrorRecoveryLevel",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .maximum = 2,
     .number_offer = &Offer::error_recovery_level,
     .number_of_initiator = &Parameters::error_recovery_level,
     .number_of_target = &Parameters::error_recovery_level},

    // Section 13.23. Response fences and fast aborts are not claimed.
    {.name = "TaskReporting",
     .type = KeyType::kList,
     .result = KeyResult::kChoice,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .later = true,
     .only_choice = "RFC3720"},
    // Section 13.24 and RFC 7144 section 7.1.1.
    {.name = "iSCSIProtocolLevel",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .later = true,
     .proposed_when = HasProtocolLevel,
     .maximum = 31,
     .number_offer = &Offer::iscsi_protocol_level,
     .number_of_initiator = &Parameters::iscsi_protocol_level,
     .number_of_target = &Parameters::iscsi_protocol_level},

    // RFC 7145 sections 6.4 and 6.5.
    {.name = "TargetRecvDataSegmentLength",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .scope = KeyScope::kConnection,
     .irrelevant_in_discovery = true,
     .tolerated_in_discovery = true,
     .later = true,
     .irrelevant_when = NoRdmaExtensions,
     .proposed_when = OverIser,
     .minimum = kMinDataLength,
     .maximum = kMaxDataLength,
     .number_offer = &IserOffer::target_recv_data_segment_length,
     .number_of_initiator = &IserParameters::target_recv_data_segment_length,
     .number_of_target = &IserParameters::target_recv_data_segment_length},
    {.name = "InitiatorRecvDataSegmentLength",
     .type = KeyType::kNumber,
     .result = KeyResult::kMinimum,
     .scope = KeyScope::kConnection,
     .irrelevant_in_discovery = true,
     .tolerated_in_discovery = true,
     .later = true,
     .irrelevant_when = NoRdmaExtensions,
     .proposed_when = OverIser,
     .minimum = kMinDataLength,
     .maximum = kMaxDataLength,
     .number_offer = &IserOffer::initiator_recv_data_segment_length,
     .number_of_initiator = &IserParameters::initiator_recv_data_segment_length,
     .number_of_target = &IserParameters::initiator_recv_data_segment_length},
    // RFC 7145 sections 6.7 to 6.10.
    {.name = "MaxOutstandingUnexpectedPDUs",
     .type = KeyType::kNumber,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .later = true,
     .rfc7145 = true,
     .irrelevant_when = NoRdmaExtensions,
     .proposed_when = WithRfc7145Keys,
     .minimum = 2,
     .maximum = 0xffffffffu,
     .or_zero = true,
     .number_offer = &IserOffer::max_outstanding_unexpected_pdus,
     .number_of_initiator =
         &IserParameters::initiator_max_outstanding_unexpected_pdus,
     .number_of_target =
         &IserParameters::target_max_outstanding_unexpected_pdus},
    {.name = "MaxAHSLength",
     .type = KeyType::kNumber,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .later = true,
     .rfc7145 = true,
     .irrelevant_when = NoRdmaExtensions,
     .proposed_when = WithRfc7145Keys,
     .minimum = 2,
     .maximum = 0xffffffffu,
     .or_zero = true,
     .number_offer = &IserOffer::max_ahs_length,
     .number_of_initiator = &IserParameters::initiator_max_ahs_length,
     .number_of_target = &IserParameters::target_max_ahs_length},
    {.name = "TaggedBufferForSolicitedDataOnly",
     .type = KeyType::kBoolean,
     .from_target = kNever,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .later = true,
     .rfc7145 = true,
     .irrelevant_when = NoRdmaExtensions,
     .proposed_when = WithRfc7145Keys,
     .flag_offer = &IserOffer::tagged_buffer_for_solicited_data_only,
     .flag = &IserParameters::tagged_buffer_for_solicited_data_only},
    {.name = "iSERHelloRequired",
     .type = KeyType::kBoolean,
     .from_target = kNever,
     .leading_only = true,
     .irrelevant_in_discovery = true,
     .later = true,
     .rfc7145 = true,
     .irrelevant_when = NoRdmaExtensions,
     .proposed_when = HelloWanted,
     .flag_offer = &IserOffer::hello_required,
     .flag = &IserParameters::hello_required},

    // Section 13.25.
    {.name = "OFMarker", .result = KeyResult::kRejected},
    {.name = "IFMarker", .result = KeyResult::kRejected},
    {.name = "OFMarkInt", .result = KeyResult::kRejected},
    {.name = "IFMarkInt", .result = KeyResult::kRejected},

    // Section 13.26. Behaviour must not depend on it, so nothing keeps it.
    {.name = "X#NodeArchitecture",
     .type = KeyType::kLocalName,
     .leading_only = true,
     .later = true},
};

absl::string_view StageName(uint8_t stage) {
  if (stage == kInSecurity) return "security negotiation";
  if (stage == kInOperational) return "operational negotiation";
  return "the full feature phase";
}

absl::Status ValidateDigests(const KeySpec& key,
                             const std::vector<Digest>& digests) {
  if (digests.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.name, ": no digest is offered; offer None for none"));
  }
  if (std::set<Digest>(digests.begin(), digests.end()).size() !=
      digests.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.name, ": a digest is offered twice"));
  }
  return absl::OkStatus();
}

absl::Status ValidateKey(const KeySpec& key, const Offer& offer) {
  if (key.digest_offer != nullptr) {
    return ValidateDigests(key, offer.*key.digest_offer);
  }
  if (!key.number_offer) return absl::OkStatus();
  const uint32_t value = key.number_offer.In(offer);
  if (!InRange(key, value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.name, "=", value, " is not in the range ", key.minimum,
                     " to ", key.maximum));
  }
  return absl::OkStatus();
}

// What is received with `key` of the offer must fit a buffer.
absl::Status ValidateHeld(absl::string_view key, uint32_t value,
                          uint32_t limit) {
  if (value != 0 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, "=", value, value == 0 ? ", which is no limit," : "",
                   " is more than the receives of iSER hold, ", limit));
}

absl::Status ValidateReceives(const IserOffer& iser, Role role) {
  if (iser.max_outstanding_unexpected_pdus > IserOffer::kMaxUnexpectedPdus) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MaxOutstandingUnexpectedPDUs=", iser.max_outstanding_unexpected_pdus,
        " exceeds the limit of receives, ", IserOffer::kMaxUnexpectedPdus));
  }
  // The other length is what the peer receives.
  absl::Status status =
      role == Role::kTarget
          ? ValidateHeld("TargetRecvDataSegmentLength",
                         iser.target_recv_data_segment_length,
                         kMaxIserDataSegment)
          : ValidateHeld("InitiatorRecvDataSegmentLength",
                         iser.initiator_recv_data_segment_length,
                         kMaxIserDataSegment);
  return status.ok()
             ? ValidateHeld("MaxAHSLength", iser.max_ahs_length, kMaxIserAhs)
             : status;
}

}  // namespace

absl::Span<const KeySpec> AllKeys() { return kKeys; }

const KeySpec* FindKey(absl::string_view name) {
  const auto* found =
      std::find_if(std::begin(kKeys), std::end(kKeys),
                   [name](const KeySpec& key) { return key.name == name; });
  return found == std::end(kKeys) ? nullptr : found;
}

absl::Status CheckKeyAllowed(const KeySpec& key, Role sender, uint8_t stage,
                             absl::string_view value) {
  if (key.later && value == kValueNotUnderstood) return absl::OkStatus();
  const bool from_target = sender == Role::kTarget;
  const uint8_t stages = from_target ? key.from_target : key.from_initiator;
  if (stages == kNever) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.name, " is not for ",
                     from_target ? "a target" : "an initiator", " to send"));
  }
  if ((stages & stage) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.name, " is not allowed in ", StageName(stage)));
  }
  return absl::OkStatus();
}

bool InRange(const KeySpec& key, uint64_t value) {
  if (key.or_zero && value == 0) return true;
  return value >= key.minimum && value <= key.maximum;
}

absl::string_view DigestName(Digest digest) {
  return digest == Digest::kCrc32c ? "CRC32C" : "None";
}

absl::Status Validate(const Offer& offer, Role role) {
  for (const KeySpec& key : kKeys) {
    absl::Status status = ValidateKey(key, offer);
    if (!status.ok()) return status;
  }
  absl::Status receives = ValidateReceives(offer.iser, role);
  if (!receives.ok()) return receives;
  Parameters parameters;
  parameters.initial_r2t = offer.initial_r2t;
  parameters.immediate_data = offer.immediate_data;
  parameters.max_burst_length = offer.max_burst_length;
  parameters.first_burst_length = offer.first_burst_length;
  parameters.error_recovery_level = offer.error_recovery_level;
  parameters.data_sequence_in_order = offer.data_sequence_in_order;
  parameters.max_outstanding_r2t = offer.max_outstanding_r2t;
  return CheckIntegrity(parameters);
}

absl::Status CheckIntegrity(const Parameters& parameters) {
  if (!NoUnsolicitedData(parameters) &&
      parameters.first_burst_length > parameters.max_burst_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("FirstBurstLength=", parameters.first_burst_length,
                     " exceeds MaxBurstLength=", parameters.max_burst_length));
  }
  if (parameters.error_recovery_level != 0 &&
      parameters.data_sequence_in_order &&
      parameters.max_outstanding_r2t != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MaxOutstandingR2T=", parameters.max_outstanding_r2t,
        " must be 1 with ErrorRecoveryLevel=", parameters.error_recovery_level,
        " and DataSequenceInOrder=Yes"));
  }
  return absl::OkStatus();
}

}  // namespace skiff::protocol
