#include "protocol/initiator/answer_coalescer.h"

#include <algorithm>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

constexpr uint64_t kAnswerBytes = 4144;

// A target that sends an answer every `interval`, to an initiator that keeps
// `depth` commands outstanding and wakes up at the threshold.
class AnswerCoalescerTest : public ::testing::Test {
 protected:
  // How many answers each wake-up brings in the end.
  uint64_t Run(absl::Duration interval, uint32_t depth, int wakeups = 100) {
    uint64_t batch = 1;
    for (int i = 0; i < wakeups; ++i) {
      answers_ += batch;
      now_ += batch * interval;
      threshold_ =
          coalescer_.Update(now_, answers_, answers_ * kAnswerBytes, depth);
      batch = (threshold_ + kAnswerBytes - 1) / kAnswerBytes;
      EXPECT_LE(batch, depth) << "would never be reached";
    }
    return batch;
  }

  AnswerCoalescer coalescer_{CoalesceOptions()};
  absl::Time now_ = absl::UnixEpoch();
  uint64_t answers_ = 0;
  size_t threshold_ = 0;
};

TEST_F(AnswerCoalescerTest, OneCommandAtATimeNeverWaits) {
  EXPECT_EQ(Run(absl::Microseconds(10), 1), 1u);
  EXPECT_EQ(threshold_, 1u);
}

TEST_F(AnswerCoalescerTest, FewCommandsDoNotWait) {
  EXPECT_EQ(Run(absl::Microseconds(10), 7), 1u);
  EXPECT_EQ(threshold_, 1u);
}

// In 100 us such a target answers 10 of the 32, which are left to it; the other
// 22 come at once.
TEST_F(AnswerCoalescerTest, LeavesTheTargetWorkForATurnaround) {
  EXPECT_EQ(Run(absl::Microseconds(10), 32), 22u);
  EXPECT_EQ(threshold_, 22 * kAnswerBytes);
}

TEST_F(AnswerCoalescerTest, AQuarterAtATimeFromAFastTarget) {
  EXPECT_EQ(Run(absl::Microseconds(1), 32), 8u);
}

TEST_F(AnswerCoalescerTest, OnlyAsManyAsComeWithinTheDelay) {
  EXPECT_EQ(Run(absl::Microseconds(100), 128), 3u);
}

TEST_F(AnswerCoalescerTest, ASlowTargetIsAnsweredAtOnce) {
  EXPECT_EQ(Run(absl::Milliseconds(5), 128), 1u);
}

TEST_F(AnswerCoalescerTest, FollowsATargetThatBecomesSlow) {
  EXPECT_GE(Run(absl::Microseconds(10), 32), 8u);
  EXPECT_EQ(Run(absl::Milliseconds(5), 32, 20), 1u);
}

TEST_F(AnswerCoalescerTest, AThresholdThatWasMissedIsGivenUp) {
  EXPECT_GE(Run(absl::Microseconds(10), 32), 8u);
  coalescer_.TimedOut();
  ++answers_;
  EXPECT_EQ(coalescer_.Update(now_, answers_, answers_ * kAnswerBytes, 31), 1u);
  EXPECT_GE(Run(absl::Microseconds(10), 32), 8u);
}

TEST_F(AnswerCoalescerTest, TheLastAnswersOfALoadDoNotWaitForEachOther) {
  EXPECT_GE(Run(absl::Microseconds(10), 32), 8u);
  uint32_t left = 31;
  while (left > 0) {
    ++answers_;
    threshold_ =
        coalescer_.Update(now_, answers_, answers_ * kAnswerBytes, --left);
    EXPECT_LE(threshold_, std::max<size_t>(1, left * kAnswerBytes));
  }
  EXPECT_EQ(threshold_, 1u);
}

}  // namespace
}  // namespace skiff::protocol
