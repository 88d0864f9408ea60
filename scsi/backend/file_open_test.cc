#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_backend.h"
#include "scsi/backend/file_test_util.h"

namespace skiff::scsi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FileOpenTest : public ::testing::Test {
 protected:
  FileOpenTest() { options_.path = file_.path(); }

  std::string Error() const {
    auto backend = MakeFileBackend(options_);
    return backend.ok() ? "opened" : std::string(backend.status().message());
  }

  TemporaryFile file_{"file_open_test"};
  FileBackendOptions options_;
};

TEST_F(FileOpenTest, ChecksOptions) {
  options_.size_bytes = 1000;
  EXPECT_THAT(Error(), HasSubstr("1000 is not a multiple"));
  options_.size_bytes = 4096;
  options_.block_size = 520;
  EXPECT_THAT(Error(), HasSubstr("512 or 4096, not 520"));
  options_.block_size = 512;
  options_.queue_depth = 0;
  EXPECT_THAT(Error(), HasSubstr("queue_depth must be 1 to 4096, not 0"));
  options_.queue_depth = 1;
  options_.path = "";
  EXPECT_THAT(Error(), HasSubstr("needs a path"));
  EXPECT_FALSE(file_.Exists());
}

TEST_F(FileOpenTest, MissingFile) {
  EXPECT_THAT(Error(), AllOf(HasSubstr(file_.path()), HasSubstr("No such file"),
                             HasSubstr("give a size")));
  options_.size_bytes = 4096;
  options_.read_only = true;
  EXPECT_THAT(Error(), HasSubstr("No such file"));
  EXPECT_FALSE(file_.Exists()) << "reading creates nothing";
}

TEST_F(FileOpenTest, FailedCreationLeavesNothing) {
  options_.size_bytes = uint64_t{1}
                        << 62;  // More than ext4, XFS or tmpfs take.
  EXPECT_THAT(Error(), HasSubstr("cannot create"));
  EXPECT_FALSE(file_.Exists());
}

TEST_F(FileOpenTest, NeverResizes) {
  file_.SetContent(std::string(8192, 'x'));
  options_.size_bytes = 4096;
  EXPECT_THAT(Error(), AllOf(HasSubstr("has 8192 bytes"), HasSubstr("4096"),
                             HasSubstr("never resized")));
  EXPECT_EQ(file_.Content().size(), 8192u);
}

TEST_F(FileOpenTest, OddAndEmptyFiles) {
  file_.SetContent(std::string(1000, 'x'));
  EXPECT_THAT(Error(), HasSubstr("not a multiple of the block size 512"));
  file_.SetContent("");
  EXPECT_THAT(Error(), HasSubstr("is empty"));
}

TEST_F(FileOpenTest, ProbingKeepsContentAndSize) {
  const std::string content(4096 + 512, 'x');
  file_.SetContent(content);
  EXPECT_EQ(Error(), "opened");
  EXPECT_EQ(file_.Content(), content);
}

TEST_F(FileOpenTest, NeitherFileNorDevice) {
  options_.path = "/dev/null";
  EXPECT_THAT(Error(), HasSubstr("neither a regular file nor a block device"));
  options_.path = ::testing::TempDir();
  EXPECT_THAT(Error(), HasSubstr("neither a regular file nor a block device"));
  // Opening it would wait for a writer.
  ASSERT_EQ(mkfifo(file_.path().c_str(), 0600), 0);
  options_.path = file_.path();
  EXPECT_THAT(Error(), HasSubstr("neither a regular file nor a block device"));
}

TEST_F(FileOpenTest, LockedFile) {
  file_.SetContent(std::string(4096, 'x'));
  auto holder = MakeFileBackend(options_);
  ASSERT_TRUE(holder.ok()) << holder.status();
  EXPECT_THAT(Error(), AllOf(HasSubstr("is served by another process"),
                             HasSubstr("wants to write")));
  options_.read_only = true;
  EXPECT_THAT(Error(), HasSubstr("another process or logical unit read-write"));
  holder->reset();
  EXPECT_EQ(Error(), "opened");
}

TEST_F(FileOpenTest, LockOfAnotherProgramCounts) {
  file_.SetContent(std::string(4096, 'x'));
  const int fd = open(file_.path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_SH), 0);
  EXPECT_THAT(Error(), HasSubstr("is served by another process"));
  close(fd);
  EXPECT_EQ(Error(), "opened");
}

}  // namespace
}  // namespace skiff::scsi
