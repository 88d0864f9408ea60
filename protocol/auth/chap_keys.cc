#include "protocol/auth/chap_keys.h"

#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "protocol/auth/chap_secret.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

struct KeyName {
  unsigned key;
  absl::string_view name;
};

constexpr std::array<KeyName, 5> kNames = {{{ChapKeys::kA, "CHAP_A"},
                                            {ChapKeys::kI, "CHAP_I"},
                                            {ChapKeys::kC, "CHAP_C"},
                                            {ChapKeys::kN, "CHAP_N"},
                                            {ChapKeys::kR, "CHAP_R"}}};

unsigned KeyOf(absl::string_view name) {
  for (const KeyName& row : kNames) {
    if (row.name == name) return row.key;
  }
  return 0;
}

bool ParseAlgorithms(absl::string_view value, std::vector<uint64_t>* numbers) {
  std::vector<absl::string_view> items;
  if (!ParseList(value, &items) || items.size() > ChapKeys::kMaxAlgorithms) {
    return false;
  }
  for (const absl::string_view item : items) {
    const absl::optional<uint64_t> number = ParseNumber(item);
    if (!number) return false;
    numbers->push_back(*number);
  }
  return true;
}

}  // namespace

absl::Status ChapKeys::Take(absl::Span<const KeyValue> in, unsigned allowed,
                            std::vector<KeyValue>* out) {
  size_t unknown = 0;
  for (const KeyValue& pair : in) {
    const unsigned key = KeyOf(pair.first);
    if (key == 0) {
      if (++unknown > kMaxUnknownKeys) {
        return absl::InvalidArgumentError(absl::StrCat(
            "more than ", kMaxUnknownKeys, " keys that are not of CHAP"));
      }
      if (pair.second != kValueNotUnderstood) {
        out->emplace_back(pair.first, std::string(kValueNotUnderstood));
      }
      continue;
    }
    if ((key & allowed) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(pair.first, " does not belong into this step"));
    }
    if (Has(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(pair.first, " is sent twice"));
    }
    const absl::Status taken = TakeOne(key, pair.second);
    if (!taken.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(pair.first, " ", taken.message()));
    }
    present |= key;
  }
  return absl::OkStatus();
}

absl::Status ChapKeys::TakeOne(unsigned key, absl::string_view value) {
  switch (key) {
    case kA:
      if (ParseAlgorithms(value, &algorithms)) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("is no list of at most ", kMaxAlgorithms, " numbers"));
    case kI: {
      const absl::optional<uint64_t> number = ParseNumber(value);
      if (!number || *number > 0xff) {
        return absl::InvalidArgumentError("is no number of one byte");
      }
      identifier = static_cast<uint8_t>(*number);
      return absl::OkStatus();
    }
    case kN:
      name = std::string(value);
      return CheckChapName(value).ok()
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("is no name");
    default:
      if (ParseBinary(value, kMaxBinaryBytes,
                      key == kC ? &challenge : &response)) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(
          absl::StrCat("is no binary value of 1 to ", kMaxBinaryBytes,
                       " bytes in hexadecimal or base64"));
  }
}

absl::StatusOr<ChapChallenge> ChapChallenge::New(ChapAlgorithm algorithm) {
  ChapChallenge challenge;
  challenge.bytes.resize(ChapDigestBytes(algorithm));
  if (!FillRandom(absl::MakeSpan(challenge.bytes)) ||
      !FillRandom({&challenge.identifier, 1})) {
    return absl::UnavailableError("the system has no random numbers");
  }
  return challenge;
}

void ChapChallenge::AppendTo(std::vector<KeyValue>* out) const {
  out->emplace_back("CHAP_I", absl::StrCat(identifier));
  out->emplace_back("CHAP_C", EncodeHex(bytes));
}

}  // namespace skiff::protocol
