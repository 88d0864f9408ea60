#include "tools/skiff/copy/file_peer.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

constexpr mode_t kNewFileMode = 0666;

}  // namespace

absl::StatusOr<std::unique_ptr<FilePeer>> FilePeer::Open(
    const std::string& path, Use use, uint64_t start, int stop_fd) {
  const bool reads = use == Use::kRead;
  std::string name = path;
  int fd = -1;
  if (path == "-") {
    name = reads ? "standard input" : "standard output";
    fd = fcntl(reads ? STDIN_FILENO : STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  } else {
    // Readable too, so that it can be verified.
    fd = open(path.c_str(), (reads ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC,
              kNewFileMode);
  }
  if (fd < 0) {
    return WithExitCode(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", name)),
        ExitCode::kUsage);
  }
  std::unique_ptr<FilePeer> peer(
      new FilePeer(std::move(name), fd, start, stop_fd));
  absl::Status status = peer->Inspect(use);
  if (!status.ok()) return status;
  return peer;
}

absl::Status FilePeer::Inspect(Use use) {
  struct stat info = {};
  if (fstat(fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", name_));
  }
  regular_ = S_ISREG(info.st_mode);
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (S_ISBLK(info.st_mode) && ioctl(fd_, BLKGETSIZE64, &size) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot tell the size of ", name_));
  }
  if (S_ISDIR(info.st_mode)) {
    return UsageError(absl::StrCat(name_, " is a directory"));
  }
  seekable_ = regular_ || S_ISBLK(info.st_mode);
  if (!seekable_) {
    if (start_ == 0) return absl::OkStatus();
    return UsageError(absl::StrCat(
        name_, " is no file or device: an offset has no meaning in it"));
  }
  // A file grows as it is written; what is read, and devices, do not.
  if (regular_ && use == Use::kWrite) return absl::OkStatus();
  if (start_ > size) {
    return UsageError(absl::StrCat("the offset ", start_,
                                   " is beyond the end "
                                   "of ",
                                   name_, ", which has ", size, " bytes"));
  }
  size_ = size - start_;
  return absl::OkStatus();
}

FilePeer::~FilePeer() { close(fd_); }

bool FilePeer::Ready(int16_t events) const {
  if (seekable_ || stop_fd_ < 0) return true;
  pollfd fds[] = {{stop_fd_, POLLIN, 0}, {fd_, events, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[0].revents == 0;
}

void FilePeer::Read(CopySlot* slot) {
  uint32_t have = 0;
  slot->end = false;
  while (have < slot->size) {
    if (!Ready(POLLIN)) {
      slot->end = true;
      break;
    }
    const ssize_t count =
        seekable_ ? pread(fd_, slot->data + have, slot->size - have,
                          static_cast<off_t>(start_ + slot->offset + have))
                  : read(fd_, slot->data + have, slot->size - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      slot->status =
          absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", name_));
      break;
    }
    if (count == 0) {
      slot->end = true;
      break;
    }
    have += static_cast<uint32_t>(count);
  }
  slot->size = have;
  slot->done(slot);
}

void FilePeer::Write(CopySlot* slot) {
  uint32_t put = 0;
  while (put < slot->size) {
    if (!Ready(POLLOUT)) {
      slot->status = absl::CancelledError(absl::StrCat(
          "interrupted: ", name_, " did not take all that was read"));
      break;
    }
    const ssize_t count =
        seekable_ ? pwrite(fd_, slot->data + put, slot->size - put,
                           static_cast<off_t>(start_ + slot->offset + put))
                  : write(fd_, slot->data + put, slot->size - put);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      slot->status =
          absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", name_));
      break;
    }
    put += static_cast<uint32_t>(count);
  }
  slot->done(slot);
}

bool FilePeer::WriteZeroes(CopySlot* slot) {
  if (!regular_) return false;
  // Beyond the end there is nothing to punch; Finish() extends the file.
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(start_ + slot->offset),
                static_cast<off_t>(slot->size)) != 0) {
    return false;
  }
  slot->done(slot);
  return true;
}

absl::Status FilePeer::Finish(uint64_t total) {
  if (regular_ && ftruncate(fd_, static_cast<off_t>(start_ + total)) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot set the length of ", name_));
  }
  // Pipes and terminals have nothing to make stable.
  if (seekable_ && fsync(fd_) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", name_));
  }
  return absl::OkStatus();
}

}  // namespace skiff::tools
