#include "scsi/backend/medium_store.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
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

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kAttribute[] = "user.skiff.medium";

// A file that is open, with its store.
class Medium {
 public:
  explicit Medium(const TemporaryFile& file, bool read_only = false,
                  bool clear = false)
      : fd_(open(file.path().c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CREAT,
                 0600)) {
    auto store = MediumStore::Open(
        fd_, {.path = file.path(),
              .read_only = read_only,
              .clear_data_loss = clear,
              .log = [this](transport::LogLevel, absl::string_view line) {
                const std::lock_guard<std::mutex> lock(mutex_);
                log_.emplace_back(line);
              }});
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

TEST(MediumStoreTest, AFileKeepsItsIdentityUnderAnyName) {
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

TEST(MediumStoreTest, ACopyIsAnotherDiskAndMissesTheSame) {
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

TEST(MediumStoreTest, DataLossIsRememberedUntilItIsCleared) {
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

TEST(MediumStoreTest, ReadOnlyNothingIsWritten) {
  const TemporaryFile file("medium");
  file.SetContent("");
  Medium medium(file, /*read_only=*/true);
  EXPECT_THAT(medium->identity(), IsEmpty());
  EXPECT_THAT(medium.log(), HasSubstr("has no identity of its own"));
  EXPECT_EQ(fgetxattr(medium.fd(), kAttribute, nullptr, 0), -1);
}

TEST(MediumStoreTest, WhatIsNotOursIsNotWrittenOver) {
  const TemporaryFile file("medium");
  file.SetContent("");
  ASSERT_EQ(setxattr(file.path().c_str(), kAttribute, "mine", 4, 0), 0);
  Medium medium(file);
  EXPECT_THAT(medium->identity(), IsEmpty());
  EXPECT_THAT(medium.log(), HasSubstr("cannot be understood"));
  medium->NoteDataLoss(EIO);
  EXPECT_THAT(medium.Close(), HasSubstr("CANNOT BE REMEMBERED"));
  char text[8];
  EXPECT_EQ(fgetxattr(medium.fd(), kAttribute, text, sizeof(text)), 4);
}

}  // namespace
}  // namespace skiff::scsi
