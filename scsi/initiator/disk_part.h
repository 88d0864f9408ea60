#ifndef SKIFF_SCSI_INITIATOR_DISK_PART_H_
#define SKIFF_SCSI_INITIATOR_DISK_PART_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/disk.h"
#include "scsi/initiator/disk_info.h"
#include "scsi/initiator/retrying_command.h"

namespace skiff::scsi {

// How much a phase of an I/O hands to commands, in the units of
// DiskIo::planned: bytes, or one flush.
inline uint64_t WorkOf(const DiskIo& io) {
  return io.phase == DiskIo::Phase::kFlush ? 1 : io.length;
}

// The part of an I/O that one command carries, and the memory that describes
// it.
struct DiskPart {
  static constexpr int kMaxIov = 32;

  uint64_t offset = 0;      // Bytes.
  bool write_same = false;  // Carried by WRITE SAME.
  bool transfers = false;   // All of the data must go over.
  std::array<iovec, kMaxIov> iov;
  // On one page: Soft-iWARP sends wrong bytes of short data that lie on two
  // (docs/interoperability.md).
  alignas(32) uint8_t unmap_list[kUnmapListLength];
};

// Fills `command` with the next part of `io`, from io.planned on, as long as
// the disk and `max_transfer_bytes` (a multiple of the block size) allow.
// Returns how much work it is. Fails if the caller's memory is scattered too
// finely.
absl::StatusOr<uint64_t> PrepareDiskPart(const DiskIo& io, const DiskInfo& info,
                                         uint64_t max_transfer_bytes,
                                         DiskPart* part,
                                         RetryingCommand* command);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_DISK_PART_H_
