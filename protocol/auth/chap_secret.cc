#include "protocol/auth/chap_secret.h"

#include <openssl/crypto.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "protocol/auth/chap_algorithm.h"
#include "protocol/codec/text_value.h"

namespace skiff::protocol {
namespace {

constexpr size_t kMaxNameBytes = 255;

absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

ChapSecret& ChapSecret::operator=(const ChapSecret& other) {
  if (this == &other) return *this;
  Wipe();
  bytes_ = other.bytes_;
  return *this;
}

// A short string is copied where it stands, so what is left of it goes too.
ChapSecret& ChapSecret::operator=(ChapSecret&& other) noexcept {
  if (this == &other) return *this;
  Wipe();
  bytes_ = std::move(other.bytes_);
  other.Wipe();
  return *this;
}

void ChapSecret::Wipe() {
  bytes_.resize(bytes_.capacity());
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
  bytes_.clear();
}

bool ChapSecret::Equals(const ChapSecret& other) const {
  return EqualInConstantTime(AsBytes(bytes_), AsBytes(other.bytes_));
}

absl::Status CheckChapName(absl::string_view name) {
  if (name.empty()) {
    return absl::InvalidArgumentError("a name for CHAP is empty");
  }
  if (name.size() > kMaxNameBytes || !IsPrintableUtf8(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a name for CHAP has to be UTF-8 without control characters, of 1 to ",
        kMaxNameBytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckChapSecret(const ChapSecret& secret) {
  const size_t bytes = secret.bytes().size();
  if (bytes >= ChapSecret::kMinBytes && bytes <= ChapSecret::kMaxBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a secret for CHAP has ", bytes, " bytes: it has to have ",
                   ChapSecret::kMinBytes, " to ", ChapSecret::kMaxBytes,
                   " (RFC 7143 section 9.2.1)"));
}

absl::Status CheckChapCredential(const ChapCredential& credential) {
  const absl::Status name = CheckChapName(credential.name);
  return name.ok() ? CheckChapSecret(credential.secret) : name;
}

absl::Status CheckChapPair(const ChapSecret& initiators,
                           const ChapSecret& targets) {
  if (!initiators.Equals(targets)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the initiator and the target have the same secret for CHAP: each "
      "direction needs one of its own (RFC 7143 section 9.2.1)");
}

}  // namespace skiff::protocol
