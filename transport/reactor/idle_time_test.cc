#include "transport/reactor/idle_time.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace skiff::transport {
namespace {

absl::Time At(int seconds) { return absl::FromUnixSeconds(seconds); }

TEST(IdleTimeTest, SumsWhatItWasIdle) {
  IdleTime time;
  EXPECT_FALSE(time.idle());
  EXPECT_EQ(time.Total(At(10)), absl::ZeroDuration());
  time.Begin(At(10));
  EXPECT_TRUE(time.idle());
  EXPECT_EQ(time.since(), At(10));
  EXPECT_EQ(time.Total(At(13)), absl::Seconds(3));
  time.End(At(14));
  EXPECT_FALSE(time.idle());
  EXPECT_EQ(time.Total(At(20)), absl::Seconds(4));
  time.Begin(At(21));
  time.End(At(22));
  EXPECT_EQ(time.Total(At(30)), absl::Seconds(5));
}

// A reader's clock may have been read before the writer's.
TEST(IdleTimeTest, IsNeverLessThanWhatThereWasBefore) {
  IdleTime time;
  time.Begin(At(10));
  time.End(At(12));
  time.Begin(At(20));
  EXPECT_EQ(time.Total(At(19)), absl::Seconds(2));
}

TEST(IdleTimeTest, AReaderSeesBothOrNone) {
  IdleTime time;
  std::atomic<bool> stop{false};
  // It is idle for all but the moments between.
  std::thread writer([&] {
    int now = 0;
    for (time.Begin(At(now)); !stop.load(); time.Begin(At(now))) {
      time.End(At(++now));
    }
  });
  absl::Duration last;
  bool less = false;
  for (int i = 0; i < 100000; ++i) {
    const absl::Duration total = time.Total(At(0));
    less = less || total < last;
    last = total;
  }
  stop.store(true);
  writer.join();
  EXPECT_FALSE(less);
}

}  // namespace
}  // namespace skiff::transport
