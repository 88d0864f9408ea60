#ifndef SKIFF_TRANSPORT_VERBS_VERBS_OPTIONS_H_
#define SKIFF_TRANSPORT_VERBS_VERBS_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace skiff::transport {

// Settings of the verbs transport that no caller of the transport needs to
// know.
struct VerbsOptions {
  // InfiniBand and RoCE (ibv_modify_qp(3)); iWARP leaves them to TCP. What is
  // not acknowledged within 4.096 us * 2^ack_timeout is sent again, at most
  // `retry_count` (7 or less) times: two seconds in all. The peer cannot ask
  // for more. Not 7: Soft-RoCE takes that for ever (rxe_completer()).
  uint8_t ack_timeout = 16;
  uint8_t retry_count = 6;
  // A SEND that meets no RECEIVE is repeated so often (7: for ever) ...
  uint8_t rnr_retry_count = 6;
  // ... after at least this time, a code of ibv_modify_qp(3): 26 is 82 ms.
  uint8_t min_rnr_timer = 26;

  // Of the operations that one Flush() posts, each so manieth and the last ask
  // the device for a completion. On Soft-iWARP all do: see VerbsQueuePair.
  uint32_t signal_every = 16;
  // Operations that are kept for one call into the device.
  uint32_t send_batch = 32;
  // ... of which Soft-iWARP gets those of so many bytes, and one at least.
  uint32_t soft_iwarp_call_bytes = 256 * 1024;
  // Where nothing has come on a connection by then, Soft-iWARP is made to look
  // at its sockets: see FirstMessageWatch. Waits double from attempt to
  // attempt, and none is longer than the limit. Zero: never.
  absl::Duration soft_iwarp_nudge_after = absl::Milliseconds(20);
  absl::Duration soft_iwarp_nudge_limit = absl::Seconds(3);

  // How long a port may be down before its connections end.
  absl::Duration port_down_grace = absl::Seconds(2);
  // How long a device may take to flush the queues of a connection that ended,
  // before the queue pair is destroyed and what is left counts as flushed.
  absl::Duration drain_timeout = absl::Seconds(1);
  // Objects of a device that may wait to be destroyed by its thread for that.
  // With more, there are no new connections.
  uint32_t max_destroying = 1024;
  // From the event that a device is removed until it is gone, librdmacm is made
  // to look for devices that it need not keep open; for so long at most ...
  absl::Duration forget_removed_for = absl::Minutes(10);
  // ... and how often.
  absl::Duration forget_interval = absl::Milliseconds(200);
  // Connection manager events handled in one turn of a reactor.
  int cm_events_per_turn = 64;

  bool operator==(const VerbsOptions&) const = default;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_VERBS_VERBS_OPTIONS_H_
