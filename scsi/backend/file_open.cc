#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "scsi/backend/file_probe.h"

namespace skiff::scsi {
namespace {

// udev holds a block device's lock for a moment after each change.
constexpr int kDeviceLockAttempts = 25;
constexpr absl::Duration kDeviceLockDelay = absl::Milliseconds(20);

absl::Status OpenError(const FileBackendOptions& options, int error) {
  std::string text =
      absl::StrCat("cannot open ", options.path, ": ", std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      absl::StrAppend(&text,
                      options.read_only
                          ? ". Give this user the right to read it."
                          : ". Give this user the right to read and write it, "
                            "or serve it read-only.");
      break;
    case ENOENT:
      absl::StrAppend(&text,
                      ". Check the path, or give a size (and not "
                      "read-only) to have the file created.");
      break;
    case EBUSY:
      absl::StrAppend(&text,
                      ". The device is mounted or in use by another process.");
      break;
    case EINVAL:
      if (options.direct) {
        absl::StrAppend(&text,
                        ". Its file system lacks O_DIRECT: turn direct off.");
      }
      break;
    default:
      break;
  }
  return absl::Status(absl::ErrnoToStatusCode(error), text);
}

// Makes the new directory entry durable.
absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                             : path.substr(0, slash);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (ok) return absl::OkStatus();
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot make the new file ", path,
                          " durable (fsync of ", directory, ")"));
}

absl::StatusOr<int> CreateMediumFile(const FileBackendOptions& options,
                                     int flags) {
  const int fd =
      open(options.path.c_str(), flags | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  if (fd < 0) return OpenError(options, errno);
  absl::Status status;
  if (ftruncate(fd, static_cast<off_t>(options.size_bytes)) != 0 ||
      fsync(fd) != 0) {
    status = absl::ErrnoToStatus(
        errno, absl::StrCat("cannot create ", options.path, " with ",
                            options.size_bytes, " bytes"));
  } else {
    status = SyncDirectoryOf(options.path);
  }
  if (status.ok()) return fd;
  close(fd);
  unlink(options.path.c_str());  // Ours, and of no use.
  return status;
}

}  // namespace

absl::StatusOr<int> OpenMediumFile(const FileBackendOptions& options) {
  int flags = O_CLOEXEC | (options.read_only ? O_RDONLY : O_RDWR) |
              (options.direct ? O_DIRECT : 0);
  struct stat facts = {};
  // Before open(), which would block on a pipe.
  if (stat(options.path.c_str(), &facts) != 0) {
    if (errno == ENOENT && options.size_bytes > 0 && !options.read_only) {
      return CreateMediumFile(options, flags);
    }
    return OpenError(options, errno);
  }
  if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.path, " is neither a regular file nor a block device"));
  }
  // On a block device: refused while it is mounted or otherwise claimed.
  if (S_ISBLK(facts.st_mode) && !options.read_only) flags |= O_EXCL;
  const int fd = open(options.path.c_str(), flags);
  if (fd < 0) return OpenError(options, errno);
  return fd;
}

absl::Status LockMediumFile(int fd, const FileBackendOptions& options) {
  struct stat facts = {};
  const bool device = fstat(fd, &facts) == 0 && S_ISBLK(facts.st_mode);
  const int operation = (options.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;
  for (int attempt = 1;; ++attempt) {
    if (flock(fd, operation) == 0) return absl::OkStatus();
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || !device || attempt >= kDeviceLockAttempts) {
      break;
    }
    absl::SleepFor(kDeviceLockDelay);
  }
  if (errno != EWOULDBLOCK) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot lock ", options.path));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      options.path, " is served by another process or logical unit",
      options.read_only ? " read-write" : ", and this one wants to write to it",
      ". Stop the other one, or serve the file read-only in both "
      "(lslocks shows the holder)."));
}

}  // namespace skiff::scsi
