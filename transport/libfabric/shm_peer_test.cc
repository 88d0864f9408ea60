#include "transport/libfabric/shm_peer.h"

#include <fcntl.h>
#include <sys/mman.h>

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
