#include "scsi/backend/medium_store.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/backend/file_test_util.h"

namespace skiff::scsi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kAttribute[] = "user.skiff.medium";

// A file that is open, with its store.
class Medium {
 public:
  explicit Medium(const TemporaryFile& file, bool read_only = false,
                  bool clear = false, const MediumStore::Calls& calls = {},
                  const std::string& state_directory = "")
      : fd_(open(file.path().c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CREAT,
                 0600)) {
    auto store = MediumStore::Open(
        fd_, {.path = file.path(),
              .read_only = read_only,
              .state_directory = state_directory,
              .clear_data_loss = clear,
              .log =
                  [this](transport::LogLevel, absl::string_view line) {
                    const std::lock_guard<std::mutex> lock(mutex_);
                    log_.emplace_back(line);
                  },
              .calls = calls});
    status_ = store.status();
    if (store.ok()) store_ = *std::move(store);
  }
  ~Medium() {
    store_.reset();
    close(fd_);
  }

  MediumStore* operator->() { return store_.get(); }
  const absl::Status& status() const { return status_; }
  int fd() const { return fd_; }
  std::string log() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return absl::StrJoin(log_, "\n");
  }
  // Once all is written.
  std::string Close() {
    store_.reset();
    return log();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> log_;
  const int fd_;
  absl::Status status_;
  std::unique_ptr<MediumStore> store_;
};

class MediumStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const TemporaryFile probe("probe");
    probe.SetContent("");
    ASSERT_EQ(setxattr(probe.path().c_str(), kAttribute, "x", 1, 0), 0)
        << "files in " << ::testing::TempDir()
        << " have no attributes: " << std::strerror(errno)
        << "; set TEST_TMPDIR to a directory of a file system that has them";
  }
};

TEST(MediumRecordTest, IsTextOfOneLength) {
  const MediumRecord record = {std::string(32, 'a'), UINT64_MAX, INT64_MAX,
                               INT64_MAX, INT32_MAX};
  const std::string text = EncodeMediumRecord(record);
  EXPECT_THAT(text, SizeIs(kMediumRecordBytes));
  EXPECT_THAT(EncodeMediumRecord({record.identity}), SizeIs(text.size()));
  const auto read = DecodeMediumRecord(text);
  ASSERT_TRUE(read.has_value()) << text;
  EXPECT_EQ(EncodeMediumRecord(*read), text);
}

TEST(MediumRecordTest, OtherTextsAreNone) {
  const std::string good = EncodeMediumRecord({std::string(32, 'a')});
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeMediumRecord(good.substr(0, length)).has_value());
  }
  for (const char* const from : {"skiff", "id=", "inode=", "lost=0", "a"}) {
    std::string bad = good;
    bad.replace(bad.find(from), 1, "?");
    EXPECT_FALSE(DecodeMediumRecord(bad).has_value()) << bad;
  }
  EXPECT_FALSE(DecodeMediumRecord(std::string(good.size(), '\0')).has_value());
}

TEST_F(MediumStoreTest, AFileKeepsItsIdentityUnderAnyName) {
  const TemporaryFile file("medium");
  const TemporaryFile renamed("renamed");
  std::string identity;
  {
    Medium medium(file);
    identity = medium->identity();
    EXPECT_THAT(identity, SizeIs(32));
    EXPECT_THAT(medium.log(), IsEmpty());
  }
  EXPECT_EQ(Medium(file)->identity(), identity);
  ASSERT_EQ(rename(file.path().c_str(), renamed.path().c_str()), 0);
  EXPECT_EQ(Medium(renamed)->identity(), identity);
  EXPECT_EQ(Medium(renamed, /*read_only=*/true)->identity(), identity);
  // Another file under the old name.
  EXPECT_NE(Medium(file)->identity(), identity);
}

TEST_F(MediumStoreTest, ACopyIsAnotherDiskAndMissesTheSame) {
  const TemporaryFile file("medium");
  const TemporaryFile copy("copy");
  std::string identity;
  char record[kMediumRecordBytes];
  {
    Medium medium(file);
    identity = medium->identity();
    medium->NoteDataLoss(EIO);
    medium.Close();
    ASSERT_EQ(fgetxattr(medium.fd(), kAttribute, record, sizeof(record)),
              static_cast<ssize_t>(sizeof(record)));
  }
  copy.SetContent("");
  ASSERT_EQ(
      setxattr(copy.path().c_str(), kAttribute, record, sizeof(record), 0), 0);
  Medium copied(copy);
  EXPECT_THAT(copied.log(), HasSubstr(identity + ": it is another disk"));
  EXPECT_NE(copied->identity(), identity);
  EXPECT_THAT(copied->identity(), SizeIs(32));
  EXPECT_THAT(copied->data_loss(), HasSubstr("Input/output error"));
}

