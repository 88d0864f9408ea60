#ifndef SKIFF_SCSI_BACKEND_BACKEND_H_
#define SKIFF_SCSI_BACKEND_BACKEND_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// What a medium is. Sizes in bytes unless said otherwise.
struct BackendInfo {
  std::string description;    // "file /srv/disk.img", for logs.
  uint64_t size_bytes = 0;    // A multiple of the logical block size.
  uint32_t block_size = 512;  // Logical: 512 or 4096.
  uint32_t physical_block_size = 4096;
  bool read_only = false;
  // Acknowledged writes may be lost at power failure until flushed (WCE = 1).
  bool volatile_write_cache = false;
  bool thin = false;  // Unmap frees space.
  uint32_t unmap_granularity_bytes = 4096;
  bool rotational = false;
  // Buffers must be aligned to this (O_DIRECT); 1 when it does not matter.
  uint32_t buffer_alignment = 1;
  // Of the medium, wherever it is served and under whatever name: equal for the
  // same, different for others; printable ASCII, at most 64 characters. Empty:
  // it has none. Logical units get their serial numbers from it.
  std::string identity = {};
  // Not empty: data that were acknowledged may be lost, and an operator does
  // not know yet; when and why, in words. The logical unit then answers every
  // medium access with MEDIUM ERROR.
  std::string data_loss = {};
};

// What became of an operation. Each error has sense data of its own.
enum class IoStatus : uint8_t {
  kOk,
  kReadError,   // Unrecovered read error at `error_offset`.
  kWriteError,  // Write error at `error_offset`.
  kNoSpace,     // The medium below is full.
  kMiscompare,  // Compare-and-write: first difference at `error_offset`.
  kNotSupported,
  kGone,      // The medium went away.
  kNoMemory,  // The backend has none just now: try again later.
  // Cut short, as BackendChannel::Cancel asked for. No failure of the medium.
  kCancelled,
};

// One operation on a medium. Owned by the caller, who keeps it and its buffers
// alive until `done` ran; reused without allocation.
struct IoRequest {
  // What is to be done.
  enum class Op : uint8_t {
    kRead,
    kWrite,
    kFlush,  // Everything acknowledged so far is stable when it completes.
    kUnmap,  // Frees; reads as zeroes afterwards.
    kWriteZeroes,  // As writing zeroes; may free when `may_unmap`.
    // `iov` holds the compare data, then the write data: 2 * length bytes.
    kCompareAndWrite,
  };
  Op op = Op::kRead;
  bool fua =
      false;  // kWrite, kWriteZeroes, kCompareAndWrite: stable at completion.
  bool may_unmap = false;  // kWriteZeroes.
  uint64_t offset = 0;
  uint64_t length = 0;
  const iovec* iov = nullptr;  // kRead, kWrite, kCompareAndWrite.
  int iov_count = 0;

  // Filled by the backend before it completes the request.
  IoStatus status = IoStatus::kOk;
  uint64_t error_offset = 0;  // In bytes from the start of the medium.
  // Why, for people; with an error only, and null and 0 before the request is
  // submitted. What the system said, or what is to be said in its place.
  int system_error = 0;          // An errno.
  const char* reason = nullptr;  // In static memory.

  // Runs on the channel's reactor, never from inside Submit().
  void (*done)(IoRequest* request) = nullptr;
  void* context = nullptr;  // The caller's.

  // The backend's own, while the request is in flight.
  uint64_t backend_progress = 0;
  void* backend_data = nullptr;
  IoRequest* backend_next = nullptr;
};

// One reactor's way to a medium. Lives on that reactor's thread; no locks.
class BackendChannel {
 public:
  virtual ~BackendChannel() = default;  // Only when nothing is in flight.
  // Returns true when the request is already finished (`status` is set, `done`
  // is not called); false when `done` will run. Never refuses: what does not
  // fit the backend's queue waits inside the channel.
  virtual bool Submit(IoRequest* request) = 0;
  // Nobody waits for the outcome of `request` any more, which is in flight; a
  // write may be done in part. True: the backend has let go of it and of its
  // memory, and `done` will not run. False: `done` runs as ever, and the sooner
  // the better. Never runs any request's `done` from inside.
  virtual bool Cancel(IoRequest* request) {
    (void)request;
    return false;
  }
};

// What UNMAP and writes left behind, for GET LBA STATUS.
struct ProvisioningExtent {
  uint64_t length = 0;
  bool mapped = true;
};

class Medium;

// A medium of bytes that a logical unit exposes. Shared by all reactors;
// thread-safe. The embedder's extension point: implement this to serve own
// storage.
class Backend {
 public:
  virtual ~Backend() = default;
  // What it is now, as a copy. Called on any thread, also while another one
  // changes it: what can change is under a lock of yours. Never for a command
  // that moves data. After a change call Target::NotifyBackendChanged.
  virtual BackendInfo info() const = 0;
  // Called on that reactor's thread. An error is logged, and the logical unit's
  // commands on this reactor fail. The channel goes before the backend.
  virtual absl::StatusOr<std::unique_ptr<BackendChannel>> OpenChannel(
      transport::Reactor* reactor) = 0;

  // The whole medium as memory, or null. When not null it stays mapped and at
  // this address for the backend's life; reads and writes may then go straight
  // to it, from any reactor, and each write is announced by NoteWritten
  // *before* the bytes change.
  // A thin backend may replace the pages beneath when it unmaps: devices that
  // have registered (pinned) this memory would keep the old ones. Such backends
  // say so, and their memory is registered for single operations only.
  virtual uint8_t* direct_memory() { return nullptr; }
  // Whether it is such a backend.
  virtual bool direct_memory_moves() const { return false; }
  // `length` bytes of direct_memory() from `offset` on are about to change. On
  // any reactor.
  virtual void NoteWritten(uint64_t offset, uint64_t length) {
    (void)offset;
    (void)length;
  }

  // The extent of equal provisioning state that starts at `offset`. On any
  // reactor.
  virtual ProvisioningExtent ProvisioningAt(uint64_t offset) {
    return {info().size_bytes - offset, true};
  }

  // It was served, and nobody serves it any more: all channels are gone, and
  // with them every request. What was kept for serving it may go. It may be
  // served again later, not before this returns and not from inside. Runs on
  // the thread that let go of it last, often a reactor's: does not block.
  virtual void Unused() {}

 private:
  // What all who serve it share (scsi/target/medium.h), while it is served.
  friend class Medium;
  std::mutex medium_mutex_;
  std::weak_ptr<Medium> medium_;  // Under `medium_mutex_`.
  // Under `medium_mutex_`. Two, where one is on its way out while the next is
  // made.
  int media_ = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_BACKEND_H_
