#ifndef SKIFF_SCSI_BACKEND_FILE_BACKEND_H_
#define SKIFF_SCSI_BACKEND_FILE_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/file_options.h"

namespace skiff::scsi {

// A medium in a file or a block device.
class FileBackend : public Backend {
 public:
  // Serves `size_bytes` of the file from now on, while it is served; by any
  // thread. The file has that many already: it is never changed here. Errors
  // say why it stays as it was. Then call Target::NotifyBackendChanged.
  //
  // What is submitted beyond a smaller size fails (IoStatus::kReadError,
  // kWriteError), and so does what waits in a channel. System calls that run
  // already end as they do: a write among them can make a file longer that was
  // cut. So make it smaller only where no initiator uses it.
  virtual absl::Status Resize(uint64_t size_bytes) = 0;
};

// Through io_uring. Acknowledged FUA writes and flushes are
// on stable storage (fdatasync). Errors name the path and what to do.
//
// - Served read-write, the file is locked (flock; block devices also O_EXCL),
//   so that no second process serves it.
// - info().description tells when the helper thread stands in for io_uring, and
//   why.
// - info().thin tells whether the file system can punch holes; where it cannot,
//   kUnmap completes with kNotSupported.
// - Once a flush failed, data that was acknowledged may be lost although the
//   kernel reports that only once. Every later flush and FUA write fails, too.
//   That is kept with the medium: opened anew, its info().data_loss tells,
//   until it is opened with clear_data_loss. It also does if what is kept
//   cannot be read. A flush or FUA write that succeeds
//   is told only when all that ran beside it have ended, and if none of them
//   failed.
// - info().identity is kept with it, too: in an extended attribute of the file,
//   or in PATH.skiff where there are none; for block devices it comes from the
//   device's WWID or UUID, or else is in state_directory. A copy of a file is
//   another medium. A file without one that is served read-only has none.
// - A FUA write that lacks space is tried again
//   without FUA to tell a full medium, which fails that write alone, from an
//   earlier write that was lost for lack of space.
absl::StatusOr<std::unique_ptr<FileBackend>> MakeFileBackend(
    const FileBackendOptions& options);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_BACKEND_H_
