#ifndef SKIFF_PROTOCOL_NEGOTIATION_NEGOTIATED_KEYS_H_
#define SKIFF_PROTOCOL_NEGOTIATION_NEGOTIATED_KEYS_H_

#include <string>
#include <vector>

#include "protocol/negotiation/auth.h"
#include "protocol/negotiation/parameters.h"

// What a login agreed on, for people and programs that look at a session.

namespace skiff::protocol {

// The operational keys that mean something with these values, and the values in
// force, in the order of the key table. What each side declares for itself is
// "INITIATOR/TARGET".
std::vector<KeyValue> NegotiatedKeys(const Parameters& parameters);

// Which dialect of iSER is spoken, and what that means for writes: "RFC 7145,
// write base offset of solicited data". Empty without iSER.
std::string IserDialect(const IserParameters& iser);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_NEGOTIATED_KEYS_H_