TEST_F(MediumStoreTest, DataLossIsRememberedUntilItIsCleared) {
  const TemporaryFile file("medium");
  std::string identity;
  {
    Medium medium(file);
    identity = medium->identity();
    EXPECT_THAT(medium->data_loss(), IsEmpty());
    medium->NoteDataLoss(ENOSPC);
    medium->NoteDataLoss(EIO);  // The first reason is the reason.
    EXPECT_THAT(medium.Close(), HasSubstr("is remembered"));
  }
  for (int i = 0; i < 2; ++i) {
    Medium medium(file, /*read_only=*/i == 1);
    EXPECT_THAT(medium->data_loss(), HasSubstr("No space left on device"));
    EXPECT_EQ(medium->identity(), identity);
  }
  EXPECT_THAT(
      Medium(file, /*read_only=*/true, /*clear=*/true).status().message(),
      HasSubstr("read-only"));
  {
    Medium medium(file, /*read_only=*/false, /*clear=*/true);
    EXPECT_THAT(medium->data_loss(), IsEmpty());
    EXPECT_THAT(medium.log(), HasSubstr("served again although data"));
  }
  Medium medium(file);
  EXPECT_THAT(medium->data_loss(), IsEmpty());
  EXPECT_EQ(medium->identity(), identity);
}

TEST_F(MediumStoreTest, ReadOnlyNothingIsWritten) {
  const TemporaryFile file("medium");
  file.SetContent("");
  Medium medium(file, /*read_only=*/true);
  EXPECT_THAT(medium->identity(), IsEmpty());
  EXPECT_THAT(medium.log(), HasSubstr("has no identity of its own"));
  EXPECT_EQ(fgetxattr(medium.fd(), kAttribute, nullptr, 0), -1);
}

// The file PATH.skiff of a file.
class Beside {
 public:
  explicit Beside(const TemporaryFile& file) : path_(file.path() + ".skiff") {
    unlink(path_.c_str());
  }
  ~Beside() { unlink(path_.c_str()); }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }
  std::string Content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetContent(const std::string& content) const {
    std::ofstream(path_) << content;
  }

 private:
  const std::string path_;
};

// What the calls below fail with.
int failure = 0;
int failures_left = 0;

int FailingSet(int /*fd*/, const char* /*name*/, const void* /*value*/,
               size_t /*size*/, int /*flags*/) {
  errno = failure;
  return -1;
}

ssize_t FailingGet(int /*fd*/, const char* /*name*/, void* /*value*/,
                   size_t /*size*/) {
  errno = failure;
  return -1;
}

// It works after `failures_left` failures.
int FailingSync(int fd) {
  if (failures_left == 0) return ::fsync(fd);
  --failures_left;
  errno = failure;
  return -1;
}

MediumStore::Calls NoAttributes() {
  failure = ENOTSUP;
  return {.fgetxattr = FailingGet, .fsetxattr = FailingSet};
}

TEST_F(MediumStoreTest, WhatIsNotOursIsNotWrittenOver) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  file.SetContent("");
  ASSERT_EQ(setxattr(file.path().c_str(), kAttribute, "mine", 4, 0), 0);
  Medium medium(file);
  EXPECT_THAT(medium->identity(), IsEmpty());
  EXPECT_THAT(medium->data_loss(), HasSubstr("cannot be read: user.skiff"));
  medium->NoteDataLoss(EIO);
  medium.Close();
  char text[8];
  EXPECT_EQ(fgetxattr(medium.fd(), kAttribute, text, sizeof(text)), 4);
}

TEST_F(MediumStoreTest, WhatCannotBeReadMayTellOfLostData) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  const std::string identity = Medium(file)->identity();
  for (const int error : {EIO, ERANGE, EACCES}) {
    failure = error;
    for (const bool read_only : {false, true}) {
      Medium medium(file, read_only, /*clear=*/false,
                    {.fgetxattr = FailingGet});
      EXPECT_THAT(medium->data_loss(),
                  AllOf(HasSubstr("what is kept with it cannot be read: "),
                        HasSubstr(std::strerror(error))));
    }
  }
  EXPECT_FALSE(beside.Exists());
  Medium readable(file);
  EXPECT_THAT(readable->data_loss(), IsEmpty());
  EXPECT_EQ(readable->identity(), identity);
}

TEST_F(MediumStoreTest, ADamagedRecordIsReplacedWhenThatIsAskedFor) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  Medium(file)->identity();
  for (const std::string& damaged :
       {std::string("mine"), std::string(kMediumRecordBytes, '\0')}) {
    beside.SetContent(damaged);
    EXPECT_THAT(Medium(file)->data_loss(), HasSubstr(".skiff is no record"));
    EXPECT_EQ(beside.Content(), damaged);
    Medium cleared(file, /*read_only=*/false, /*clear=*/true);
    EXPECT_THAT(cleared.log(), HasSubstr("served again although what is kept"));
    EXPECT_THAT(cleared->data_loss(), IsEmpty());
    EXPECT_THAT(Medium(file)->data_loss(), IsEmpty());
  }
}

