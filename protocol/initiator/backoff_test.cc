#include "protocol/initiator/backoff.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

using ::testing::ElementsAre;

ReconnectPolicy SomePolicy(double jitter, uint64_t seed = 1) {
  ReconnectPolicy policy;
  policy.delay = absl::Seconds(1);
  policy.max_delay = absl::Seconds(5);
  policy.jitter = jitter;
  policy.seed = seed;
  return policy;
}

std::vector<absl::Duration> Pauses(Backoff backoff, int count) {
  std::vector<absl::Duration> pauses;
  for (int i = 0; i < count; ++i) {
    pauses.push_back(backoff.Next(absl::ZeroDuration()));
  }
  return pauses;
}

TEST(BackoffTest, DoublesUpToTheLimit) {
  EXPECT_THAT(Pauses(Backoff(SomePolicy(0)), 5),
              ElementsAre(absl::Seconds(1), absl::Seconds(2), absl::Seconds(4),
                          absl::Seconds(5), absl::Seconds(5)));
}

TEST(BackoffTest, StartsAgainAfterReset) {
  Backoff backoff(SomePolicy(0));
  backoff.Next(absl::ZeroDuration());
  backoff.Next(absl::ZeroDuration());
  backoff.Reset();
  EXPECT_EQ(backoff.Next(absl::ZeroDuration()), absl::Seconds(1));
}

TEST(BackoffTest, JitterLengthensWithinItsBound) {
  Backoff backoff(SomePolicy(0.5));
  absl::Duration least = absl::InfiniteDuration();
  absl::Duration most = absl::ZeroDuration();
  for (int i = 0; i < 1000; ++i) {
    // What the peer asked for is never undercut, and spread, too.
    const absl::Duration pause = backoff.Next(absl::Seconds(20));
    least = std::min(least, pause);
    most = std::max(most, pause);
  }
  EXPECT_GE(least, absl::Seconds(20));
  EXPECT_LT(least, absl::Seconds(21));
  EXPECT_GT(most, absl::Seconds(29));
  EXPECT_LT(most, absl::Seconds(30));
}

TEST(BackoffTest, TheSeedDecides) {
  EXPECT_EQ(Pauses(Backoff(SomePolicy(0.5, 7)), 10),
            Pauses(Backoff(SomePolicy(0.5, 7)), 10));
  EXPECT_NE(Pauses(Backoff(SomePolicy(0.5, 7)), 10),
            Pauses(Backoff(SomePolicy(0.5, 8)), 10));
}

}  // namespace
}  // namespace skiff::protocol
