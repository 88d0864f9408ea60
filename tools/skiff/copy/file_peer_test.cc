#include "tools/skiff/copy/file_peer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/skiff/base/exit_code.h"
#include "tools/skiff/copy/pipeline.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

class FilePeerTest : public ::testing::Test {
 protected:
  FilePeerTest() {
    directory_ = ::testing::TempDir() + "/file_peer_test.XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }

  std::string Path(const std::string& name) const {
    return directory_ + "/" + name;
  }
  std::string MakeFile(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::unique_ptr<FilePeer> Open(const std::string& path,
                                        FilePeer::Use use, uint64_t start = 0) {
    auto peer = FilePeer::Open(path, use, start);
    EXPECT_TRUE(peer.ok()) << peer.status();
    return peer.ok() ? *std::move(peer) : nullptr;
  }

  std::string directory_;
};

TEST_F(FilePeerTest, CopiesBetweenFilesFromOffsets) {
  const std::string from = MakeFile("from", std::string(3000, 'a') + "end");
  const std::string to = MakeFile("to", std::string(9000, 'b'));
  auto source = Open(from, FilePeer::Use::kRead, 1000);
  auto destination = Open(to, FilePeer::Use::kWrite, 500);
  EXPECT_EQ(source->size(), 2003u);
  EXPECT_EQ(destination->size(), std::nullopt);

  PipelineOptions options;
  options.length = source->size();
  Pipeline pipeline(options);
  absl::Status copied = absl::UnknownError("");
  pipeline.Copy(source.get(), destination.get(),
                [&](const absl::Status& s) { copied = s; });
  ASSERT_TRUE(copied.ok()) << copied;
  ASSERT_TRUE(destination->Finish(pipeline.bytes_done()).ok());
  absl::Status verified = absl::UnknownError("");
  pipeline.Verify(destination.get(),
                  [&](const absl::Status& s) { verified = s; });
  EXPECT_TRUE(verified.ok()) << verified;
  // What was longer is cut.
  EXPECT_TRUE(Contents(to) ==
              std::string(500, 'b') + std::string(2000, 'a') + "end");
}

TEST_F(FilePeerTest, MakesHolesForZeroes) {
  const std::string from =
      MakeFile("from", std::string(1 << 20, '\0') + std::string(4096, 'x') +
                           std::string(1 << 20, '\0'));
  auto source = Open(from, FilePeer::Use::kRead);
  auto destination = Open(Path("to"), FilePeer::Use::kWrite);
  PipelineOptions options;
  options.length = source->size();
  options.piece_bytes = 4096;
  options.sparse = true;
  Pipeline pipeline(options);
  absl::Status copied = absl::UnknownError("");
  pipeline.Copy(source.get(), destination.get(),
                [&](const absl::Status& s) { copied = s; });
  ASSERT_TRUE(copied.ok()) << copied;
  ASSERT_TRUE(destination->Finish(pipeline.bytes_done()).ok());
  EXPECT_TRUE(Contents(Path("to")) == Contents(from));
  struct stat info = {};
  ASSERT_EQ(stat(Path("to").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST_F(FilePeerTest, ReadsAndWritesPipesInOrder) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  ASSERT_EQ(write(fds[1], "hello", 5), 5);
  close(fds[1]);
  auto source =
      Open("/proc/self/fd/" + std::to_string(fds[0]), FilePeer::Use::kRead);
  close(fds[0]);
  EXPECT_TRUE(source->ordered());
  EXPECT_EQ(source->size(), std::nullopt);
  auto destination = Open(Path("to"), FilePeer::Use::kWrite);
  Pipeline pipeline({});
  absl::Status copied = absl::UnknownError("");
  pipeline.Copy(source.get(), destination.get(),
                [&](const absl::Status& s) { copied = s; });
  ASSERT_TRUE(copied.ok()) << copied;
  EXPECT_EQ(Contents(Path("to")), "hello");
}

TEST_F(FilePeerTest, SaysWhatCannotBe) {
  const auto missing =
      FilePeer::Open(Path("none"), FilePeer::Use::kRead, 0).status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/none: No such file"));
  EXPECT_EQ(ExitCodeOf(missing), ExitCode::kUsage);

  const auto directory =
      FilePeer::Open(directory_, FilePeer::Use::kRead, 0).status();
  EXPECT_THAT(std::string(directory.message()), HasSubstr("is a directory"));

  const std::string path = MakeFile("short", "abc");
  const auto beyond = FilePeer::Open(path, FilePeer::Use::kRead, 4).status();
  EXPECT_THAT(std::string(beyond.message()),
              HasSubstr("the offset 4 is beyond the end of"));
}

TEST_F(FilePeerTest, ReportsWhatTheSystemSays) {
  auto destination = Open("/dev/full", FilePeer::Use::kWrite);
  char byte = 'x';
  CopySlot slot;
  slot.data = reinterpret_cast<uint8_t*>(&byte);
  slot.size = 1;
  slot.done = [](CopySlot*) {};
  destination->Write(&slot);
  EXPECT_THAT(std::string(slot.status.message()),
              HasSubstr("cannot write /dev/full: No space left"));
}

}  // namespace
}  // namespace skiff::tools
