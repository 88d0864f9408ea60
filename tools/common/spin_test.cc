#include "tools/common/spin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

std::pair<absl::Duration, bool> Parsed(absl::string_view text) {
  transport::EpollReactorOptions reactor;
  reactor.spin = absl::Hours(1);
  reactor.adaptive_spin = text != "auto";
  EXPECT_TRUE(ParseSpin(text, &reactor).ok()) << text;
  return {reactor.spin, reactor.adaptive_spin};
}

TEST(ParseSpinTest, KnowsAllOfTheDial) {
  EXPECT_EQ(Parsed("never"), std::pair(absl::ZeroDuration(), false));
  EXPECT_EQ(Parsed("100us"), std::pair(absl::Microseconds(100), false));
  EXPECT_EQ(Parsed("always"), std::pair(absl::InfiniteDuration(), false));
  EXPECT_EQ(Parsed("auto"), std::pair(absl::ZeroDuration(), true));
  EXPECT_EQ(Parsed("auto:1ms"), std::pair(absl::Milliseconds(1), true));
  EXPECT_EQ(Parsed("auto:1m"), std::pair(absl::Minutes(1), true));
}

TEST(ParseSpinTest, SaysWhatIsWrong) {
  for (const absl::string_view text :
       {"often", "", "auto:", "auto:0s", "auto:never", "auto:always",
        "autoalways", "auto1ms", "auto:-1ms", "auto:inf", "auto:61s",
        "auto:1000000h", "auto:auto:1ms", "-1ms", "inf", "50"}) {
    transport::EpollReactorOptions reactor;
    EXPECT_EQ(ParseSpin(text, &reactor).message(),
              absl::StrCat("'", text,
                           "' does not say how long to poll before sleeping: "
                           "write auto, auto:100us (at most a minute), never, "
                           "always, or a duration such as 50us"));
    EXPECT_EQ(reactor.spin, absl::ZeroDuration());
    EXPECT_FALSE(reactor.adaptive_spin);
  }
}

}  // namespace
}  // namespace skiff::tools
