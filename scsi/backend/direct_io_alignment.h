#ifndef SKIFF_SCSI_BACKEND_DIRECT_IO_ALIGNMENT_H_
#define SKIFF_SCSI_BACKEND_DIRECT_IO_ALIGNMENT_H_

#include <sys/uio.h>

#include <cstdint>

#include "absl/types/optional.h"

namespace skiff::scsi {

// What O_DIRECT asks of a file's users, in bytes. Zero: it is not supported.
struct DirectIoAlignment {
  uint32_t memory = 0;
  uint32_t offset = 0;
};

// Asks the kernel (statx STATX_DIOALIGN, since Linux 6.1). Nothing when the
// kernel or the file system does not say.
absl::optional<DirectIoAlignment> QueryDirectIoAlignment(int fd);

// Whether O_DIRECT takes these pieces of memory: each has to begin at a
// multiple of `memory_alignment`, and to be a multiple of `length_alignment`
// long. The two differ: a device may take memory from any fourth byte on, but
// never half a block. Both are powers of two.
bool FitsDirectIo(const iovec* iov, int iov_count, uint32_t memory_alignment,
                  uint32_t length_alignment);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_DIRECT_IO_ALIGNMENT_H_
