#include "tools/common/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  const absl::Cleanup closer = [fd] { close(fd); };
  return ReadDescriptor(fd, path, max_bytes);
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": is no regular file, and nothing else is waited for; "
                     "put a file in its place"));
  }
  return ReadDescriptor(fd, path, max_bytes);
}

absl::StatusOr<std::string> ReadDescriptor(int fd, const std::string& name,
                                           size_t max_bytes) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, name);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          name, ": is larger than ", max_bytes, " bytes; make it smaller"));
    }
  }
}

}  // namespace skiff::tools
