#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LIBFABRIC_OPTIONS_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LIBFABRIC_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "transport/tcp/tcp_options.h"

namespace skiff::transport {

// Settings of the libfabric transport that no caller of the transport needs to
// know.
struct LibfabricOptions {
  // Entries that one completion queue may have: a quarter of a gigabyte.
  uint32_t max_completion_queue_entries = 1 << 22;
  // How soon to try again what a provider does not take yet, or to look again
  // at what its descriptor does not tell of.
  absl::Duration retry_interval = absl::Milliseconds(1);
  // A message that waits for a RECEIVE keeps the tcp provider's descriptor
  // readable. After so many wake-ups without a completion it is looked at only
  // every `retry_interval`.
  uint32_t max_fruitless_wakeups = 16;
  // How long the memory of a connection that ended is kept: a provider with
  // threads of its own might still be writing about it.
  absl::Duration quarantine = absl::Seconds(1);

  // Providers without wait objects (shm, tcp;ofi_rxm). How long one is looked
  // at after it last had something: waking a peer costs a message over a
  // socket.
  absl::Duration spin = absl::Microseconds(250);
  // How soon it is looked at again where nothing was there: a look takes a lock
  // of the provider's that the peer needs to send.
  absl::Duration look_interval = absl::Microseconds(1);
  // READs over shm are done by the end that posts them, which copies about so
  // many bytes for each connection between two looks at it. What is more waits,
  // so that what has come is answered while the peer still has something else
  // to do. At least one READ is done each time.
  uint64_t shm_read_bytes = 128 << 10;
  // As `spin`, while an operation is under way, such as a message that waits
  // for its RECEIVE. Then it is looked at every `retry_interval`.
  absl::Duration patience = absl::Milliseconds(10);

  // Connections over reliable datagrams (shm, tcp;ofi_rxm). A peer that has not
  // said who it is by then is dropped.
  absl::Duration greeting_limit = absl::Seconds(5);
  // How long a closing end waits for the other to have stopped, and for
  // messages that are still on their way. A peer that does not answer may then
  // still write to what our READs were to fill.
  absl::Duration close_limit = absl::Seconds(5);
  // How long after a READ or WRITE the peer is asked whether it was served,
  // where its provider forgets what it refuses (shm). Two answers without
  // progress in between mean that it was refused.
  absl::Duration check_interval = absl::Milliseconds(100);
  // Of the port that they begin at.
  TcpOptions tcp;

  // iWARP. How long the reactor waits for an endpoint to close whose connect is
  // under way; 0 does not give the device the time that it needs to let go of
  // the memory. Then a thread goes on, which is looked at every
  // `closing_interval`.
  absl::Duration close_grace = absl::Milliseconds(10);
  absl::Duration closing_interval = absl::Milliseconds(10);
  // Where nothing has come on a connection by then, Soft-iWARP is made to look
  // at its sockets: see FirstMessageWatch. Waits double from attempt to
  // attempt, and none is longer than the limit. Zero: never.
  absl::Duration soft_iwarp_nudge_after = absl::Milliseconds(20);
  absl::Duration soft_iwarp_nudge_limit = absl::Seconds(3);

  // The verbs provider. How long after the last use of a device that is being
  // removed it is waited for the kernel not to list it any more, so that
  // librdmacm lets it go ...
  absl::Duration forget_removed_for = absl::Minutes(10);
  // ... and how often the kernel's list is looked at.
  absl::Duration forget_interval = absl::Milliseconds(200);

  bool operator==(const LibfabricOptions&) const = default;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_LIBFABRIC_OPTIONS_H_
