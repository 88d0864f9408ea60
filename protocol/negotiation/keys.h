#ifndef SKIFF_PROTOCOL_NEGOTIATION_KEYS_H_
#define SKIFF_PROTOCOL_NEGOTIATION_KEYS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/negotiation/parameters.h"

// The text keys of RFC 7143 sections 12.1 and 13, of RFC 7144 and of RFC 7145
// section 6 as one table, which both roles use. A new key is a new row.

namespace skiff::protocol {

enum class Role : uint8_t { kInitiator, kTarget };

// The stages in which a key may be sent, as bits. The RFC's "use": IO is login
// only, FFPO is full feature phase only, ALL is both; Any-Stage adds the
// security stage.
inline constexpr uint8_t kNever = 0;
inline constexpr uint8_t kInSecurity = 1;
inline constexpr uint8_t kInOperational = 2;
inline constexpr uint8_t kInFullFeature = 4;
inline constexpr uint8_t kInLogin = kInSecurity | kInOperational;
inline constexpr uint8_t kInAnyStage = kInLogin | kInFullFeature;

enum class KeyType : uint8_t {
  kBoolean,
  kNumber,
  kList,
  kName,       // An iSCSI-name-value.
  kLocalName,  // An iSCSI-local-name-value: UTF-8.
  kText,       // A text-value with a syntax of its own.
};

// How the result follows from the proposal ("Result function"), or why it
// doesn't.
enum class KeyResult : uint8_t {
  kAnd,
  kOr,
  kMinimum,
  kMaximum,
  kChoice,       // The first of the proposed values that the acceptor supports.
  kDeclaration,  // No answer.
  kRejected,     // Obsolete: always answered with Reject (section 13.25).
};

enum class KeyScope : uint8_t { kConnection, kSession };

// Who interprets a key.
enum class KeyUse : uint8_t {
  kIdentity,     // The login: who is who.
  kSecurity,     // The login: AuthMethod.
  kOperational,  // The Negotiator.
  kDiscovery,    // SendTargets and its answer.
};

// A place for a value in an Offer or in Parameters, or in their part for iSER.
template <typename Struct, typename Value>
class Field {
 public:
  using Part = decltype(Struct::iser);

  constexpr Field() = default;  // None.
  // NOLINTNEXTLINE(google-explicit-constructor): the table's rows read better.
  constexpr Field(Value Struct::*direct) : direct_(direct) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Field(Value Part::*of_iser) : of_iser_(of_iser) {}

  constexpr explicit operator bool() const {
    return direct_ != nullptr || of_iser_ != nullptr;
  }
  Value& In(Struct& all) const {
    return direct_ != nullptr ? all.*direct_ : all.iser.*of_iser_;
  }
  const Value& In(const Struct& all) const {
    return direct_ != nullptr ? all.*direct_ : all.iser.*of_iser_;
  }

  bool operator==(const Field&) const = default;

 private:
  Value Struct::*direct_ = nullptr;
  Value Part::*of_iser_ = nullptr;
};

struct KeySpec {
  absl::string_view name;
  KeyType type = KeyType::kText;
  KeyResult result = KeyResult::kDeclaration;
  KeyUse use = KeyUse::kOperational;
  KeyScope scope = KeyScope::kSession;
  // When each role may send it.
  uint8_t from_initiator = kInOperational;
  uint8_t from_target = kInOperational;
  bool leading_only = false;  // Use LO: the first connection of a session.
  bool repeatable = false;    // May be declared more than once.
  bool irrelevant_in_discovery = false;
  // ... but proposed and answered as elsewhere all the same.
  bool tolerated_in_discovery = false;
  // Defined after RFC 3720, so that a peer may answer NotUnderstood.
  bool later = false;
  // Only who knows RFC 7145 knows it (IserParameters::rfc7145).
  bool rfc7145 = false;
  // Further cases in which the key is irrelevant, given the values so far.
  bool (*irrelevant_when)(const Parameters&) = nullptr;
  // When to propose it; null is always, for keys that an offer has.
  bool (*proposed_when)(const Offer&) = nullptr;

  // Numbers: the allowed range, and the value above which an acceptor must not
  // go, if there is one.
  uint32_t minimum = 0;
  uint32_t maximum = 0;
  bool or_zero = false;  // 0 is allowed, too.
  uint32_t Parameters::*not_above = nullptr;

  // Where the offer comes from and the result goes to, by type. A number that
  // each side declares has two places; a negotiated one has the same twice. A
  // list without a place has one supported value.
  Field<Offer, bool> flag_offer = {};
  Field<Parameters, bool> flag = {};
  Field<Offer, uint32_t> number_offer = {};
  Field<Parameters, uint32_t> number_of_initiator = {};
  Field<Parameters, uint32_t> number_of_target = {};
  std::vector<Digest> Offer::*digest_offer = nullptr;
  Digest Parameters::*digest = nullptr;
  absl::string_view only_choice = {};
};

// All keys, in the order in which they are proposed and answered: a key comes
// after those on which it depends.
absl::Span<const KeySpec> AllKeys();

// Null for a key that is not in the table.
const KeySpec* FindKey(absl::string_view name);

// Whether `sender` may send the key in a stage (a bit of kInAnyStage), with
// this value: that it does not understand a key of the other side's is for
// everyone to say. The error says which rule it breaks.
absl::Status CheckKeyAllowed(const KeySpec& key, Role sender, uint8_t stage,
                             absl::string_view value = {});

// Whether the key, a number, may have the value.
bool InRange(const KeySpec& key, uint64_t value);

absl::string_view DigestName(Digest digest);

// Whether an offer of `role` keeps the ranges and the rules between keys, and
// promises no more than iSER's receives hold. Call it for configuration; the
// login state machines assume a valid offer.
absl::Status Validate(const Offer& offer, Role role);

// The rules between negotiated values that section 13 sets (integrity rules,
// section 6.2).
absl::Status CheckIntegrity(const Parameters& parameters);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_KEYS_H_
