#ifndef SKIFF_SCSI_BACKEND_FILE_TEST_UTIL_H_
#define SKIFF_SCSI_BACKEND_FILE_TEST_UTIL_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace skiff::scsi {

// A path in the test's directory; whatever is there is removed at both ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(absl::StrCat(::testing::TempDir(), "/", name, ".", getpid())) {
    unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    unlink(path_.c_str());
    // What a file backend keeps where files have no attributes.
    unlink(absl::StrCat(path_, ".skiff").c_str());
  }

  const std::string& path() const { return path_; }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }
  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetContent(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
  }
  // What the file takes on the disk.
  uint64_t AllocatedBytes() const {
    struct stat facts = {};
    EXPECT_EQ(stat(path_.c_str(), &facts), 0);
    return static_cast<uint64_t>(facts.st_blocks) * 512;
  }

 private:
  std::string path_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_BACKEND_FILE_TEST_UTIL_H_
