#include "transport/reactor.h"

#include "transport/turn_shares.h"

namespace skiff::transport {

Reactor::Reactor() : turn_shares_(std::make_unique<TurnShares>()) {}

Reactor::~Reactor() = default;

}  // namespace skiff::transport
