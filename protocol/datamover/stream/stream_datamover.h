#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_DATAMOVER_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "protocol/datamover/block_pool.h"
#include "protocol/datamover/connection_counters.h"
#include "protocol/datamover/initiator_datamover.h"
#include "protocol/datamover/policies.h"
#include "protocol/datamover/target_datamover.h"

namespace skiff::protocol {

// Memory that all connections of a reactor share. Outlives them.
class StreamBuffers {
 public:
  static constexpr size_t kDefaultScratchBytes = 96 * 1024;

  // `max_spare_bytes`: what is kept of the blocks below while they are not
  // used. `budget`: what they are charged to (BlockPool).
  explicit StreamBuffers(
      size_t scratch_bytes = kDefaultScratchBytes,
      size_t max_spare_bytes = MemoryPolicy().max_spare_buffer_bytes,
      MemoryBudget* budget = nullptr)
      : scratch_size_(scratch_bytes),
        scratch_(std::make_unique<uint8_t[]>(scratch_bytes)),
        blocks_(max_spare_bytes, budget) {}

  // Where what was just received is parsed; nothing stays in it between calls.
  // The smaller, the sooner a busy connection's first answers leave, and the
  // better it stays in the cache.
  uint8_t* scratch() const { return scratch_.get(); }
  size_t scratch_size() const { return scratch_size_; }

  // For data that have to be copied: what is sent under a data digest, what
  // arrives before its place is known or its digest is verified, and what had
  // been received when a pause began.
  BlockPool* blocks() { return &blocks_; }

 private:
  const size_t scratch_size_;
  const std::unique_ptr<uint8_t[]> scratch_;
  BlockPool blocks_;
};

struct StreamDatamoverOptions {
  // congested() above its `max_send_queue_bytes`.
  MemoryPolicy memory;
  // Data segments of non-data PDUs beyond this end the connection (both before
  // and after login; the negotiated MaxRecvDataSegmentLength also holds).
  uint32_t max_control_data_bytes = 65536;
  // Initiator only: most Data-Out bytes queued at once for one R2T. Bounds how
  // long a small command waits behind a big write.
  size_t data_out_quantum_bytes = 1u << 20;
};

// The iSCSI data model over a byte stream: framing, digests, Data-In, Data-Out,
// R2T. This is what the pump sees of it, for both roles. It moves the bytes:
//
//   loop: n = readv(ReceiveSpans()); BytesReceived(n);      until would-block
//   loop: n = writev(SendSpans()); BytesSent(n);             until empty or
//   would-block
//
// ReceiveSpans, the read and BytesReceived belong together: the scratch is
// shared.
class StreamDatamover {
 public:
  virtual ~StreamDatamover() = default;

  // What is next to receive into; valid until the next call of anything here.
  // Empty while receiving is paused (congestion) or after the end. PDUs that
  // had been received when a pause began are delivered from inside the call.
  virtual absl::Span<const iovec> ReceiveSpans() = 0;
  virtual void BytesReceived(size_t n) = 0;

  // What is next to send, in order. Empty when there is nothing.
  virtual absl::Span<const iovec> SendSpans() = 0;
  virtual void BytesSent(size_t n) = 0;
  virtual bool has_output() const = 0;

  // Bytes were received but don't yet make a whole PDU (for idle and login
  // timers).
  virtual bool mid_pdu() const = 0;

  // More than the configured limit waits to be sent.
  virtual bool congested() const = 0;
  // What the connection has done so far.
  virtual ConnectionCounters counters() const = 0;
};

// With what the session sees: `Role` is InitiatorDatamover or TargetDatamover.
template <typename Role>
class StreamDatamoverOf : public Role, public StreamDatamover {
 public:
  bool congested() const override = 0;
  ConnectionCounters counters() const override = 0;
};

std::unique_ptr<StreamDatamoverOf<TargetDatamover>> MakeTargetStreamDatamover(
    StreamBuffers* buffers, const StreamDatamoverOptions& options);
std::unique_ptr<StreamDatamoverOf<InitiatorDatamover>>
MakeInitiatorStreamDatamover(StreamBuffers* buffers,
                             const StreamDatamoverOptions& options);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_STREAM_DATAMOVER_H_
