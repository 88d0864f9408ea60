#include "tools/common/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {
namespace {

constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

// Whether the file can be made ours alone, and empty.
absl::Status TakeOver(int fd) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return absl::ErrnoToStatus(errno, "fstat");
  if (!S_ISREG(file.st_mode)) return absl::OkStatus();
  // Who owns the file could read all that is written, or open it before.
  if (file.st_uid != geteuid()) {
    return absl::PermissionDeniedError("it belongs to another user");
  }
  if (file.st_nlink > 1) {
    return absl::FailedPreconditionError("it has more than one name");
  }
  if (fchmod(fd, kOwnerOnly) != 0 || ftruncate(fd, 0) != 0) {
    return absl::ErrnoToStatus(errno, "it cannot be replaced");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(
    const std::string& path, Warn warn, Mode mode) {
  const std::string what = absl::StrCat("cannot write a trace to ", path);
  const int fd = open(path.c_str(),
                      O_WRONLY | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC |
                          (mode == Mode::kNew ? O_EXCL : 0),
                      kOwnerOnly);
  if (fd < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(what, ": it is there already; name another file"));
  }
  if (fd < 0 && errno == ELOOP) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, ": it is a symbolic link; name the file that it leads to"));
  }
  if (fd < 0) return absl::ErrnoToStatus(errno, what);
  const absl::Status ours = TakeOver(fd);
  std::FILE* const file = ours.ok() ? fdopen(fd, "wb") : nullptr;
  if (file == nullptr) {
    close(fd);
    if (!ours.ok()) {
      return absl::Status(ours.code(), absl::StrCat(what, ": ", ours.message(),
                                                    "; name another file"));
    }
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  }
  std::unique_ptr<TraceFile> trace(new TraceFile(path, file, std::move(warn)));
  trace->Write(transport::PcapngHeader());
  return trace;
}

TraceFile::~TraceFile() {
  if (std::fclose(file_) != 0) Stopped(errno);
}

void TraceFile::Stopped(int error) {
  if (std::exchange(stopped_, true)) return;
  warn_(
      absl::StrCat("the capture in ", path_,
                   " has stopped and is not complete: ", std::strerror(error)));
}

void TraceFile::Write(absl::string_view blocks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return;
  if (std::fwrite(blocks.data(), 1, blocks.size(), file_) != blocks.size()) {
    Stopped(errno);
  }
}

}  // namespace skiff::tools
