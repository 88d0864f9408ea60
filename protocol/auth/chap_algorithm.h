#ifndef SKIFF_PROTOCOL_AUTH_CHAP_ALGORITHM_H_
#define SKIFF_PROTOCOL_AUTH_CHAP_ALGORITHM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace skiff::protocol {

// The digests of CHAP by their numbers in IANA's registry of PPP
// authentication algorithms: what CHAP_A carries.
enum class ChapAlgorithm : uint8_t {
  kMd5 = 5,
  kSha1 = 6,
  kSha256 = 7,
  kSha3 = 8,
};

// All of them, strongest first.
absl::Span<const ChapAlgorithm> AllChapAlgorithms();

// "MD5", "SHA1", "SHA-256", "SHA3-256": as settings and logs have it.
absl::string_view ChapAlgorithmName(ChapAlgorithm algorithm);
// InvalidArgument: none is called so. Case does not matter.
absl::StatusOr<ChapAlgorithm> ParseChapAlgorithm(absl::string_view name);

// Bytes of a response; challenges of ours have as many.
size_t ChapDigestBytes(ChapAlgorithm algorithm);

// The response of RFC 1994 section 4.1: the digest of identifier, secret and
// challenge. Unavailable: this machine's OpenSSL does not have the digest, as
// in FIPS mode.
absl::StatusOr<std::vector<uint8_t>> ChapResponse(
    ChapAlgorithm algorithm, uint8_t identifier, absl::string_view secret,
    absl::Span<const uint8_t> challenge);

// In a time that depends on the lengths alone.
bool EqualInConstantTime(absl::Span<const uint8_t> a,
                         absl::Span<const uint8_t> b);

// From the system's random source. False: it has none, which is reported as a
// failed login.
bool FillRandom(absl::Span<uint8_t> bytes);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_AUTH_CHAP_ALGORITHM_H_
