#ifndef SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LIFE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LIFE_H_

#include <cstdint>

namespace skiff::transport {

// The life of a connection over datagrams, without I/O: what DatagramLink is
// told, and what it has to do then. The structs beside this file keep what else
// a state has: probe_exchange.h, sleep_watch.h, refusal_watch.h, farewell.h.
//
//   event           in                          then         action
//   kConnect        idle                        connecting   kSendRequest
//   kAccept         idle                        probing      kSendAnswer
//   kAnswered       connecting                  probing      kProbe
//                   idle, probing, established,
//                     peer leaving              the same     kFail
//   kRefused        idle, connecting, probing,
//                     established, peer leaving the same     kFail
//   kProbed         probing                     established  kReport
//   kTimer          probing                     probing      kProbeAgain
//                   peer leaving                peer leaving kLookAgain
//                   leaving                     ended        kClose
//   kPeerLeaves     connecting, probing         the same     kFail
//                   established                 peer leaving kAwaitMessages
//                   leaving                     leaving      kGoOnLeaving
//   kBothQuiet      leaving                     ended        kClose
//   kClosing        established, peer leaving   leaving      kLeave
//                   any other                   ended        kHangUp
//   kClosingShared  probing, established,
//                     peer leaving              leaving      kLeave
//                   any other                   ended        kHangUp
//   kLost           connecting                  connecting   kFail
//                   ended                       ended        kNothing
//                   any other                   ended        kVanish
//
// Anything else changes nothing, and nothing follows. kFail leaves the state
// alone, because it has the queue pair closed, which is an event of its own.
enum class DatagramState : uint8_t {
  kIdle,
  kConnecting,   // Waits for kAccept.
  kProbing,      // Waits for the probes to go through.
  kEstablished,  // From now on the queue pair closes step by step.
  kPeerLeaving,  // Established still: waits for the rest of its messages.
  kLeaving,      // Has sent kDisconnect.
  kEnded,        // The endpoint is closed, or about to be.
};

enum class DatagramEvent : uint8_t {
  kConnect,        // Our user asks for a connection.
  kAccept,         // Our user takes the peer's request, which is good.
  kAnswered,       // The peer took ours.
  kRefused,        // The peer did not, or broke the handshake.
  kProbed,         // Both probes have gone through.
  kTimer,          // What the state waits for has not come.
  kPeerLeaves,     // The peer posts nothing any more.
  kBothQuiet,      // Neither touches the other's memory any more.
  kClosing,        // The queue pair is about to close its endpoint.
  kClosingShared,  // The same where the two ends share their mappings.
  kLost,           // The peer ended without a word, or its process did.
};

enum class DatagramAction : uint8_t {
  kNothing,
  kFail,           // There is no connection, or no more.
  kSendRequest,    // Sends kConnect, and awaits the peer's probe.
  kSendAnswer,     // Sends kAccept, and awaits the peer's probe.
  kProbe,          // Uses the peer's address, and sends the first probe.
  kProbeAgain,     // If the provider was busy.
  kReport,         // The connection stands.
  kAwaitMessages,  // Gives those that the peer has sent some time to arrive.
  kLookAgain,      // Whether they have.
  kLeave,          // Sends kDisconnect; the queue pair waits for Close().
  kGoOnLeaving,    // The next step, if it is our turn.
  kClose,          // The endpoint, and then the stream.
  kHangUp,         // Closes the stream; the queue pair does the rest.
  kVanish,         // The queue pair ends with nothing more said.
};

struct DatagramStep {
  DatagramState next;
  DatagramAction action;
};

// The table.
DatagramStep NextStep(DatagramState state, DatagramEvent event);

class DatagramLife {
 public:
  DatagramState state() const { return state_; }
  bool is(DatagramState state) const { return state_ == state; }
  // The connection stands.
  bool up() const {
    return is(DatagramState::kEstablished) || is(DatagramState::kPeerLeaving);
  }
  // Goes to the next state, and returns what is to be done there.
  DatagramAction Apply(DatagramEvent event) {
    const DatagramStep step = NextStep(state_, event);
    state_ = step.next;
    return step.action;
  }

 private:
  DatagramState state_ = DatagramState::kIdle;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_DATAGRAM_DATAGRAM_LIFE_H_
