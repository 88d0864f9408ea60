#include "scsi/backend/memory_limit.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

// A machine's files, made up.
class MemoryLimitTest : public ::testing::Test {
 public:
  MemoryLimitTest() : root_(::testing::TempDir() + "/memory_limit.XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~MemoryLimitTest() override { fs::remove_all(root_); }

 protected:
  void Write(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint64_t Limit() { return ControlGroupMemoryLimit(root_); }

  std::string root_;
};

constexpr char kMounts2[] =
    "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

TEST_F(MemoryLimitTest, NothingToRead) { EXPECT_EQ(Limit(), kNone); }

TEST_F(MemoryLimitTest, TakesTheLeastUpTheTree) {
  Write("/proc/self/mountinfo", kMounts2);
  Write("/proc/self/cgroup", "0::/system.slice/skiffd.service\n");
  EXPECT_EQ(Limit(), kNone);
  const std::string group = "/sys/fs/cgroup/system.slice/skiffd.service";
  Write(group + "/memory.max", "max\n");
  EXPECT_EQ(Limit(), kNone);
  Write("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
  EXPECT_EQ(Limit(), 8589934592u);
  Write(group + "/memory.max", "1073741824\n");
  EXPECT_EQ(Limit(), 1073741824u);
  Write("/sys/fs/cgroup/system.slice/memory.max", "4096\n");
  EXPECT_EQ(Limit(), 4096u);
  // Somebody else's.
  Write("/sys/fs/cgroup/system.slice/other.service/memory.max", "512\n");
  EXPECT_EQ(Limit(), 4096u);
}

TEST_F(MemoryLimitTest, AContainersNamespaceShowsItsGroupAsTheRoot) {
  Write("/proc/self/mountinfo", kMounts2);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "123456\n");
  EXPECT_EQ(Limit(), 123456u);
  // A process that was moved out of what its namespace shows.
  Write("/proc/self/cgroup", "0::/../other\n");
  EXPECT_EQ(Limit(), 123456u);
}

TEST_F(MemoryLimitTest, Version1) {
  Write("/proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/my\\040memory rw - cgroup none rw,memory\n"
        "36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n"
        "37 31 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  Write("/proc/self/cgroup",
        "5:cpu,cpuacct:/job\n4:hugetlb,memory:/job:1\n0::/job\n");
  Write("/sys/fs/cgroup/cpu/job/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(Limit(), kNone);
  Write("/sys/fs/cgroup/my memory/memory.limit_in_bytes",
        "9223372036854771712\n");
  Write("/sys/fs/cgroup/my memory/job:1/memory.limit_in_bytes", "65536\n");
  EXPECT_EQ(Limit(), 65536u);
}

// Without a namespace of its own a container sees its own part of the
// hierarchy, but the whole path in /proc/self/cgroup.
TEST_F(MemoryLimitTest, AMountOfAPartOfTheHierarchy) {
  Write("/proc/self/mountinfo",
        "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup c ro,memory\n");
  Write("/proc/self/cgroup", "4:memory:/docker/1/inner\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "65536\n");
  EXPECT_EQ(Limit(), 65536u);
  Write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(Limit(), 4096u);
}

TEST_F(MemoryLimitTest, LinesThatMakeNoSenseAreNone) {
  Write("/proc/self/mountinfo", "x\n- - -\n1 2 3 - cgroup2 c rw\n\n");
  Write("/proc/self/cgroup", "nonsense\n::\n0::\n");
  EXPECT_EQ(Limit(), kNone);
}

TEST_F(MemoryLimitTest, IsAtMostTheMachines) {
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_LE(UsableMemory(), memory);
  EXPECT_LE(UsableMemory(), ControlGroupMemoryLimit());
  EXPECT_GT(UsableMemory(), 0u);
}

}  // namespace
}  // namespace skiff::scsi
