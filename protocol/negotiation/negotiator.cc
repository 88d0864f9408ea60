#include "protocol/negotiation/negotiator.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

absl::Status Failure(const KeySpec& key, absl::string_view value,
                     absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(key.name, "=", Quoted(value), ": ", why));
}

// Values that only an answer may have (section 6.2).
bool IsAnswerOnly(absl::string_view value) {
  return value == kValueReject || value == kValueIrrelevant ||
         value == kValueNotUnderstood;
}

bool Contains(const std::vector<Digest>& digests, absl::string_view name) {
  return std::any_of(digests.begin(), digests.end(), [name](Digest digest) {
    return DigestName(digest) == name;
  });
}

Digest DigestOf(absl::string_view name) {
  return name == DigestName(Digest::kCrc32c) ? Digest::kCrc32c : Digest::kNone;
}

// Whether an answer, or a default, is a possible result for what was offered.
bool IsAllowedResult(KeyResult result, uint64_t offered, uint64_t value) {
  switch (result) {
    case KeyResult::kAnd:
    case KeyResult::kMinimum:
      return value <= offered;
    case KeyResult::kOr:
    case KeyResult::kMaximum:
      return value >= offered;
    case KeyResult::kChoice:
    case KeyResult::kDeclaration:
    case KeyResult::kRejected:
      return true;
  }
  return false;
}

std::string RangeText(const KeySpec& key) {
  return absl::StrCat("it is not ", key.or_zero ? "0 or " : "",
                      "a number from ", key.minimum, " to ", key.maximum);
}

// Digests have no place in iSER (RFC 7145 section 6.1).
Offer Settled(Offer offer) {
  if (!offer.iser.enabled) return offer;
  offer.header_digest = {Digest::kNone};
  offer.data_digest = {Digest::kNone};
  return offer;
}

}  // namespace

Negotiator::Negotiator(const Options& options, const Offer& offer,
                       const Parameters& current)
    : options_(options),
      offer_(Settled(offer)),
      parameters_(current),
      states_(AllKeys().size()) {
  assert(Validate(offer, options.role).ok());
  parameters_.iser.enabled = offer.iser.enabled;
  // A session's later connections are as its first (RFC 7145 section 5.1).
  if (!options.leading) {
    parameters_.iser.rdma_extensions = offer.iser.enabled;
  }
}

Role Negotiator::Peer() const {
  return options_.role == Role::kTarget ? Role::kInitiator : Role::kTarget;
}

Negotiator::KeyState& Negotiator::StateOf(const KeySpec& key) {
  return states_[static_cast<size_t>(&key - AllKeys().data())];
}

bool Negotiator::IsIrrelevant(const KeySpec& key) const {
  if (key.leading_only && !options_.leading) return true;
  if (key.irrelevant_in_discovery && !key.tolerated_in_discovery &&
      options_.session_type == SessionType::kDiscovery) {
    return true;
  }
  return key.irrelevant_when != nullptr && key.irrelevant_when(parameters_);
}

// The values of irrelevant_when are not known yet: proposed_when judges by the
// offer.
bool Negotiator::ShouldPropose(const KeySpec& key) const {
  const bool offered =
      key.flag_offer || key.number_offer || key.digest_offer != nullptr;
  if (key.use != KeyUse::kOperational || !offered) return false;
  if (options_.role == Role::kTarget &&
      (key.from_target == kNever || (key.rfc7145 && !rfc7145_received_))) {
    return false;
  }
  if (key.leading_only && !options_.leading) return false;
  if (key.irrelevant_in_discovery && !key.tolerated_in_discovery &&
      options_.session_type == SessionType::kDiscovery) {
    return false;
  }
  return key.proposed_when == nullptr || key.proposed_when(offer_);
}

uint32_t& Negotiator::NumberOf(const KeySpec& key, Role sender) {
  return sender == Role::kTarget ? key.number_of_target.In(parameters_)
                                 : key.number_of_initiator.In(parameters_);
}

std::string Negotiator::OfferText(const KeySpec& key) const {
  if (key.flag_offer) {
    return std::string(EncodeBoolean(key.flag_offer.In(offer_)));
  }
  if (key.number_offer) return absl::StrCat(key.number_offer.In(offer_));
  return absl::StrJoin(offer_.*key.digest_offer, ",",
                       [](std::string* out, Digest digest) {
                         absl::StrAppend(out, DigestName(digest));
                       });
}

