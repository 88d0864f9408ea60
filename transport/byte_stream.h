#ifndef SKIFF_TRANSPORT_BYTE_STREAM_H_
#define SKIFF_TRANSPORT_BYTE_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace skiff::transport {

// What became of a read or a write.
enum class StreamStatus : uint8_t {
  kOk,          // `bytes` moved; may be fewer than asked for.
  kWouldBlock,  // Nothing moved; the observer is told when trying again makes
                // sense.
  kClosed,      // Read: the peer ended its side. Write: the stream is closed.
  kError,       // The stream is dead; error() says why.
};

// How far a read or a write got.
struct IoResult {
  StreamStatus status;
  size_t bytes;
};

// Told about readiness, always from the reactor's turn and never from inside a
// ByteStream call. Edge semantics: one call after each kWouldBlock at most, so
// read (or write) until kWouldBlock or remember that you have not.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  // There is something to read: bytes, the end, or an error.
  virtual void OnReadable() = 0;
  // There is room to write, or the stream has ended.
  virtual void OnWritable() = 0;
};

// An ordered, reliable stream of bytes: TCP, or the simulator's. Belongs to one
// reactor; not thread-safe. Destroying it closes it at once.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // `observer` (not owned, may be null) must outlive the stream or be replaced.
  // A new observer is told OnReadable and OnWritable once, soon.
  virtual void SetObserver(StreamObserver* observer) = 0;

  // Moves bytes without blocking. Allowed at any time, also speculatively.
  // At most kMaxIov entries are used of a longer list.
  virtual IoResult Readv(absl::Span<const iovec> to) = 0;
  // The same the other way: the bytes are copied, or have left, on return.
  virtual IoResult Writev(absl::Span<const iovec> from) = 0;
  static constexpr size_t kMaxIov = 1024;

  // A hint for streams of many small messages: OnReadable may wait until this
  // many bytes (at least 1) can be read, so that one wake-up brings several.
  // The end of the stream and errors are told at once. Lowering it tells of
  // what has come already. A stream that cannot do it ignores it.
  virtual void SetReadThreshold(size_t /*bytes*/) {}

  // Bytes that were written, and that the peer's host has not acknowledged. May
  // cost a system call. None where nobody knows.
  virtual size_t unacknowledged() const { return 0; }

  // Ends our direction after what was written (FIN); reading goes on.
  virtual void ShutdownWrite() = 0;
  // Drops the connection hard (RST where the transport has one).
  virtual void Abort() = 0;

  // Gives the connection up without ending it, so that another process goes on
  // with it (Transport::Adopt): its descriptor is the caller's. What was
  // written still leaves, and what the stream has of its own to be read comes
  // behind `*unread`. The stream is as if aborted. -1: nothing happened, as
  // this kind of stream can't.
  virtual int ReleaseDescriptor(std::string* /*unread*/) { return -1; }

  // Why the stream died; OK while it lives.
  virtual absl::Status error() const = 0;

  // Of the transport that made it, as in its addresses: "tcp".
  virtual absl::string_view scheme() const = 0;
  // Numeric `host:port` forms, for logs and portal choice.
  virtual std::string local_address() const = 0;
  // The other end's.
  virtual std::string peer_address() const = 0;
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_BYTE_STREAM_H_
