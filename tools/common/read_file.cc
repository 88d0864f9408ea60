#include "tools/common/read_file.h"

#include <fcntl.h>
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
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, path);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": is larger than ", max_bytes, " bytes"));
    }
  }
}

}  // namespace skiff::tools
