#include "scsi/backend/file_medium.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/backend/file_probe.h"

namespace skiff::scsi {

absl::StatusOr<std::shared_ptr<FileMedium>> FileMedium::Open(
    const FileBackendOptions& options) {
  std::shared_ptr<FileMedium> medium(new FileMedium);
  medium->path_ = options.path;
  medium->direct_ = options.direct;
  const absl::StatusOr<int> fd = OpenMediumFile(options);
  if (!fd.ok()) return fd.status();
  medium->fd_ = *fd;
  if (auto status = LockMediumFile(*fd, options); !status.ok()) return status;
  absl::StatusOr<BackendInfo> info = ProbeMediumFile(*fd, options);
  if (!info.ok()) return info.status();
  medium->info_ = *std::move(info);
  medium->size_bytes_ = medium->info_.size_bytes;
  auto store =
      MediumStore::Open(*fd, {.path = options.path,
                              .read_only = options.read_only,
                              .state_directory = options.state_directory,
                              .clear_data_loss = options.clear_data_loss,
                              .log = options.log});
  if (!store.ok()) return store.status();
  medium->store_ = *std::move(store);
  medium->info_.identity = medium->store_->identity();
  medium->info_.data_loss = medium->store_->data_loss();
  return medium;
}

FileMedium::~FileMedium() {
  store_.reset();  // It uses the descriptor.
  if (fd_ < 0) return;
  // Closing alone would leave the lock for as long as the kernel still takes
  // down a ring that referred to the file.
  flock(fd_, LOCK_UN);
  close(fd_);
}

absl::Status FileMedium::Resize(uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes % info_.block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, " cannot be served with ", size_bytes,
        " bytes, which is not a positive multiple of its block size ",
        info_.block_size, "; extend it (truncate -s, lvextend)"));
  }
  const absl::StatusOr<uint64_t> there = SizeOfMediumFile(fd_, path_);
  if (!there.ok()) return there.status();
  if (*there < size_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, " has ", *there, " bytes, and cannot be served with ",
        size_bytes, "; extend it first (truncate -s, lvextend)"));
  }
  size_bytes_.store(size_bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

void FileMedium::NoteDataLost(int error) {
  data_lost_.store(true, std::memory_order_release);
  store_->NoteDataLoss(error);
}

absl::StatusOr<int> FileMedium::OpenAgain() const {
  const int flags = fcntl(fd_, F_GETFL) & (O_ACCMODE | O_DIRECT);
  const int fd =
      open(absl::StrCat("/proc/self/fd/", fd_).c_str(), flags | O_CLOEXEC);
  if (fd >= 0) return fd;
  const int error = errno;
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot open ", path_,
                          " again (is /proc mounted, and the number of open "
                          "files large enough?)"));
}

ProvisioningExtent FileMedium::ProvisioningAt(uint64_t offset) const {
  const uint64_t size = size_bytes();
  if (offset >= size) return {0, false};
  const uint64_t rest = size - offset;
  const auto at = static_cast<off_t>(offset);
  // Neither position is kept: all I/O names its offset.
  off_t data = lseek(fd_, at, SEEK_DATA);
  if (data < 0) {
    // ENXIO: a hole up to the end. Else the file system cannot tell.
    return {rest, errno != ENXIO};
  }
  // Other positions than multiples of the block size cannot be reported.
  data = data / info_.block_size * info_.block_size;
  if (data > at) return {std::min<uint64_t>(rest, data - at), false};
  const off_t hole = lseek(fd_, at, SEEK_HOLE);
  if (hole < 0) return {rest, true};
  const auto end = (static_cast<uint64_t>(hole) + info_.block_size - 1) /
                   info_.block_size * info_.block_size;
  // A hole punched in between makes both answers meet.
  return {
      std::clamp<uint64_t>(end - std::min(end, offset),
                           std::min<uint64_t>(rest, info_.block_size), rest),
      true};
}

}  // namespace skiff::scsi
