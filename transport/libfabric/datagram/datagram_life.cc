#include "transport/libfabric/datagram/datagram_life.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace skiff::transport {
namespace {

using State = DatagramState;
using Event = DatagramEvent;
using Action = DatagramAction;

// A set of states.
constexpr uint8_t Of(std::initializer_list<State> states) {
  unsigned set = 0;
  for (const State state : states) set |= 1U << static_cast<unsigned>(state);
  return static_cast<uint8_t>(set);
}

constexpr uint8_t kUp = Of({State::kEstablished, State::kPeerLeaving});
constexpr uint8_t kNotUp =
    Of({State::kIdle, State::kConnecting, State::kProbing, State::kLeaving,
        State::kEnded});

// Each has a `next`, or leaves the state alone.
struct Rule {
  Event event;
  uint8_t in;
  Action action;
  bool moves = false;
  State next = State::kIdle;
};

constexpr Rule Stay(Event event, uint8_t in, Action action) {
  return {event, in, action};
}
constexpr Rule Go(Event event, uint8_t in, State next, Action action) {
  return {event, in, action, true, next};
}

constexpr Rule kRules[] = {
    Go(Event::kConnect, Of({State::kIdle}), State::kConnecting,
       Action::kSendRequest),
    Go(Event::kAccept, Of({State::kIdle}), State::kProbing,
       Action::kSendAnswer),
    Go(Event::kAnswered, Of({State::kConnecting}), State::kProbing,
       Action::kProbe),
    Stay(Event::kAnswered, Of({State::kIdle, State::kProbing}) | kUp,
         Action::kFail),
    Stay(Event::kRefused,
         Of({State::kIdle, State::kConnecting, State::kProbing}) | kUp,
         Action::kFail),
    Go(Event::kProbed, Of({State::kProbing}), State::kEstablished,
       Action::kReport),
    Stay(Event::kTimer, Of({State::kProbing}), Action::kProbeAgain),
    Stay(Event::kTimer, Of({State::kPeerLeaving}), Action::kLookAgain),
    Go(Event::kTimer, Of({State::kLeaving}), State::kEnded, Action::kClose),
    Stay(Event::kPeerLeaves, Of({State::kConnecting, State::kProbing}),
         Action::kFail),
    Go(Event::kPeerLeaves, Of({State::kEstablished}), State::kPeerLeaving,
       Action::kAwaitMessages),
    Stay(Event::kPeerLeaves, Of({State::kLeaving}), Action::kGoOnLeaving),
    Go(Event::kBothQuiet, Of({State::kLeaving}), State::kEnded, Action::kClose),
    Go(Event::kClosing, kUp, State::kLeaving, Action::kLeave),
    Go(Event::kClosing, kNotUp, State::kEnded, Action::kHangUp),
    Go(Event::kClosingShared, Of({State::kProbing}) | kUp, State::kLeaving,
       Action::kLeave),
    Go(Event::kClosingShared,
       Of({State::kIdle, State::kConnecting, State::kLeaving, State::kEnded}),
       State::kEnded, Action::kHangUp),
    Stay(Event::kLost, Of({State::kConnecting}), Action::kFail),
    Go(Event::kLost, Of({State::kIdle, State::kProbing, State::kLeaving}) | kUp,
       State::kEnded, Action::kVanish),
};

}  // namespace

DatagramStep NextStep(DatagramState state, DatagramEvent event) {
  const auto* const rule = std::find_if(
      std::begin(kRules), std::end(kRules), [&](const Rule& candidate) {
        return candidate.event == event && (candidate.in & Of({state})) != 0;
      });
  if (rule == std::end(kRules)) return {state, Action::kNothing};
  return {rule->moves ? rule->next : state, rule->action};
}

}  // namespace skiff::transport
