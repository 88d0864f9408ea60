#ifndef SKIFF_SCSI_BACKEND_FILE_MEDIUM_H_
#define SKIFF_SCSI_BACKEND_FILE_MEDIUM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scsi/backend/backend.h"
#include "scsi/backend/file_options.h"
#include "scsi/backend/medium_store.h"

namespace skiff::scsi {

// An open and locked file, what is known about it, and what its channels learn
// about it together. Thread-safe once opened, and without a lock.
class FileMedium {
 public:
  static absl::StatusOr<std::shared_ptr<FileMedium>> Open(
      const FileBackendOptions& options);
  FileMedium(const FileMedium&) = delete;
  FileMedium& operator=(const FileMedium&) = delete;
  ~FileMedium();

  int fd() const { return fd_; }
  // As it was opened. Its size may be another one since: size_bytes().
  const BackendInfo& info() const { return info_; }
  // How much of the file is served: no channel reaches beyond it.
  uint64_t size_bytes() const {
    return size_bytes_.load(std::memory_order_relaxed);
  }
  // FileBackend::Resize().
  absl::Status Resize(uint64_t size_bytes);
  bool direct() const { return direct_; }

  // The extent of holes, or of data, that starts at `offset`.
  ProvisioningExtent ProvisioningAt(uint64_t offset) const;

  // Whether fallocate(FALLOC_FL_ZERO_RANGE) is worth trying.
  bool can_zero_range() const {
    return can_zero_range_.load(std::memory_order_relaxed);
  }
  void ForgetZeroRange() {
    can_zero_range_.store(false, std::memory_order_relaxed);
  }

  // After a failed fdatasync the kernel forgets what it could not write.
  bool data_lost() const { return data_lost_.load(std::memory_order_acquire); }
  // Remembers it beyond the process, too.
  void NoteDataLost(int error);

  // Another descriptor of the file, for one channel: the kernel tells of data
  // that could not be written once to each. The caller closes it.
  absl::StatusOr<int> OpenAgain() const;

 private:
  FileMedium() = default;

  std::string path_;
  std::unique_ptr<MediumStore> store_;
  int fd_ = -1;
  bool direct_ = false;
  BackendInfo info_;
  // Relaxed: it says nothing of what is in the file.
  std::atomic<uint64_t> size_bytes_{0};
  std::atomic<bool> can_zero_range_{true};
  std::atomic<bool> data_lost_{false};
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_MEDIUM_H_
