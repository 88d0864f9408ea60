#ifndef SKIFF_PROTOCOL_AUTH_CHAP_SECRET_H_
#define SKIFF_PROTOCOL_AUTH_CHAP_SECRET_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace skiff::protocol {

// A shared secret. It is overwritten when it goes, and nothing formats it: a
// log that is given one does not compile.
class ChapSecret {
 public:
  // RFC 7143 section 9.2.1: at least 96 bits.
  static constexpr size_t kMinBytes = 12;
  // A limit of ours, far above what anybody else takes.
  static constexpr size_t kMaxBytes = 255;

  ChapSecret() = default;
  // Copies them.
  explicit ChapSecret(absl::string_view bytes) : bytes_(bytes) {}
  ChapSecret(const ChapSecret&) = default;
  ChapSecret(ChapSecret&& other) noexcept { *this = std::move(other); }
  ChapSecret& operator=(const ChapSecret& other);
  ChapSecret& operator=(ChapSecret&& other) noexcept;
  ~ChapSecret() { Wipe(); }

  // Any bytes: it is no text.
  absl::string_view bytes() const { return bytes_; }
  // There is none.
  bool empty() const { return bytes_.empty(); }
  // In a time that depends on the lengths alone.
  bool Equals(const ChapSecret& other) const;

 private:
  void Wipe();

  std::string bytes_;
};

// Who one side is, and how it shows that.
struct ChapCredential {
  std::string name;  // CHAP_N: UTF-8, of 1 to 255 bytes.
  ChapSecret secret;
};

// InvalidArgument: what is wrong with the name.
absl::Status CheckChapName(absl::string_view name);
// The same of a secret, without showing it.
absl::Status CheckChapSecret(const ChapSecret& secret);
// The same of both.
absl::Status CheckChapCredential(const ChapCredential& credential);

// What may not be configured together (section 9.2.1): one secret for both
// directions.
absl::Status CheckChapPair(const ChapSecret& initiators,
                           const ChapSecret& targets);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_AUTH_CHAP_SECRET_H_