void Negotiator::Send(const KeySpec& key, std::vector<KeyValue>* out) {
  KeyState& state = StateOf(key);
  if (state.sent) return;
  state.sent = true;
  out->emplace_back(std::string(key.name), OfferText(key));
  rfc7145_sent_ = rfc7145_sent_ || key.rfc7145;
  if (key.result != KeyResult::kDeclaration) {
    state.awaited = true;
  } else if (key.flag) {
    key.flag.In(parameters_) = key.flag_offer.In(offer_);
  } else {
    NumberOf(key, options_.role) = key.number_offer.In(offer_);
  }
}

void Negotiator::Declare(std::vector<KeyValue>* out) {
  for (const KeySpec& key : AllKeys()) {
    if (key.result == KeyResult::kDeclaration && ShouldPropose(key)) {
      Send(key, out);
    }
  }
}

void Negotiator::ProposeAll(std::vector<KeyValue>* out) {
  for (const KeySpec& key : AllKeys()) {
    // What the peer has proposed already is settled.
    const bool settled =
        key.result != KeyResult::kDeclaration && StateOf(key).received;
    if (ShouldPropose(key) && !settled) Send(key, out);
  }
}

absl::Status Negotiator::OnKeys(uint8_t stage, absl::Span<const TextPair> pairs,
                                std::vector<KeyValue>* out) {
  std::vector<std::pair<const KeySpec*, absl::string_view>> known;
  for (const TextPair& pair : pairs) {
    const KeySpec* key = FindKey(pair.key);
    absl::Status status =
        key == nullptr ? OnUnknownKey(pair, out)
                       : CheckKeyAllowed(*key, Peer(), stage, pair.value);
    if (!status.ok()) return status;
    if (key == nullptr) continue;
    if (key->use != KeyUse::kOperational) {
      return Failure(*key, pair.value, "the key has no place in this exchange");
    }
    known.emplace_back(key, pair.value);
  }
  // In the table's order, a key follows those on which it depends.
  std::stable_sort(
      known.begin(), known.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, value] : known) {
    absl::Status status = OnKey(*key, value, out);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Negotiator::OnUnknownKey(const TextPair& pair,
                                      std::vector<KeyValue>* out) {
  if (IsAnswerOnly(pair.value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an answer to a key that was never sent: ", Quoted(pair.key), "=",
        Quoted(pair.value)));
  }
  if (++unknown_keys_ > options_.max_unknown_keys) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", options_.max_unknown_keys,
                     " unknown keys, the last one ", Quoted(pair.key)));
  }
  out->emplace_back(std::string(pair.key), std::string(kValueNotUnderstood));
  return absl::OkStatus();
}

absl::Status Negotiator::OnKey(const KeySpec& key, absl::string_view value,
                               std::vector<KeyValue>* out) {
  KeyState& state = StateOf(key);
  if (state.awaited) {
    state.awaited = false;
    state.received = true;
    return OnAnswer(key, value);
  }
  if (state.received && !key.repeatable) {
    return Failure(key, value, "the key is sent a second time");
  }
  state.received = true;
  if (IsAnswerOnly(value)) {
    if (state.sent && key.later && value == kValueNotUnderstood) {
      OnNotUnderstood(key);
      return absl::OkStatus();
    }
    if (state.sent && key.irrelevant_when != nullptr &&
        value == kValueIrrelevant) {
      return absl::OkStatus();
    }
    return Failure(key, value, "only an answer may say that");
  }
  if (key.result == KeyResult::kDeclaration) return OnDeclaration(key, value);
  std::string answer;
  absl::Status status = OnProposal(key, value, &answer);
  if (status.ok()) out->emplace_back(std::string(key.name), answer);
  return status;
}

// Of a declaration: for the peer, it was never made.
void Negotiator::OnNotUnderstood(const KeySpec& key) {
  const Parameters defaults;
  if (key.flag) key.flag.In(parameters_) = key.flag.In(defaults);
  if (key.rfc7145 && key.number_of_initiator) {
    NumberOf(key, options_.role) = options_.role == Role::kTarget
                                       ? key.number_of_target.In(defaults)
                                       : key.number_of_initiator.In(defaults);
  }
  rfc7145_not_understood_ = rfc7145_not_understood_ || key.rfc7145;
}

absl::Status Negotiator::OnDeclaration(const KeySpec& key,
                                       absl::string_view value) {
  rfc7145_received_ = rfc7145_received_ || key.rfc7145;
  if (key.type == KeyType::kBoolean) {
    const absl::optional<bool> declared = ParseBoolean(value);
    if (!declared) return Failure(key, value, "it is neither Yes nor No");
    if (!IsIrrelevant(key)) key.flag.In(parameters_) = *declared;
    return absl::OkStatus();
  }
  if (key.type != KeyType::kNumber) {
    if (value.size() <= kMaxValueLength) return absl::OkStatus();
    return Failure(key, value, "the value is too long");
  }
  const absl::optional<uint64_t> number = ParseNumber(value);
  if (!number || !InRange(key, *number)) {
    return Failure(key, value, RangeText(key));
  }
  if (!IsIrrelevant(key))
    NumberOf(key, Peer()) = static_cast<uint32_t>(*number);
  return absl::OkStatus();
}

