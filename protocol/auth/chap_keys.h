#ifndef SKIFF_PROTOCOL_AUTH_CHAP_KEYS_H_
#define SKIFF_PROTOCOL_AUTH_CHAP_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protocol/auth/chap_algorithm.h"
#include "protocol/negotiation/auth.h"

namespace skiff::protocol {

// The keys of one step of CHAP, parsed (RFC 7143 section 12.1.3). A step says
// which it takes; what it needs of them it looks for itself.
struct ChapKeys {
  // Bits of Take()'s `allowed`.
  static constexpr unsigned kA = 1, kI = 2, kC = 4, kN = 8, kR = 16;
  // Section 12.1.3: a binary value's limit.
  static constexpr size_t kMaxBinaryBytes = 1024;
  // Limits of ours: of numbers in CHAP_A, and of keys that nobody knows.
  static constexpr size_t kMaxAlgorithms = 64;
  static constexpr size_t kMaxUnknownKeys = 16;

  unsigned present = 0;
  std::vector<uint64_t> algorithms;
  uint8_t identifier = 0;
  std::vector<uint8_t> challenge;
  std::string name;
  std::vector<uint8_t> response;

  bool Has(unsigned keys) const { return (present & keys) == keys; }

  // Parses `in`; answers keys that are not CHAP's with NotUnderstood. Errors
  // name the key, and have nothing of its value.
  absl::Status Take(absl::Span<const KeyValue> in, unsigned allowed,
                    std::vector<KeyValue>* out);

 private:
  absl::Status TakeOne(unsigned key, absl::string_view value);
};

// A challenge and its identifier.
struct ChapChallenge {
  uint8_t identifier = 0;
  std::vector<uint8_t> bytes;

  // A new one of the length that suits the algorithm. Unavailable: the system
  // has no random source.
  static absl::StatusOr<ChapChallenge> New(ChapAlgorithm algorithm);
  void AppendTo(std::vector<KeyValue>* out) const;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_AUTH_CHAP_KEYS_H_
