#ifndef SKIFF_PROTOCOL_DATAMOVER_STREAM_DATAMOVER_H_
#define SKIFF_PROTOCOL_DATAMOVER_STREAM_DATAMOVER_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "protocol/datamover/datamover.h"

namespace skiff::protocol {

// Memory that all connections of a reactor share while they parse what was just
// received; nothing stays in it between calls. The smaller, the sooner a busy
// connection's first answers leave, and the better it stays in the cache.
class ReceiveScratch {
 public:
  explicit ReceiveScratch(size_t size = 96 * 1024)
      : size_(size), data_(std::make_unique<uint8_t[]>(size)) {}
  uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::unique_ptr<uint8_t[]> data_;
};

struct StreamDatamoverOptions {
  // congested() above this many bytes waiting to be sent.
  size_t max_send_queue_bytes = 4u << 20;
  // Data segments of non-data PDUs beyond this end the connection (both before
  // and after login; the negotiated MaxRecvDataSegmentLength also holds).
  uint32_t max_control_data_bytes = 65536;
  // Initiator only: most Data-Out bytes queued at once for one R2T. Bounds how
  // long a small command waits behind a big write.
  size_t data_out_quantum_bytes = 1u << 20;
};

// The iSCSI data model over a byte stream: framing, digests, Data-In, Data-Out,
// R2T. The driver moves the bytes:
//
//   loop: n = readv(ReceiveSpans()); BytesReceived(n);      until would-block
//   loop: n = writev(SendSpans()); BytesSent(n);             until empty or
//   would-block
//
// ReceiveSpans, the read and BytesReceived belong together: the scratch is
// shared.
class StreamDatamover : public Datamover {
 public:
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
};

std::unique_ptr<StreamDatamover> MakeTargetStreamDatamover(
    ReceiveScratch* scratch, const StreamDatamoverOptions& options);
std::unique_ptr<StreamDatamover> MakeInitiatorStreamDatamover(
    ReceiveScratch* scratch, const StreamDatamoverOptions& options);

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_DATAMOVER_STREAM_DATAMOVER_H_
