#ifndef SKIFF_PROTOCOL_CONNECTION_CONNECTION_PUMP_H_
#define SKIFF_PROTOCOL_CONNECTION_CONNECTION_PUMP_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace skiff::protocol {

// Why a connection ends on whose peer's behalf memory ran out: SpareMemory
// tells, or std::bad_alloc. Exists once a pump was made, so that it costs none.
inline const absl::Status& NoMemoryForPeer() {
  static const auto* const kStatus = new absl::Status(
      absl::ResourceExhaustedError("the system has no memory for its work"));
  return *kStatus;
}

// Told by a pump, while neither the datamover nor the endpoint is on the call
// stack: both calls may destroy pump, datamover and session, in this order.
class PumpClient {
 public:
  virtual ~PumpClient() = default;
  // Something was received and handed to the datamover, or it is not congested
  // any more.
  virtual void OnProgress() = 0;
  // The connection ended: OK after CloseWhenSent() and the peer's end,
  // otherwise why. Comes once, last. The datamover is not told.
  virtual void OnClosed(absl::Status why) = 0;
};

// Moves what a connection sends and receives between its endpoint and its
// datamover, at the end of the reactor's turns: one implementation for each
// kind of endpoint. Whoever owns a connection does not know which.
//
// Not thread-safe; lives on its reactor.
//
// Lifetime: destroy it at any time except from inside a call of the datamover
// to its session. There, note what is to be done and do it in
// OnProgress(), which follows.
class ConnectionPump {
 public:
  virtual ~ConnectionPump() = default;

  // There may be something to send: sends at the end of this turn. Cheap, and
  // allowed from anywhere on the reactor's thread.
  virtual void Kick() = 0;

  // Sends what is queued, ends our direction, then discards what still comes
  // until the peer ends his. The datamover receives nothing any more. Bound the
  // wait with a timer.
  virtual void CloseWhenSent() = 0;

  // Receives nothing any more, and does not notice as a rule that the peer ends
  // his direction; what is to be sent may still leave. For a connection that is
  // about to be destroyed, or to be closed by CloseWhenSent().
  virtual void StopReceiving() = 0;

  // ByteStream::ReleaseDescriptor(); the pump is good for nothing else then.
  virtual int ReleaseDescriptor(std::string* /*unread*/) { return -1; }

  // Whether the connection logs in, so that its passes are among the reactor's
  // Newcomers, or has a share of its own, as it has at first.
  virtual void SetNewcomer(bool newcomer) = 0;

  // As ByteStream::SetReadThreshold; cheap when it does not change.
  virtual void SetReadThreshold(size_t bytes) = 0;
  // False where messages are not bytes, so that it has no effect.
  virtual bool has_read_threshold() const = 0;

  // Something waits to be sent.
  virtual bool has_output() const = 0;
  // When something last arrived (at first: when the pump was made).
  virtual absl::Time last_receive() const = 0;
  // True while the connection takes no more although something waits.
  virtual bool send_blocked() const = 0;
  // When the connection last took something, or began to take nothing.
  virtual absl::Time last_send_progress() const = 0;
  virtual uint64_t bytes_received() const = 0;
  virtual uint64_t bytes_sent() const = 0;
  // As ByteStream::unacknowledged(); nothing where messages are not bytes.
  virtual size_t unacknowledged() const = 0;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CONNECTION_CONNECTION_PUMP_H_
