#include "protocol/target/login_throttle.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::protocol {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kHost[] = "192.0.2.1";

class LoginThrottleTest : public ::testing::Test {
 protected:
  void Limit(const FailedLoginLimits& limits) {
    throttle_.emplace(limits);
    limits_ = limits;
  }
  // The seconds that the answer to a failed login waits.
  double Fail(const std::string& initiator = "iqn.a",
              const std::string& address = kHost) {
    const LoginThrottle::Verdict verdict =
        throttle_->Failed(initiator, address, now_);
    if (!verdict.begins.empty()) begins_.push_back(verdict.begins);
    return absl::ToDoubleSeconds(verdict.delay);
  }
  std::vector<double> Fail(int times, const std::string& initiator = "iqn.a",
                           const std::string& address = kHost) {
    std::vector<double> delays;
    for (int i = 0; i < times; ++i) delays.push_back(Fail(initiator, address));
    return delays;
  }
  void Pass(absl::Duration time) { now_ += time; }

  FailedLoginLimits limits_;
  std::optional<LoginThrottle> throttle_{FailedLoginLimits()};
  absl::Time now_ = absl::UnixEpoch();
  std::vector<std::string> begins_;
};

TEST_F(LoginThrottleTest, DelaysDoubleAfterSomeFailures) {
  EXPECT_THAT(Fail(12), ElementsAre(0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30));
}

TEST_F(LoginThrottleTest, TheLogIsToldOnceWhoIsSlowed) {
  Fail(5);
  EXPECT_THAT(begins_, IsEmpty());
  Fail(10);
  EXPECT_THAT(begins_, ElementsAre(AllOf(HasSubstr("iqn.a from 192.0.2.1"),
                                         HasSubstr("6 times within 10m"),
                                         HasSubstr("up to 30s"))));
}

TEST_F(LoginThrottleTest, NamesAndAddressesFailForThemselves) {
  Fail(9);
  EXPECT_EQ(Fail("iqn.b"), 0);
  EXPECT_EQ(Fail("iqn.a", "192.0.2.2"), 0);
  EXPECT_EQ(Fail(), 16);
}

TEST_F(LoginThrottleTest, ANewNameEachTimeIsSlowedByItsAddress) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Fail(absl::StrCat("iqn.", i)), 0) << i;
  EXPECT_EQ(Fail("iqn.20"), 1);
  EXPECT_EQ(Fail("iqn.21"), 2);
  EXPECT_THAT(begins_,
              ElementsAre(HasSubstr("logins from 192.0.2.1 under any name "
                                    "failed 21 times")));
  EXPECT_EQ(Fail("iqn.22", "192.0.2.2"), 0);
}

TEST_F(LoginThrottleTest, TheLongerDelayCounts) {
  Limit({.max_failures = 1, .max_failures_per_address = 2});
  EXPECT_THAT(Fail(4), ElementsAre(0, 1, 2, 4));
  EXPECT_EQ(Fail("iqn.b"), 4);  // The address's fifth.
}

TEST_F(LoginThrottleTest, FailuresOfAnEarlierWindowAreForgotten) {
  EXPECT_THAT(Fail(5), Each(0));
  Pass(limits_.window);
  EXPECT_THAT(Fail(5), Each(0));
  Pass(limits_.window - absl::Seconds(1));
  EXPECT_EQ(Fail(), 1);
}

TEST_F(LoginThrottleTest, WhoIsSlowMustNotFailForAWindow) {
  Fail(8);
  for (int i = 0; i < 5; ++i) {
    Pass(limits_.window - absl::Seconds(1));
    EXPECT_GT(Fail(), 4) << i;
  }
  Pass(limits_.window);
  EXPECT_EQ(Fail(), 0);
  // If he goes on, that is told again.
  Fail(5);
  EXPECT_EQ(begins_.size(), 2u);
}

TEST_F(LoginThrottleTest, WithoutADelayNothingIsKept) {
  Limit({.max_failures = 0, .max_delay = absl::ZeroDuration()});
  EXPECT_THAT(Fail(100), Each(0));
  EXPECT_EQ(throttle_->entries(), 0u);
}

TEST_F(LoginThrottleTest, TheLimitMayBeShorterThanTheFirstDelay) {
  Limit({.max_failures = 0, .max_delay = absl::Milliseconds(500)});
  EXPECT_THAT(Fail(3), Each(0.5));
}

TEST_F(LoginThrottleTest, CountsAsFarAsANumberGoes) {
  Limit({.max_failures = UINT32_MAX, .max_failures_per_address = UINT32_MAX});
  EXPECT_THAT(Fail(50), Each(0));
  EXPECT_THAT(begins_, IsEmpty());
}

TEST_F(LoginThrottleTest, TheTableStaysBounded) {
  constexpr int kNames = 100000;
  for (int i = 0; i < kNames; ++i) Fail(absl::StrCat("iqn.", i));
  EXPECT_EQ(throttle_->entries(), limits_.max_entries + 1);
  // The address was never the oldest.
  EXPECT_EQ(Fail("iqn.new"), 30);
  for (int i = 0; i < kNames; ++i) {
    Fail("iqn.a", absl::StrCat("2001:db8:", i % 65536, ":", i / 65536));
  }
  EXPECT_EQ(throttle_->entries(), 2 * limits_.max_entries);
}

TEST_F(LoginThrottleTest, TheOldestIsForgotten) {
  Limit({.max_failures = 1,
         .max_failures_per_address = UINT32_MAX,
         .max_entries = 2});
  EXPECT_EQ(Fail("iqn.a"), 0);
  EXPECT_EQ(Fail("iqn.b"), 0);
  EXPECT_EQ(Fail("iqn.a"), 1);  // "b" is the older one.
  EXPECT_EQ(Fail("iqn.c"), 0);
  EXPECT_EQ(Fail("iqn.a"), 2);
  EXPECT_EQ(Fail("iqn.b"), 0);
}

}  // namespace
}  // namespace skiff::protocol
