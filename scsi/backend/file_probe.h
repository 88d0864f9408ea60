#ifndef SKIFF_SCSI_BACKEND_FILE_PROBE_H_
#define SKIFF_SCSI_BACKEND_FILE_PROBE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/file_options.h"

namespace skiff::scsi {

// The parts of opening a file as a medium. All errors name the path.

// Opens, and creates when asked to.
absl::StatusOr<int> OpenMediumFile(const FileBackendOptions& options);

// Takes the lock that keeps other processes from serving the file.
absl::Status LockMediumFile(int fd, const FileBackendOptions& options);

// How large the file or block device is just now.
absl::StatusOr<uint64_t> SizeOfMediumFile(int fd, const std::string& path);

// Checks the size and finds out what the file, its file system and the device
// below can do. Never changes the file.
absl::StatusOr<BackendInfo> ProbeMediumFile(int fd,
                                            const FileBackendOptions& options);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_PROBE_H_
