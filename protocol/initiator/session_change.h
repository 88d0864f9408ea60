#ifndef SKIFF_PROTOCOL_INITIATOR_SESSION_CHANGE_H_
#define SKIFF_PROTOCOL_INITIATOR_SESSION_CHANGE_H_

#include <cstdint>

namespace skiff::protocol {

// What became of a session that was in full feature phase.
enum class SessionChange : uint8_t {
  // Its connection is gone. It is being restored, and commands wait for that.
  kLost,
  kRestored,
  // Not restored within `reconnect.replacement_timeout`: commands fail, those
  // that waited and new ones. Restoring it goes on.
  kGivenUp,
  // No connection will be made any more: it was logged out.
  kClosed,
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_INITIATOR_SESSION_CHANGE_H_
