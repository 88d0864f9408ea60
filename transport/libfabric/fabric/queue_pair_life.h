#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_LIFE_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_LIFE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace skiff::transport {

// The life of a queue pair, of either kind of endpoint:
//
//   call          in                            then
//   Probing()     opening                       probing
//   Connected()   opening, probing              connected
//   End()         opening, probing, connected   closed
//   Linger()      closed                        closing
//   Closed()      closing                       closed
//
// Elsewhere the calls change nothing. Before it ends, a queue pair may be
// stopped: nothing is handed to the provider any more. It is, from when there
// is a reason to end it, or a request was wrong; and it stays so.
class QueuePairLife {
 public:
  // The link waits for the peer's probe.
  void Probing() {
    if (phase_ == Phase::kOpening) phase_ = Phase::kProbing;
  }
  void Connected() {
    if (phase_ < Phase::kConnected) phase_ = Phase::kConnected;
  }
  // True if it was connected. Needs !ended().
  bool End(const absl::Status& why) {
    const bool was_connected = connected();
    phase_ = Phase::kClosed;
    error_ = why;
    return was_connected;
  }
  // The link needs time before the endpoint closes.
  void Linger() {
    if (phase_ == Phase::kClosed) phase_ = Phase::kClosing;
  }
  void Closed() {
    if (phase_ == Phase::kClosing) phase_ = Phase::kClosed;
  }

  void Stop() { stopped_ = true; }
  // The first reason counts.
  void StopBecause(const absl::Status& why) {
    if (break_reason_.ok()) break_reason_ = why;
    Stop();
  }

  bool probing() const { return phase_ == Phase::kProbing; }
  bool connected() const { return phase_ == Phase::kConnected; }
  bool ended() const { return phase_ > Phase::kConnected; }
  // Ended, and the link has asked for time.
  bool closing() const { return phase_ == Phase::kClosing; }
  bool stopped() const { return stopped_; }
  // Why it ended; OK before.
  const absl::Status& error() const { return error_; }
  // Not OK: it is to be ended, once nothing is on the stack.
  const absl::Status& break_reason() const { return break_reason_; }

 private:
  enum class Phase : uint8_t {
    kOpening,
    kProbing,
    kConnected,
    kClosing,
    kClosed,
  };

  Phase phase_ = Phase::kOpening;
  bool stopped_ = false;
  absl::Status error_;
  absl::Status break_reason_;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_QUEUE_PAIR_LIFE_H_
