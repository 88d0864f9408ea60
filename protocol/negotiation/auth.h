#ifndef SKIFF_PROTOCOL_NEGOTIATION_AUTH_H_
#define SKIFF_PROTOCOL_NEGOTIATION_AUTH_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {

// One key of a login, and its value, as they came.
using KeyValue = std::pair<std::string, std::string>;

// One authentication method's exchange in the security stage (RFC 7143 section
// 12). The login state machines negotiate AuthMethod and, when it is not None,
// hand every key they don't know themselves to the method's exchange.
class AuthExchange {
 public:
  // What a step led to.
  enum class Progress {
    kContinue,  // The peer has to send more.
    kDone,
    kFailed,
    kWaiting,  // Somebody here has to answer first: see SetReady().
  };
  virtual ~AuthExchange() = default;
  // Consumes the peer's keys of one complete key set, appends the answer to
  // `out`. kDone: this side is satisfied, the stage may end. kFailed: `status`
  // is what the target answers with; the reason is for the log, never for the
  // peer.
  virtual Progress Step(absl::Span<const KeyValue> in,
                        std::vector<KeyValue>* out, LoginStatus* status,
                        std::string* reason) = 0;
  // Of an initiator, after a step: this side has nothing left to send, and the
  // stage may end with the key set that the peer answers with.
  virtual bool may_end() const { return false; }
  // Once done: the name by which the peer has authenticated itself. Empty: it
  // did not have to.
  virtual std::string peer_name() const = 0;
  // Called before the first step. After a step that ends in kWaiting, `ready`
  // is called once, on the same thread and not within the step; Step() without
  // keys is what to do then. Only a target waits.
  virtual void SetReady(const std::function<void()>& /*ready*/) {}
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_NEGOTIATION_AUTH_H_
