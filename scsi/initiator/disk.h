#ifndef SKIFF_SCSI_INITIATOR_DISK_H_
#define SKIFF_SCSI_INITIATOR_DISK_H_

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scsi/initiator/command.h"
#include "scsi/initiator/disk_info.h"
#include "scsi/initiator/retrying_command.h"
#include "scsi/sense.h"
#include "transport/reactor/reactor.h"

namespace skiff::scsi {

// How a disk is used.
struct DiskOptions {
  uint64_t lun = 0;  // As in Command::lun.
  RetryOptions retry;
  // Longer I/O is split into commands of at most this (and of what the device
  // can), which run in parallel.
  uint32_t max_transfer_bytes = 1u << 20;
  // Commands in flight; more wait in order. 1 .. 65536.
  uint32_t max_commands = 64;
  // Sees each unit attention, for example CAPACITY DATA HAS CHANGED, upon which
  // one may call Open() again. May be null.
  std::function<void(const SenseData&)> on_unit_attention;
  // Sees each RECOVERED ERROR: the command has succeeded, but the device had
  // trouble with it. May be null.
  std::function<void(const SenseData&)> on_recovered_error;
};

// One I/O on a disk. Owned by the caller, who keeps it and its buffers alive
// until `done` ran; reusable without allocation.
struct DiskIo {
  // What is to be done.
  enum class Op : uint8_t {
    kRead,
    kWrite,
    kFlush,  // All acknowledged writes are stable when it completes.
    // Frees. What is read afterwards depends on info().unmapped_reads_zeroes.
    kUnmap,
    kWriteZeroes,  // By WRITE SAME, or by writing zeroes.
    // Atomic. `iov` holds the compare data, then the write data: 2 * length.
    // Ends with kAborted when the data differ.
    kCompareAndWrite,
  };

  // --- Request.
  Op op = Op::kRead;
  bool fua = false;        // kWrite, kWriteZeroes, kCompareAndWrite: stable.
  bool may_unmap = false;  // kWriteZeroes: may free blocks that read as zeroes.
  uint64_t offset = 0;  // Bytes; as is `length` a multiple of the block size.
  uint64_t length = 0;
  const iovec* iov = nullptr;  // kRead, kWrite, kCompareAndWrite.
  int iov_count = 0;

  // --- Result.
  // GetScsiError(status) has the details. After an error any part of the range
  // may have been transferred.
  absl::Status status;

  // Runs on the disk's reactor, never from inside Submit(). May submit again.
  void (*done)(DiskIo* io) = nullptr;
  void* context = nullptr;  // The caller's.

  // --- The disk's, while pending.
  enum class Phase : uint8_t { kIdle, kTransfer, kZeroBuffers, kFlush };
  Phase phase = Phase::kIdle;
  bool queued = false;
  bool restart = false;
  uint64_t planned = 0;  // Bytes that were handed to commands.
  uint32_t in_flight = 0;
  DiskIo* next = nullptr;
};

// A block device behind a session. Lives on one reactor; not thread-safe.
//
// I/O runs in parallel and in any order: whoever needs an order between
// overlapping I/O waits for the first. Each command is retried as RetryOptions
// say.
//
// Before the session is destroyed, Close() the disk; destroy the disk after
// that.
class Disk {
 public:
  // `port` and `reactor` must outlive the disk's last command.
  static absl::StatusOr<std::unique_ptr<Disk>> Create(
      CommandPort* port, transport::Reactor* reactor,
      const DiskOptions& options = {});
  // Only when no I/O is pending but what Close() failed: that is completed from
  // inside the destructor.
  virtual ~Disk() = default;

  // Finds out what the disk is and waits until it is ready. `on_open` runs
  // once, never from inside the call. May be called again, to learn of changes,
  // but not while it runs.
  virtual void Open(absl::AnyInvocable<void(absl::Status)> on_open) = 0;
  // Valid after a successful Open().
  virtual const DiskInfo& info() const = 0;

  // Mistakes of the caller (alignment, range, short buffers, not open) are
  // reported like other errors, by `done`.
  virtual void Submit(DiskIo* io) = 0;
  // Asks for one I/O to be given up; `done` runs in any case, perhaps from
  // inside the call.
  virtual void Cancel(DiskIo* io) = 0;
  // Gives up all I/O, and fails what is submitted later.
  virtual void Close() = 0;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_DISK_H_
