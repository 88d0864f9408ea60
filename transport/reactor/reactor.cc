#include "transport/reactor/reactor.h"

#include "transport/reactor/newcomers.h"
#include "transport/reactor/turn_shares.h"

namespace skiff::transport {

Reactor::Reactor()
    : turn_shares_(std::make_unique<TurnShares>()),
      newcomers_(std::make_unique<Newcomers>(this)) {}

Reactor::~Reactor() = default;

}  // namespace skiff::transport
