#ifndef SKIFF_PROTOCOL_NEGOTIATION_LOGIN_KEYS_H_
#define SKIFF_PROTOCOL_NEGOTIATION_LOGIN_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"
#include "protocol/codec/text.h"
#include "protocol/negotiation/auth.h"
#include "protocol/negotiation/keys.h"

// What the two login state machines share.

namespace skiff::protocol {

// The only version there is (section 11.12.4).
inline constexpr uint8_t kIscsiVersion = 0;

// The stage as a bit of keys.h.
uint8_t StageBit(LoginStage stage);

// Whether a transition may lead from one stage to the other (the table of
// section 6.3).
bool IsTransition(LoginStage from, LoginStage to);

// The pairs of one key set by who interprets them. Views into the key set.
struct SortedKeys {
  std::vector<TextPair> identity;
  const TextPair* auth_method = nullptr;  // Points into the sorted pairs.
  std::vector<TextPair> unknown;          // For an authentication, or nobody.
  std::vector<TextPair> others;           // For the Negotiator.
};

// Sorts pairs that `sender` sent in `stage`. Errors: a key that this side may
// not send or not in this stage, and a second AuthMethod.
absl::Status SortKeys(Role sender, LoginStage stage,
                      absl::Span<const TextPair> pairs, SortedKeys* sorted);

// Copies for AuthExchange::Step().
std::vector<KeyValue> CopyKeys(absl::Span<const TextPair> pairs);

// Checks a TargetAlias or an InitiatorAlias (sections 13.6 and 13.7).
absl::Status CheckAlias(const TextPair& pair);

// Detects keys that are declared more than once in a login (section 6.3). One
// that says the same again in a later stage passes, against the letter:
// libiscsi with credentials, and QEMU with it, repeat in the operational stage
// who they are. Nothing can be changed that way.
class DeclaredOnce {
 public:
  // Whether the key is new; else it repeats what was said.
  absl::StatusOr<bool> Add(LoginStage stage, const TextPair& pair);

 private:
  struct Declaration {
    const KeySpec* key;
    LoginStage stage;  // The last.
    std::string value;
  };
  std::vector<Declaration> seen_;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_LOGIN_KEYS_H_
