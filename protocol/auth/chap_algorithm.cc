#include "protocol/auth/chap_algorithm.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace skiff::protocol {
namespace {

struct Row {
  ChapAlgorithm algorithm;
  absl::string_view name;
  const char* digest;  // OpenSSL's name of it.
  size_t bytes;
};

constexpr std::array<Row, 4> kRows = {{
    {ChapAlgorithm::kSha3, "SHA3-256", "SHA3-256", 32},
    {ChapAlgorithm::kSha256, "SHA-256", "SHA256", 32},
    {ChapAlgorithm::kSha1, "SHA1", "SHA1", 20},
    {ChapAlgorithm::kMd5, "MD5", "MD5", 16},
}};

constexpr std::array<ChapAlgorithm, 4> kAll = {
    ChapAlgorithm::kSha3, ChapAlgorithm::kSha256, ChapAlgorithm::kSha1,
    ChapAlgorithm::kMd5};

const Row& RowOf(ChapAlgorithm algorithm) {
  for (const Row& row : kRows) {
    if (row.algorithm == algorithm) return row;
  }
  return kRows.back();
}

}  // namespace

absl::Span<const ChapAlgorithm> AllChapAlgorithms() { return kAll; }

absl::string_view ChapAlgorithmName(ChapAlgorithm algorithm) {
  return RowOf(algorithm).name;
}

absl::StatusOr<ChapAlgorithm> ParseChapAlgorithm(absl::string_view name) {
  for (const Row& row : kRows) {
    if (absl::EqualsIgnoreCase(row.name, name)) return row.algorithm;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no algorithm of CHAP is called '", name,
                   "': there are SHA3-256, SHA-256, SHA1 and MD5"));
}

size_t ChapDigestBytes(ChapAlgorithm algorithm) {
  return RowOf(algorithm).bytes;
}

absl::StatusOr<std::vector<uint8_t>> ChapResponse(
    ChapAlgorithm algorithm, uint8_t identifier, absl::string_view secret,
    absl::Span<const uint8_t> challenge) {
  const Row& row = RowOf(algorithm);
  const std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> digest(
      EVP_MD_fetch(nullptr, row.digest, nullptr), EVP_MD_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::vector<uint8_t> response(row.bytes);
  const bool made =
      digest != nullptr && context != nullptr &&
      EVP_DigestInit_ex2(context.get(), digest.get(), nullptr) == 1 &&
      EVP_DigestUpdate(context.get(), &identifier, 1) == 1 &&
      EVP_DigestUpdate(context.get(), secret.data(), secret.size()) == 1 &&
      EVP_DigestUpdate(context.get(), challenge.data(), challenge.size()) ==
          1 &&
      EVP_DigestFinal_ex(context.get(), response.data(), nullptr) == 1;
  if (!made) {
    return absl::UnavailableError(absl::StrCat(
        "OpenSSL on this machine does not offer ", row.name,
        ", as in FIPS mode: leave it out of the algorithms of CHAP"));
  }
  return response;
}

bool EqualInConstantTime(absl::Span<const uint8_t> a,
                         absl::Span<const uint8_t> b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool FillRandom(absl::Span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace skiff::protocol
