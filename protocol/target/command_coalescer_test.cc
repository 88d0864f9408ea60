#include "protocol/target/command_coalescer.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

// An initiator that sends a command every `interval` and keeps `depth` of them
// outstanding, to a target that wakes up at the threshold.
class CommandCoalescerTest : public ::testing::Test {
 protected:
  // How many commands each wake-up brings in the end.
  uint64_t Run(absl::Duration interval, uint32_t depth,
               uint64_t command_bytes = 48) {
    uint64_t batch = 1;
    for (int i = 0; i < 100; ++i) {
      commands_ += batch;
      bytes_ += batch * command_bytes;
      now_ += batch * interval;
      threshold_ = coalescer_.Update(now_, commands_, bytes_, depth);
      batch = (threshold_ + command_bytes - 1) / command_bytes;
      EXPECT_LE(batch, depth) << "would never be reached";
    }
    return batch;
  }

  CommandCoalescer coalescer_{absl::Microseconds(50)};
  absl::Time now_ = absl::UnixEpoch();
  uint64_t commands_ = 0;
  uint64_t bytes_ = 0;
  size_t threshold_ = 0;
};

TEST_F(CommandCoalescerTest, FewCommandsDoNotWait) {
  for (const uint32_t depth : {1, 2, 7}) {
    EXPECT_EQ(Run(absl::Microseconds(5), depth), 1u) << depth;
    EXPECT_EQ(threshold_, 1u) << depth;
  }
}

TEST_F(CommandCoalescerTest, AsManyAsComeWithinTheDelay) {
  EXPECT_EQ(Run(absl::Microseconds(10), 128), 5u);
  EXPECT_EQ(threshold_, 5u * 48);
}

TEST_F(CommandCoalescerTest, LeavesTheInitiatorThreeQuarters) {
  EXPECT_EQ(Run(absl::Microseconds(1), 32), 8u);
  EXPECT_EQ(Run(absl::Microseconds(1), 8), 2u);
}

TEST_F(CommandCoalescerTest, ASlowInitiatorIsAnsweredAtOnce) {
  EXPECT_EQ(Run(absl::Microseconds(60), 128), 1u);
}

TEST_F(CommandCoalescerTest, LongCommandsDoNotWait) {
  EXPECT_EQ(Run(absl::Microseconds(1), 128, 48 + 65536), 1u);
  EXPECT_EQ(threshold_, 1u);
  EXPECT_EQ(Run(absl::Microseconds(1), 128, 48 + 4096), 15u);
}

TEST_F(CommandCoalescerTest, FollowsAnInitiatorThatBecomesSlow) {
  EXPECT_GE(Run(absl::Microseconds(5), 128), 8u);
  EXPECT_EQ(Run(absl::Milliseconds(1), 128), 1u);
}

TEST_F(CommandCoalescerTest, AThresholdThatWasMissedIsGivenUp) {
  EXPECT_GE(Run(absl::Microseconds(5), 128), 8u);
  coalescer_.TimedOut();
  ++commands_;
  bytes_ += 48;
  EXPECT_EQ(coalescer_.Update(now_, commands_, bytes_, 128), 1u);
  EXPECT_GE(Run(absl::Microseconds(5), 128), 8u);
}

TEST_F(CommandCoalescerTest, WithoutADelayNothingWaits) {
  coalescer_ = CommandCoalescer(absl::ZeroDuration());
  EXPECT_EQ(Run(absl::Microseconds(1), 128), 1u);
  EXPECT_EQ(threshold_, 1u);
}

}  // namespace
}  // namespace skiff::protocol
