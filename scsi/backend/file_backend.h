#ifndef SKIFF_SCSI_BACKEND_FILE_BACKEND_H_
#define SKIFF_SCSI_BACKEND_FILE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scsi/backend/backend.h"

namespace skiff::scsi {

struct FileBackendOptions {
  std::string path;  // A regular file or a block device.
  // Nonzero: the file is created sparse when missing, and must have this size
  // otherwise (never truncated). Zero: it must exist, its size is used.
  uint64_t size_bytes = 0;
  uint32_t block_size = 512;
  bool read_only = false;
  bool direct = false;         // O_DIRECT.
  uint32_t queue_depth = 128;  // io_uring entries per reactor.
};

// A medium in a file, through io_uring. Acknowledged FUA writes and flushes are
// on stable storage (fdatasync). Errors name the path and what to do.
absl::StatusOr<std::unique_ptr<Backend>> MakeFileBackend(
    const FileBackendOptions& options);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_BACKEND_H_
