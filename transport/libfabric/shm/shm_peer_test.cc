#include "transport/libfabric/shm/shm_peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/net/scoped_fd.h"

namespace skiff::transport {
namespace {

absl::Status Check(const std::string& text) {
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  return CheckShmPeer(bytes);
}

TEST(ShmPeerTest, NamesDiffer) { EXPECT_NE(NewShmName(), NewShmName()); }

TEST(ShmPeerTest, OnlyWhatExistsIsTaken) {
  const std::string name = absl::StrCat(NewShmName(), ":0:1");
  const std::string address = absl::StrCat("fi_shm://", name);
  EXPECT_EQ(Check(address).code(), absl::StatusCode::kInvalidArgument);
  const ScopedFd memory(shm_open(name.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_TRUE(memory.valid());
  EXPECT_TRUE(Check(address).ok()) << Check(address);
  // As libfabric gives it, and with padding.
  EXPECT_TRUE(Check(address + std::string(3, '\0')).ok());
  EXPECT_FALSE(Check(address + "x").ok());
  shm_unlink(name.c_str());
  EXPECT_FALSE(Check(address).ok());
}

// A file as an endpoint of ours has one.
std::string MakeFile() {
  std::string name = absl::StrCat(NewShmName(), ":0:1");
  const ScopedFd memory(shm_open(name.c_str(), O_RDWR | O_CREAT, 0600));
  EXPECT_TRUE(memory.valid());
  return name;
}

TEST(ShmPeerTest, FilesOfTheDeadAreRemoved) {
  const std::string ours = MakeFile();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string name = MakeFile();
    const bool written = write(ends[1], name.data(), name.size()) ==
                         static_cast<ssize_t>(name.size());
    _exit(written ? 0 : 1);
  }
  char name[256] = {};
  ASSERT_GT(read(ends[0], name, sizeof(name) - 1), 0);
  close(ends[0]);
  close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  RemoveShmOfTheDead();
  EXPECT_NE(shm_unlink(name), 0) << name << " is still there";
  EXPECT_EQ(shm_unlink(ours.c_str()), 0) << "the file of a living process";
}

TEST(ShmPeerTest, NamesOfOthersAndPathsAreRefused) {
  for (const std::string& address :
       {std::string(), std::string("fi_shm://"), std::string("skiff-1-2"),
        std::string("fi_shm://other"), std::string("fi_ns://skiff-1-2"),
        std::string("fi_shm://skiff-/../../etc/passwd"),
        std::string("fi_shm://skiff-\xff"),
        absl::StrCat("fi_shm://skiff-", std::string(300, 'x'))}) {
    EXPECT_EQ(Check(address).code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace skiff::transport
