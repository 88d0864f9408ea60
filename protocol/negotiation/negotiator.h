#ifndef SKIFF_PROTOCOL_NEGOTIATION_NEGOTIATOR_H_
#define SKIFF_PROTOCOL_NEGOTIATION_NEGOTIATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/text.h"
#include "protocol/negotiation/auth.h"
#include "protocol/negotiation/keys.h"
#include "protocol/negotiation/parameters.h"

namespace skiff::protocol {

// Negotiates the operational keys of one connection by the table of keys.h
// (RFC 7143 section 6.2): proposals out, answers in, and the other way round.
// Either role may propose; both use the same code. An error is a negotiation
// failure, which ends the login (section 7.12) or, in the full feature phase,
// the text exchange; the object is unusable after it.
class Negotiator {
 public:
  struct Options {
    Role role = Role::kTarget;
    SessionType session_type = SessionType::kNormal;
    bool leading = true;  // The first connection of its session.
    // Keys answered with NotUnderstood before it is too much.
    uint32_t max_unknown_keys = 64;
  };

  // `offer` is valid (Validate()). `current` holds the values in force: the
  // defaults in a login.
  Negotiator(const Options& options, const Offer& offer,
             const Parameters& current = Parameters());

  // Appends this side's declarations, and its proposals too with ProposeAll().
  // What was sent before is not sent again. A target declares again after
  // OnKeys(): there is more to declare to an initiator that knows RFC 7145.
  void Declare(std::vector<KeyValue>* out);
  void ProposeAll(std::vector<KeyValue>* out);

  // Handles the peer's keys of one key set, received in `stage` (a bit of
  // kInAnyStage), and appends the answers in the table's order.
  absl::Status OnKeys(uint8_t stage, absl::Span<const TextPair> pairs,
                      std::vector<KeyValue>* out);

  // The negotiation is over: settles what was proposed and not answered, and
  // checks the values against each other.
  absl::Status Finish();

  // The values agreed on so far. They are in force after Finish().
  const Parameters& parameters() const { return parameters_; }

 private:
  // What happened to a key in this login. Sending one twice is an error
  // (section 6.3), so nothing goes back.
  struct KeyState {
    bool sent = false;      // We declared it or proposed it ...
    bool awaited = false;   // ... and the peer has not answered yet.
    bool received = false;  // The peer declared or proposed it.
  };

  Role Peer() const;
  KeyState& StateOf(const KeySpec& key);
  bool IsIrrelevant(const KeySpec& key) const;
  bool ShouldPropose(const KeySpec& key) const;
  uint32_t& NumberOf(const KeySpec& key, Role sender);
  std::string OfferText(const KeySpec& key) const;
  void Send(const KeySpec& key, std::vector<KeyValue>* out);

  absl::Status OnKey(const KeySpec& key, absl::string_view value,
                     std::vector<KeyValue>* out);
  absl::Status OnUnknownKey(const TextPair& pair, std::vector<KeyValue>* out);
  absl::Status OnDeclaration(const KeySpec& key, absl::string_view value);
  absl::Status OnProposal(const KeySpec& key, absl::string_view value,
                          std::string* answer);
  absl::Status ChooseBoolean(const KeySpec& key, absl::string_view value,
                             std::string* answer);
  absl::Status ChooseNumber(const KeySpec& key, absl::string_view value,
                            std::string* answer);
  absl::Status ChooseFromList(const KeySpec& key, absl::string_view value,
                              std::string* answer);
  absl::Status OnAnswer(const KeySpec& key, absl::string_view value);
  absl::Status OnBooleanAnswer(const KeySpec& key, absl::string_view value);
  absl::Status OnNumberAnswer(const KeySpec& key, absl::string_view value);
  absl::Status OnListAnswer(const KeySpec& key, absl::string_view value);
  absl::Status LeaveAtDefault(const KeySpec& key, absl::string_view why);
  void OnNotUnderstood(const KeySpec& key);
  absl::Status SettleIser();

  const Options options_;
  const Offer offer_;
  Parameters parameters_;
  std::vector<KeyState> states_;
  uint32_t unknown_keys_ = 0;

  // Keys that only RFC 7145 has.
  bool rfc7145_sent_ = false;
  bool rfc7145_received_ = false;
  bool rfc7145_not_understood_ = false;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_NEGOTIATOR_H_
