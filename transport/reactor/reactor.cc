#include "transport/reactor/reactor.h"

#include "transport/reactor/turn_shares.h"

namespace skiff::transport {

Reactor::Reactor() : turn_shares_(std::make_unique<TurnShares>()) {}

Reactor::~Reactor() = default;

}  // namespace skiff::transport
