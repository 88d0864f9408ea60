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
  return absl::StrCat("it is not a number from ", key.minimum, " to ",
                      key.maximum);
}

}  // namespace

Negotiator::Negotiator(const Options& options, const Offer& offer,
                       const Parameters& current)
    : options_(options),
      offer_(offer),
      parameters_(current),
      states_(AllKeys().size()) {
  assert(Validate(offer).ok());
}

Role Negotiator::Peer() const {
  return options_.role == Role::kTarget ? Role::kInitiator : Role::kTarget;
}

Negotiator::KeyState& Negotiator::StateOf(const KeySpec& key) {
  return states_[static_cast<size_t>(&key - AllKeys().data())];
}

bool Negotiator::IsIrrelevant(const KeySpec& key) const {
  if (key.leading_only && !options_.leading) return true;
  if (key.irrelevant_in_discovery &&
      options_.session_type == SessionType::kDiscovery) {
    return true;
  }
  return key.irrelevant_when != nullptr && key.irrelevant_when(parameters_);
}

// The values of irrelevant_when are not known yet: proposed_when judges by the
// offer.
bool Negotiator::ShouldPropose(const KeySpec& key) const {
  const bool offered = key.flag_offer != nullptr ||
                       key.number_offer != nullptr ||
                       key.digest_offer != nullptr;
  if (key.use != KeyUse::kOperational || !offered) return false;
  if (key.leading_only && !options_.leading) return false;
  if (key.irrelevant_in_discovery &&
      options_.session_type == SessionType::kDiscovery) {
    return false;
  }
  return key.proposed_when == nullptr || key.proposed_when(offer_);
}

uint32_t& Negotiator::NumberOf(const KeySpec& key, Role sender) {
  return sender == Role::kTarget ? parameters_.*key.number_of_target
                                 : parameters_.*key.number_of_initiator;
}

std::string Negotiator::OfferText(const KeySpec& key) const {
  if (key.flag_offer != nullptr) {
    return std::string(EncodeBoolean(offer_.*key.flag_offer));
  }
  if (key.number_offer != nullptr) {
    return absl::StrCat(offer_.*key.number_offer);
  }
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
  if (key.result == KeyResult::kDeclaration) {
    NumberOf(key, options_.role) = offer_.*key.number_offer;
  } else {
    state.awaited = true;
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
    absl::Status status = key == nullptr ? OnUnknownKey(pair, out)
                                         : CheckKeyAllowed(*key, Peer(), stage);
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

absl::Status Negotiator::OnDeclaration(const KeySpec& key,
                                       absl::string_view value) {
  if (key.type != KeyType::kNumber) {
    if (value.size() <= kMaxValueLength) return absl::OkStatus();
    return Failure(key, value, "the value is too long");
  }
  const absl::optional<uint64_t> number = ParseNumber(value);
  if (!number || *number < key.minimum || *number > key.maximum) {
    return Failure(key, value, RangeText(key));
  }
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
  const bool own = offer_.*key.flag_offer;
  const bool result =
      key.result == KeyResult::kAnd ? *proposed && own : *proposed || own;
  parameters_.*key.flag = result;
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
  if (*proposed < key.minimum || *proposed > key.maximum) {
    *answer = std::string(kValueReject);
    return absl::OkStatus();
  }
  uint32_t own = offer_.*key.number_offer;
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
  if (!IsAllowedResult(key.result, offer_.*key.flag_offer, *answer)) {
    return Failure(key, value,
                   absl::StrCat("it can't be the answer to ", OfferText(key)));
  }
  parameters_.*key.flag = *answer;
  return absl::OkStatus();
}

absl::Status Negotiator::OnNumberAnswer(const KeySpec& key,
                                        absl::string_view value) {
  const absl::optional<uint64_t> answer = ParseNumber(value);
  if (!answer || *answer < key.minimum || *answer > key.maximum) {
    return Failure(key, value, RangeText(key));
  }
  if (!IsAllowedResult(key.result, offer_.*key.number_offer, *answer)) {
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
  if (key.flag_offer != nullptr) {
    acceptable = IsAllowedResult(key.result, offer_.*key.flag_offer,
                                 parameters_.*key.flag);
  } else if (key.number_offer != nullptr) {
    acceptable = IsAllowedResult(key.result, offer_.*key.number_offer,
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
    if (key.flag_offer != nullptr &&
        offer_.*key.flag_offer == (key.result == KeyResult::kOr)) {
      parameters_.*key.flag = offer_.*key.flag_offer;
      continue;
    }
    absl::Status status = LeaveAtDefault(key, "not answered");
    if (!status.ok()) return status;
  }
  return CheckIntegrity(parameters_);
}

}  // namespace skiff::protocol
