#include "protocol/negotiation/login_keys.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

// Names are the same in any case (section 4.2.7.1).
bool SameValue(absl::string_view key, absl::string_view a,
               absl::string_view b) {
  const bool name = key == "InitiatorName" || key == "TargetName";
  return name ? absl::EqualsIgnoreCase(a, b) : a == b;
}

}  // namespace

uint8_t StageBit(LoginStage stage) {
  switch (stage) {
    case LoginStage::kSecurity:
      return kInSecurity;
    case LoginStage::kOperational:
      return kInOperational;
    case LoginStage::kFullFeature:
      break;
  }
  return kInFullFeature;
}

bool IsTransition(LoginStage from, LoginStage to) {
  switch (from) {
    case LoginStage::kSecurity:
      return to == LoginStage::kOperational || to == LoginStage::kFullFeature;
    case LoginStage::kOperational:
      return to == LoginStage::kFullFeature;
    case LoginStage::kFullFeature:
      break;
  }
  return false;
}

absl::Status SortKeys(Role sender, LoginStage stage,
                      absl::Span<const TextPair> pairs, SortedKeys* sorted) {
  for (const TextPair& pair : pairs) {
    const KeySpec* key = FindKey(pair.key);
    if (key == nullptr) {
      sorted->unknown.push_back(pair);
      continue;
    }
    absl::Status status =
        CheckKeyAllowed(*key, sender, StageBit(stage), pair.value);
    if (!status.ok()) return status;
    if (key->use == KeyUse::kIdentity) {
      sorted->identity.push_back(pair);
    } else if (key->use != KeyUse::kSecurity) {
      sorted->others.push_back(pair);
    } else if (sorted->auth_method != nullptr) {
      return absl::InvalidArgumentError("AuthMethod is sent a second time");
    } else {
      sorted->auth_method = &pair;
    }
  }
  return absl::OkStatus();
}

std::vector<KeyValue> CopyKeys(absl::Span<const TextPair> pairs) {
  std::vector<KeyValue> keys;
  keys.reserve(pairs.size());
  for (const TextPair& pair : pairs) {
    keys.emplace_back(std::string(pair.key), std::string(pair.value));
  }
  return keys;
}

absl::Status CheckAlias(const TextPair& pair) {
  if (pair.value.size() <= kMaxValueLength && IsPrintableUtf8(pair.value)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(pair.key, "=", Quoted(pair.value), " is not printable text ",
                   "of at most ", kMaxValueLength, " bytes"));
}

absl::StatusOr<bool> DeclaredOnce::Add(LoginStage stage, const TextPair& pair) {
  const KeySpec* key = FindKey(pair.key);
  if (key->repeatable) return true;
  const auto seen = std::find_if(
      seen_.begin(), seen_.end(),
      [key](const Declaration& declaration) { return declaration.key == key; });
  if (seen == seen_.end()) {
    seen_.push_back({key, stage, std::string(pair.value)});
    return true;
  }
  if (seen->stage == stage || !SameValue(pair.key, seen->value, pair.value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key->name, "=", Quoted(pair.value),
                     " is declared a second time in this login"));
  }
  seen->stage = stage;
  return false;
}

}  // namespace skiff::protocol
