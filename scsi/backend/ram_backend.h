#ifndef SKIFF_SCSI_BACKEND_RAM_BACKEND_H_
#define SKIFF_SCSI_BACKEND_RAM_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "scsi/backend/backend.h"

namespace skiff::scsi {

// What a medium in memory is made with.
struct RamBackendOptions {
  uint64_t size_bytes = 0;
  uint32_t block_size = 512;
  bool read_only = false;
  // Unmap gives memory back to the system: the pages are replaced. Set false
  // where devices register the memory (and so pin pages): Unmap then writes
  // zeroes.
  bool thin = true;
  // Asks for pages of 2 MiB: up to a tenth faster, but the first write to a
  // region takes all of its 2 MiB. Unset: yes for a medium of at most a
  // quarter of the memory that the process may use (the machine's, or its
  // control group's limit). The description says what was chosen; whether the
  // system grants it is its own setting
  // (/sys/kernel/mm/transparent_hugepage/enabled).
  absl::optional<bool> huge_pages = absl::nullopt;
};

// A medium in anonymous memory: sparse (pages appear when written), contiguous
// in the address space, so that reads and writes need no copy. Lost with the
// process: each has an identity that no other had or will have.
absl::StatusOr<std::unique_ptr<Backend>> MakeRamBackend(
    const RamBackendOptions& options);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_RAM_BACKEND_H_
