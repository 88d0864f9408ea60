#include "tools/common/journal_stream.h"

#include <sys/stat.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace skiff::tools {

bool IsJournalStream(int fd) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  if (stream == nullptr) return false;
  struct stat file = {};
  if (fstat(fd, &file) != 0) return false;
  return absl::StrCat(file.st_dev, ":", file.st_ino) == stream;
}

}  // namespace skiff::tools
