#ifndef SKIFF_PROTOCOL_DATAMOVER_POLICIES_H_
#define SKIFF_PROTOCOL_DATAMOVER_POLICIES_H_

#include <cstddef>
#include <cstdint>

namespace skiff::protocol {

// What connections may keep in memory; of both roles.
struct MemoryPolicy {
  // Per connection over a byte stream: a target receives no command above it,
  // and so starts no READ. What waits costs memory where it is copied or in
  // buffers, which have bounds of their own; data that lie in a medium's memory
  // cost their headers, which count here, too.
  size_t max_send_queue_bytes = 4u << 20;
  // What each reactor of a target, and each initiator, keeps of the memory for
  // copies (of what is sent under a data digest, above all) while it is not
  // used. More copies at once work, but allocate.
  size_t max_spare_buffer_bytes = 16u << 20;
};

// What iSER connections may do with memory; of both roles.
struct RdmaPolicy {
  // Leaves memory that was registered as a whole open to peers for as long as
  // it is registered, whatever commands say, in place of a registration for
  // each command: only for peers that may read and write all of it.
  //
  // Of an initiator: what devices without memory windows (libfabric's, and
  // Soft-iWARP) have. Targets get the key of the whole memory that was given to
  // UseMemory(), and it stays valid after the command, as with the Linux
  // initiator (RFC 7145 section 7.3.2 wants it invalidated first).
  //
  // Of a target: on iWARP, what an RDMA Read fills is open to the peer's RDMA
  // Writes. That may be RAM disks, and the worker's buffers, then.
  bool lasting_keys = false;
  // Of each reactor of a target, and each initiator, on each RDMA device: what
  // messages are sent from and received into. Sessions of a target set their
  // part of it apart at login, and are refused where there is not enough left.
  uint64_t message_memory = uint64_t{256} << 20;
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_POLICIES_H_
