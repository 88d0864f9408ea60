#ifndef SKIFF_PROTOCOL_DATAMOVER_CONNECTION_COUNTERS_H_
#define SKIFF_PROTOCOL_DATAMOVER_CONNECTION_COUNTERS_H_

#include <cstdint>

namespace skiff::protocol {

// What one connection has done, in both data models. Plain numbers of its
// reactor. Payload is what SCSI moves.
struct ConnectionCounters {
  // Over RDMA: messages, Hello and HelloReply included; that is Sends and
  // receives.
  uint64_t pdus_in = 0;
  uint64_t pdus_out = 0;
  // With headers, and with payload that was moved by RDMA. An initiator, who
  // does not see that, learns of it from commands that ended well.
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  // What of them the connection has taken: over RDMA, of operations that have
  // ended.
  uint64_t bytes_taken = 0;
  // Payload that this program copied from memory to memory, each time that it
  // did. What waits while a connection is paused does not count.
  uint64_t copied_bytes = 0;

  // iSER only. RDMA of ours:
  uint64_t rdma_reads = 0;
  uint64_t rdma_writes = 0;
  uint64_t rdma_read_bytes = 0;
  uint64_t rdma_write_bytes = 0;
  // Keys of ours that the peer's responses took out of use, or we did; keys of
  // the peer that our responses did.
  uint64_t remote_invalidations = 0;
  uint64_t local_invalidations = 0;
  uint64_t invalidations_sent = 0;
  // Registrations that a command needed, of an initiator that keeps them for
  // the commands after it, too; and buffers in several pieces that had to be
  // copied into one.
  uint64_t registrations = 0;
  uint64_t gathered_buffers = 0;
  // At an initiator: commands whose data RDMA was to move, and those for which
  // it did, as far as that is known of commands that ended well.
  uint64_t commands_by_rdma = 0;
  uint64_t commands_moved = 0;

  // What went wrong. PDUs with a wrong digest; operations of RDMA that failed,
  // but for those that only ended with the connection.
  uint64_t header_digest_errors = 0;
  uint64_t data_digest_errors = 0;
  uint64_t rdma_errors = 0;

  // Of a connection before this one, so that a session's counts go on.
  void Add(const ConnectionCounters& other) {
    static_assert(sizeof(ConnectionCounters) == 20 * sizeof(uint64_t),
                  "a new counter has to be added here, too");
    pdus_in += other.pdus_in;
    pdus_out += other.pdus_out;
    bytes_in += other.bytes_in;
    bytes_out += other.bytes_out;
    bytes_taken += other.bytes_taken;
    copied_bytes += other.copied_bytes;
    rdma_reads += other.rdma_reads;
    rdma_writes += other.rdma_writes;
    rdma_read_bytes += other.rdma_read_bytes;
    rdma_write_bytes += other.rdma_write_bytes;
    remote_invalidations += other.remote_invalidations;
    local_invalidations += other.local_invalidations;
    invalidations_sent += other.invalidations_sent;
    registrations += other.registrations;
    gathered_buffers += other.gathered_buffers;
    commands_by_rdma += other.commands_by_rdma;
    commands_moved += other.commands_moved;
    header_digest_errors += other.header_digest_errors;
    data_digest_errors += other.data_digest_errors;
    rdma_errors += other.rdma_errors;
  }
};

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_CONNECTION_COUNTERS_H_
