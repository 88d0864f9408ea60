#include "scsi/backend/direct_io_alignment.h"

// The C library's struct statx is older than stx_dio_mem_align, and cannot be
// included together with the kernel's.
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace skiff::scsi {

absl::optional<DirectIoAlignment> QueryDirectIoAlignment(int fd) {
  struct statx facts = {};
  if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0 ||
      (facts.stx_mask & STATX_DIOALIGN) == 0) {
    return absl::nullopt;
  }
  return DirectIoAlignment{facts.stx_dio_mem_align, facts.stx_dio_offset_align};
}

bool FitsDirectIo(const iovec* iov, int iov_count, uint32_t memory_alignment,
                  uint32_t length_alignment) {
  uintptr_t addresses = 0;
  size_t lengths = 0;
  for (int i = 0; i < iov_count; ++i) {
    addresses |= reinterpret_cast<uintptr_t>(iov[i].iov_base);
    lengths |= iov[i].iov_len;
  }
  return (addresses & (memory_alignment - 1)) == 0 &&
         (lengths & (length_alignment - 1)) == 0;
}

}  // namespace skiff::scsi
