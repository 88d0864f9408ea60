#include "transport/libfabric/shm/shm_regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

using ::testing::HasSubstr;

class ShmRegionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    list_ = ShmRegionList::Create().value();
    reader_ = ShmReader::Open(getpid(), Descriptor()).value();
  }
  // Why there is no reader.
  static std::string WhyNot(pid_t process, std::optional<uint32_t> descriptor) {
    return std::string(ShmReader::Open(process, descriptor).status().message());
  }
  uint32_t Descriptor() const {
    return static_cast<uint32_t>(list_->descriptor());
  }
  // What is read, or empty.
  std::string Read(uint64_t key, uint64_t offset, size_t length) {
    std::string to(length, '?');
    const iovec pieces[2] = {{to.data(), length / 2},
                             {&to[length / 2], length - length / 2}};
    return reader_->Read(pieces, length, {offset, {key}}) ? to : std::string();
  }

  std::unique_ptr<ShmRegionList> list_;
  std::unique_ptr<ShmReader> reader_;
};

TEST_F(ShmRegionsTest, ReadsWhatIsListed) {
  const std::string memory = "0123456789";
  const uint32_t entry = list_->Add(77, memory.data(), memory.size());
  ASSERT_NE(entry, ShmRegionList::kUnlisted);
  EXPECT_EQ(Read(77, 0, 10), memory);
  EXPECT_EQ(Read(77, 3, 4), "3456");
  list_->Remove(entry);
  EXPECT_EQ(Read(77, 0, 10), "");
}

TEST_F(ShmRegionsTest, NothingElseIsRead) {
  const std::string memory = "0123456789";
  ASSERT_NE(list_->Add(77, memory.data(), memory.size() - 1),
            ShmRegionList::kUnlisted);
  EXPECT_EQ(Read(78, 0, 1), "");
  EXPECT_EQ(Read(0, 0, 1), "");
  EXPECT_EQ(Read((uint64_t{1} << 32) | 77, 0, 1), "");
  EXPECT_EQ(Read(77, 0, 10), "");
  EXPECT_EQ(Read(77, 9, 1), "");
  EXPECT_EQ(Read(77, ~uint64_t{0}, 2), "");
  EXPECT_EQ(Read(77, 8, 1), "8");
}

TEST_F(ShmRegionsTest, MemoryThatIsGoneIsNotRead) {
  ASSERT_NE(list_->Add(77, nullptr, 10), ShmRegionList::kUnlisted);
  EXPECT_EQ(Read(77, 0, 10), "");
}

// What is read goes to the region's own entry in the list: as if the region was
// removed, or another came in its place, while the copy was under way.
TEST_F(ShmRegionsTest, ARegionThatGoesMeanwhileIsNotRead) {
  struct stat facts = {};
  ASSERT_EQ(fstat(list_->descriptor(), &facts), 0);
  const auto size = static_cast<size_t>(facts.st_size);
  void* const mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                             list_->descriptor(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  uint64_t memory = 0;
  ASSERT_NE(list_->Add(77, &memory, sizeof(memory)), ShmRegionList::kUnlisted);
  constexpr uint64_t kName = (uint64_t{1} << 32) | 77;
  uint64_t* const words = static_cast<uint64_t*>(mapping);
  uint64_t* const entry =
      std::find(words, words + size / sizeof(uint64_t), kName);
  const iovec to = {entry, sizeof(memory)};
  constexpr uint64_t kNext = (uint64_t{2} << 32) | 77;
  for (const uint64_t after : {kName, kNext, uint64_t{0}}) {
    memory = after;
    *entry = kName;
    EXPECT_EQ(reader_->Read({&to, 1}, sizeof(memory), {0, {77}}),
              after == kName);
    EXPECT_EQ(*entry, after);
  }
  munmap(mapping, size);
}

TEST_F(ShmRegionsTest, KeysThatMeetHaveRoomUpToALimit) {
  const std::string memory = "0123456789";
  std::vector<uint32_t> entries;
  // Their low bits are the same.
  uint64_t key = 5;
  for (;; key += uint64_t{1} << 24) {
    entries.push_back(list_->Add(key, &memory[entries.size()], 1));
    if (entries.back() == ShmRegionList::kUnlisted) break;
    EXPECT_EQ(Read(key, 0, 1), memory.substr(entries.size() - 1, 1));
  }
  EXPECT_EQ(Read(key, 0, 1), "");
  EXPECT_EQ(entries.size(), 9u);
  list_->Remove(entries[3]);
  EXPECT_NE(list_->Add(key, memory.data(), 1), ShmRegionList::kUnlisted);
  EXPECT_EQ(Read(key, 0, 1), "0");
  EXPECT_EQ(Read(5, 0, 1), "0");
}

// The list is the parent's, in memory that both have.
TEST_F(ShmRegionsTest, AForkLeavesItAlone) {
  const std::string memory = "0123456789";
  const uint32_t entry = list_->Add(77, memory.data(), memory.size());
  const pid_t child = fork();
  if (child == 0) {
    const bool refused =
        list_->descriptor() == -1 &&
        list_->Add(78, memory.data(), 1) == ShmRegionList::kUnlisted;
    list_->Remove(entry);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(77, 0, 10), memory);
}

// A file of the same kind that nobody's list is.
TEST_F(ShmRegionsTest, ListsAreKnownByTheirContents) {
  struct stat facts = {};
  ASSERT_EQ(fstat(list_->descriptor(), &facts), 0);
  const int file = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, facts.st_size), 0);
  EXPECT_THAT(WhyNot(getpid(), file), HasSubstr("none of this user"))
      << "not sealed";
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, fcntl(list_->descriptor(), F_GET_SEALS)),
            0);
  EXPECT_THAT(WhyNot(getpid(), file), HasSubstr("none of this user"));
  close(file);
}

TEST_F(ShmRegionsTest, NothingElseIsTakenForAList) {
  EXPECT_THAT(WhyNot(0, Descriptor()), HasSubstr("another PID namespace"));
  EXPECT_THAT(WhyNot(getpid(), std::nullopt), HasSubstr("has no list"));
  EXPECT_THAT(WhyNot(getpid(), ~uint32_t{0}), HasSubstr("No such file"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_THAT(WhyNot(getpid(), static_cast<uint32_t>(ends[0])),
              HasSubstr("none of this user"));
  close(ends[0]);
  close(ends[1]);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_THAT(WhyNot(child, Descriptor()),
              HasSubstr(absl::StrCat("pidfd_open of process ", child)));
}

}  // namespace
}  // namespace skiff::transport
