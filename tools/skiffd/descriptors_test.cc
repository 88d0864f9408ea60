#include "tools/skiffd/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace skiff::tools::skiffd {
namespace {

TEST(DescriptorsTest, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto raised = RaiseDescriptorLimit();
  ASSERT_TRUE(raised.ok()) << raised.status();
  EXPECT_EQ(*raised, before.rlim_max);
  rlimit after;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

TEST(DescriptorsTest, OpenOnesAreCounted) {
  const uint64_t before = OpenDescriptors();
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(OpenDescriptors(), before + 1);
  close(fd);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(DescriptorsTest, ConnectionsFit) {
  DescriptorNeeds needs;
  needs.limit = 1 << 20;
  needs.in_login = 256;
  EXPECT_EQ(ConnectionsThatFit(needs), kMostConnections);
  needs.limit = 1024;
  needs.open = 10;
  needs.luns = 20;
  needs.reactors = 2;
  // 1024 less 10 + 20 * 7 + 64 + 64, and less a quarter of these 746.
  EXPECT_EQ(ConnectionsThatFit(needs), 746u - 186u);
  needs.in_login = 100;
  EXPECT_EQ(ConnectionsThatFit(needs), 646u);
  needs.limit = 20;
  EXPECT_EQ(ConnectionsThatFit(needs), 1u);
}

}  // namespace
}  // namespace skiff::tools::skiffd
