#ifndef SKIFF_PROTOCOL_AUTH_HELD_REFUSAL_H_
#define SKIFF_PROTOCOL_AUTH_HELD_REFUSAL_H_

#include <functional>
#include <memory>
#include <string>

#include "protocol/negotiation/auth.h"

// Refusals of a target that are told later, so that who guesses is slow.
// Sans-IO: somebody else has the clock.

namespace skiff::protocol {

// Whether a refusal waits. `reason` is for the log. If so, `tell` is to be
// called once, later and not within this call, on the exchange's thread and
// while the exchange is there.
using RefusalHolder =
    std::function<bool(const std::string& reason, std::function<void()> tell)>;

// `exchange`, a target's, with its refusals held back as `hold` says. It asks
// about kAuthenticationFailure alone, whatever the reason is: an unknown name
// and a wrong secret look the same. Who succeeds, or breaks the protocol, waits
// for nothing.
std::unique_ptr<AuthExchange> HoldRefusals(
    std::unique_ptr<AuthExchange> exchange, RefusalHolder hold);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_AUTH_HELD_REFUSAL_H_