absl::Status Negotiator::OnProposal(const KeySpec& key, absl::string_view value,
                                    std::string* answer) {
  if (key.result == KeyResult::kRejected) {
    *answer = std::string(kValueReject);
    return absl::OkStatus();
  }
  if (IsIrrelevant(key)) {
    *answer = std::string(kValueIrrelevant);
    return absl::OkStatus();
  }
  switch (key.type) {
    case KeyType::kBoolean:
      return ChooseBoolean(key, value, answer);
    case KeyType::kNumber:
      return ChooseNumber(key, value, answer);
    case KeyType::kList:
      return ChooseFromList(key, value, answer);
    case KeyType::kName:
    case KeyType::kLocalName:
    case KeyType::kText:
      break;
  }
  return Failure(key, value, "the key is not negotiated");
}

absl::Status Negotiator::ChooseBoolean(const KeySpec& key,
                                       absl::string_view value,
                                       std::string* answer) {
  const absl::optional<bool> proposed = ParseBoolean(value);
  if (!proposed) return Failure(key, value, "it is neither Yes nor No");
  const bool own = key.flag_offer.In(offer_);
  const bool result =
      key.result == KeyResult::kAnd ? *proposed && own : *proposed || own;
  key.flag.In(parameters_) = result;
  *answer = std::string(EncodeBoolean(result));
  return absl::OkStatus();
}

absl::Status Negotiator::ChooseNumber(const KeySpec& key,
                                      absl::string_view value,
                                      std::string* answer) {
  const absl::optional<uint64_t> proposed = ParseNumber(value);
  if (!proposed) return Failure(key, value, RangeText(key));
  // Section 6.2.2: a value outside of the bounds may be answered with Reject,
  // which leaves the default.
  if (!InRange(key, *proposed)) {
    *answer = std::string(kValueReject);
    return absl::OkStatus();
  }
  uint32_t own = key.number_offer.In(offer_);
  if (key.not_above != nullptr) {
    own = std::min(own, parameters_.*key.not_above);
  }
  const auto number = static_cast<uint32_t>(*proposed);
  const uint32_t result = key.result == KeyResult::kMinimum
                              ? std::min(number, own)
                              : std::max(number, own);
  NumberOf(key, options_.role) = result;
  *answer = absl::StrCat(result);
  return absl::OkStatus();
}

// Section 6.2.1: the first of the proposed values that is supported; values
// that are not known are passed over.
absl::Status Negotiator::ChooseFromList(const KeySpec& key,
                                        absl::string_view value,
                                        std::string* answer) {
  std::vector<absl::string_view> proposed;
  if (!ParseList(value, &proposed)) {
    return Failure(key, value, "it is not a list of values");
  }
  for (const absl::string_view item : proposed) {
    if (key.digest_offer == nullptr) {
      if (item != key.only_choice) continue;
    } else {
      if (!Contains(offer_.*key.digest_offer, item)) continue;
      parameters_.*key.digest = DigestOf(item);
    }
    *answer = std::string(item);
    return absl::OkStatus();
  }
  // "Irrelevant when: RDMAExtensions=Yes" (RFC 7145 section 6.1).
  if (key.digest_offer != nullptr && offer_.iser.enabled) {
    *answer = std::string(kValueIrrelevant);
    return absl::OkStatus();
  }
  // A digest that one side insists on and the other doesn't have: no use to go
  // on (section 7.12).
  if (key.digest_offer != nullptr) {
    return Failure(
        key, value,
        absl::StrCat("none of it is allowed here, only ", OfferText(key)));
  }
  *answer = std::string(kValueReject);
  return absl::OkStatus();
}

absl::Status Negotiator::OnAnswer(const KeySpec& key, absl::string_view value) {
  if (value == kValueNotUnderstood && !key.later) {
    return Failure(key, value, "every peer must understand this key");
  }
  if (value == kValueIrrelevant && key.type != KeyType::kList) {
    return absl::OkStatus();
  }
  if (IsAnswerOnly(value)) {
    return LeaveAtDefault(key, absl::StrCat("answered with ", value));
  }
  switch (key.type) {
    case KeyType::kBoolean:
      return OnBooleanAnswer(key, value);
    case KeyType::kNumber:
      return OnNumberAnswer(key, value);
    default:
      return OnListAnswer(key, value);
  }
}

