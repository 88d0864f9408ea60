#include "protocol/negotiation/negotiated_keys.h"

#include "absl/strings/str_cat.h"
#include "protocol/codec/text_value.h"
#include "protocol/negotiation/keys.h"

namespace skiff::protocol {
namespace {

bool Matters(const KeySpec& key, const Parameters& parameters) {
  if (key.irrelevant_when != nullptr && key.irrelevant_when(parameters)) {
    return false;
  }
  if (key.rfc7145 && !parameters.iser.rfc7145) return false;
  return parameters.iser.enabled ||
         key.flag != Field<Parameters, bool>(&IserParameters::rdma_extensions);
}

// Empty for a key that has no place.
std::string ValueOf(const KeySpec& key, const Parameters& parameters) {
  if (key.flag) return std::string(EncodeBoolean(key.flag.In(parameters)));
  if (key.digest != nullptr) {
    return std::string(DigestName(parameters.*key.digest));
  }
  if (!key.number_of_initiator) return "";
  const uint32_t initiator = key.number_of_initiator.In(parameters);
  if (key.number_of_initiator == key.number_of_target) {
    return absl::StrCat(initiator);
  }
  return absl::StrCat(initiator, "/", key.number_of_target.In(parameters));
}

}  // namespace

std::vector<KeyValue> NegotiatedKeys(const Parameters& parameters) {
  std::vector<KeyValue> keys;
  for (const KeySpec& key : AllKeys()) {
    if (!Matters(key, parameters)) continue;
    std::string value = ValueOf(key, parameters);
    if (value.empty()) continue;
    keys.emplace_back(std::string(key.name), std::move(value));
  }
  return keys;
}

std::string IserDialect(const IserParameters& iser) {
  if (!iser.enabled) return "";
  return absl::StrCat(
      iser.rfc7145 ? "RFC 7145" : "as deployed", ", write base offset of ",
      iser.write_base() == IserWriteBase::kSolicitedData ? "solicited data"
                                                         : "the whole buffer");
}

}  // namespace skiff::protocol
