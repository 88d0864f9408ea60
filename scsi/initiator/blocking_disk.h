#ifndef SKIFF_SCSI_INITIATOR_BLOCKING_DISK_H_
#define SKIFF_SCSI_INITIATOR_BLOCKING_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scsi/initiator/command.h"
#include "scsi/initiator/disk.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {

// A disk for programs that do one thing after the other: each call runs the
// reactor on the calling thread until the I/O is done, and with it all else
// that lives on that reactor. Offsets and lengths are bytes, multiples of
// info().block_size. How long a call may take is the session's to limit.
class BlockingDisk {
 public:
  // `reactor` and `port` must outlive the disk.
  static absl::StatusOr<std::unique_ptr<BlockingDisk>> Open(
      transport::EpollReactor* reactor, CommandPort* port,
      const DiskOptions& options = {});
  BlockingDisk(const BlockingDisk&) = delete;
  BlockingDisk& operator=(const BlockingDisk&) = delete;
  ~BlockingDisk();

  // What Open() found out; Open() anew to learn of changes.
  const DiskInfo& info() const { return disk_->info(); }

  // Each call: the memory is the caller's, and is not used after it. Errors are
  // those of DiskIo::status.
  absl::Status Read(uint64_t offset, void* data, size_t length);
  // With `fua`, the data are stable when it returns.
  absl::Status Write(uint64_t offset, const void* data, size_t length,
                     bool fua = false);
  // All writes that returned before are stable when it returns.
  absl::Status Flush();
  // Frees. What is read afterwards depends on info().unmapped_reads_zeroes.
  absl::Status Unmap(uint64_t offset, uint64_t length);
  // `may_unmap`: blocks that then read as zeroes may be freed.
  absl::Status WriteZeroes(uint64_t offset, uint64_t length,
                           bool may_unmap = false);
  // Writes `data` where `expected` is; kAborted when something else is there.
  absl::Status CompareAndWrite(uint64_t offset, const void* expected,
                               const void* data, size_t length);
  // Any other I/O. `io->done` and `io->context` are overwritten.
  absl::Status Run(DiskIo* io);

 private:
  BlockingDisk(transport::EpollReactor* reactor, std::unique_ptr<Disk> disk)
      : reactor_(reactor), disk_(std::move(disk)) {}

  transport::EpollReactor* reactor_;
  std::unique_ptr<Disk> disk_;
};

// Runs one command to its end. CommandStatus(*command) tells how it went.
void RunCommand(transport::EpollReactor* reactor, CommandPort* port,
                Command* command);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_BLOCKING_DISK_H_