absl::Status Negotiator::OnBooleanAnswer(const KeySpec& key,
                                         absl::string_view value) {
  const absl::optional<bool> answer = ParseBoolean(value);
  if (!answer) return Failure(key, value, "it is neither Yes nor No");
  if (!IsAllowedResult(key.result, key.flag_offer.In(offer_), *answer)) {
    return Failure(key, value,
                   absl::StrCat("it can't be the answer to ", OfferText(key)));
  }
  key.flag.In(parameters_) = *answer;
  return absl::OkStatus();
}

absl::Status Negotiator::OnNumberAnswer(const KeySpec& key,
                                        absl::string_view value) {
  const absl::optional<uint64_t> answer = ParseNumber(value);
  if (!answer || !InRange(key, *answer)) {
    return Failure(key, value, RangeText(key));
  }
  if (!IsAllowedResult(key.result, key.number_offer.In(offer_), *answer)) {
    return Failure(key, value,
                   absl::StrCat("it can't be the answer to ", OfferText(key)));
  }
  NumberOf(key, options_.role) = static_cast<uint32_t>(*answer);
  return absl::OkStatus();
}

absl::Status Negotiator::OnListAnswer(const KeySpec& key,
                                      absl::string_view value) {
  if (!Contains(offer_.*key.digest_offer, value)) {
    return Failure(key, value,
                   absl::StrCat("it was not offered, only ", OfferText(key)));
  }
  parameters_.*key.digest = DigestOf(value);
  return absl::OkStatus();
}

// The peer gave no value. A default that our offer rules out can't be relied
// on.
absl::Status Negotiator::LeaveAtDefault(const KeySpec& key,
                                        absl::string_view why) {
  bool acceptable = true;
  if (key.flag_offer) {
    acceptable = IsAllowedResult(key.result, key.flag_offer.In(offer_),
                                 key.flag.In(parameters_));
  } else if (key.number_offer) {
    acceptable = IsAllowedResult(key.result, key.number_offer.In(offer_),
                                 NumberOf(key, options_.role));
  } else if (key.digest_offer != nullptr) {
    acceptable =
        Contains(offer_.*key.digest_offer, DigestName(parameters_.*key.digest));
  }
  if (acceptable) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the offer ", key.name, "=", OfferText(key), " was ", why,
                   ", and the default does not satisfy it"));
}

absl::Status Negotiator::Finish() {
  for (const KeySpec& key : AllKeys()) {
    KeyState& state = StateOf(key);
    if (!state.awaited) continue;
    state.awaited = false;
    if (key.irrelevant_when != nullptr && key.irrelevant_when(parameters_)) {
      continue;
    }
    // Section 6.2.2: No to an AND and Yes to an OR need no answer.
    if (key.flag_offer &&
        key.flag_offer.In(offer_) == (key.result == KeyResult::kOr)) {
      key.flag.In(parameters_) = key.flag_offer.In(offer_);
      continue;
    }
    absl::Status status = LeaveAtDefault(key, "not answered");
    if (!status.ok()) return status;
  }
  absl::Status status = SettleIser();
  return status.ok() ? CheckIntegrity(parameters_) : status;
}

// What RFC 7145 section 6 and the practice of the field make of the keys.
absl::Status Negotiator::SettleIser() {
  if (!offer_.iser.enabled) return absl::OkStatus();
  IserParameters& iser = parameters_.iser;
  const bool normal = options_.session_type == SessionType::kNormal;
  if (normal && !iser.rdma_extensions) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the ", options_.role == Role::kTarget ? "initiator" : "target",
        " does not agree to RDMAExtensions=Yes, without which there is no "
        "session over an RDMA connection"));
  }
  iser.rfc7145 = options_.role == Role::kTarget
                     ? rfc7145_received_
                     : rfc7145_sent_ && !rfc7145_not_understood_;
  // RFC 7145 section 6.2. A peer may have room for more than we have to send it
  // from.
  parameters_.initiator_max_recv_data_segment_length =
      std::min(iser.initiator_recv_data_segment_length, kMaxIserDataSegment);
  parameters_.target_max_recv_data_segment_length =
      std::min(iser.target_recv_data_segment_length, kMaxIserDataSegment);
  if (options_.role == Role::kTarget && normal && !iser.rfc7145) {
    parameters_.initiator_max_recv_data_segment_length =
        kDeployedIserResponseData;
  }
  return absl::OkStatus();
}

}  // namespace skiff::protocol