// Such as another medium, which happens to be called so.
TEST_F(MediumStoreTest, AFileBesideThatIsLongerIsNoRecord) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  const std::string other(kMediumRecordBytes + 1, 'x');
  beside.SetContent(other);
  {
    Medium medium(file);
    EXPECT_THAT(medium->data_loss(), IsEmpty());
  }
  Medium medium(file, /*read_only=*/false, /*clear=*/false, NoAttributes());
  EXPECT_THAT(medium->data_loss(), HasSubstr("is no record"));
  EXPECT_THAT(Medium(file, /*read_only=*/false, /*clear=*/true, NoAttributes())
                  .status()
                  .message(),
              HasSubstr("not written over"));
  EXPECT_EQ(beside.Content(), other);
}

TEST_F(MediumStoreTest, ARecordBesideIsFoundAgain) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  std::string identity;
  {
    failure = ENOSPC;  // Reading says that there can be an attribute.
    Medium medium(file, /*read_only=*/false, /*clear=*/false,
                  {.fsetxattr = FailingSet});
    identity = medium->identity();
    EXPECT_TRUE(beside.Exists());
    medium->NoteDataLoss(EIO);
    EXPECT_THAT(medium.Close(), HasSubstr(".skiff;"));
  }
  for (const bool clear : {false, true}) {
    Medium medium(file, /*read_only=*/false, clear);
    EXPECT_EQ(medium->identity(), identity);
    EXPECT_EQ(medium->data_loss().empty(), clear);
    EXPECT_EQ(fgetxattr(medium.fd(), kAttribute, nullptr, 0), -1)
        << "it stays where it is";
  }
  Medium medium(file);
  EXPECT_EQ(medium->identity(), identity);
  EXPECT_THAT(medium->data_loss(), IsEmpty());
}

TEST_F(MediumStoreTest, DataLossIsRememberedElsewhereIfItMust) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  const TemporaryFile state("state");
  const std::string identity = Medium(file)->identity();
  for (const bool beside_works : {true, false}) {
    if (!beside_works) beside.SetContent(std::string(1000, 'x'));
    {
      failure = ENOSPC;
      Medium medium(file, /*read_only=*/false, /*clear=*/false,
                    {.fsetxattr = FailingSet}, state.path());
      medium->NoteDataLoss(EIO);
      EXPECT_THAT(medium.Close(),
                  HasSubstr(beside_works ? ".skiff;" : "/state."));
    }
    {
      Medium medium(file, /*read_only=*/false, /*clear=*/false, {},
                    state.path());
      EXPECT_EQ(medium->identity(), identity);
      EXPECT_THAT(medium->data_loss(), HasSubstr("Input/output error"));
    }
    {
      Medium cleared(file, /*read_only=*/false, /*clear=*/true, {},
                     state.path());
      EXPECT_THAT(cleared->data_loss(), IsEmpty());
    }
    Medium medium(file, /*read_only=*/false, /*clear=*/false, {}, state.path());
    EXPECT_THAT(medium->data_loss(), IsEmpty());
    EXPECT_EQ(medium->identity(), identity);
  }
  std::filesystem::remove_all(state.path());
}

TEST_F(MediumStoreTest, AnotherInodeKeepsWhatIsLost) {
  const TemporaryFile file("medium");
  const TemporaryFile restored("restored");
  const Beside beside(file);
  std::string identity;
  {
    Medium medium(file, /*read_only=*/false, /*clear=*/false, NoAttributes());
    identity = medium->identity();
    medium->NoteDataLoss(EIO);
  }
  restored.SetContent("");
  ASSERT_EQ(rename(restored.path().c_str(), file.path().c_str()), 0);
  for (const bool attributes : {false, true}) {
    Medium medium(file, /*read_only=*/false, /*clear=*/false,
                  attributes ? MediumStore::Calls() : NoAttributes());
    EXPECT_NE(medium->identity(), identity);
    EXPECT_THAT(medium->data_loss(), HasSubstr("Input/output error"));
    EXPECT_EQ(medium.log().find("it is another disk") == std::string::npos,
              attributes);
  }
}

TEST_F(MediumStoreTest, NothingIsSaidToBeRememberedThatMayNotBe) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  failures_left = 0;
  Medium medium(file, /*read_only=*/false, /*clear=*/false,
                {.fsync = FailingSync});
  failure = EIO;
  failures_left = 1000;
  medium->NoteDataLoss(EIO);
  EXPECT_THAT(medium.Close(), HasSubstr("CANNOT BE REMEMBERED"));
  failures_left = 0;
}

TEST_F(MediumStoreTest, ANewRecordHidesNoEarlierFailure) {
  const TemporaryFile file("medium");
  const Beside beside(file);
  failure = EIO;
  failures_left = 1;
  for (int i = 0; i < 2; ++i) {
    Medium medium(file, /*read_only=*/false, /*clear=*/false,
                  {.fsync = FailingSync});
    EXPECT_THAT(medium->data_loss(), HasSubstr("Input/output error"));
    EXPECT_THAT(medium->identity(), SizeIs(32));
  }
}

}  // namespace
}  // namespace skiff::scsi
