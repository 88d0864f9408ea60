#include "tools/common/units.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

TEST(ParseSizeTest, AcceptsWhatPeopleWrite) {
  struct {
    const char* text;
    uint64_t bytes;
  } const cases[] = {
      {"0", 0},
      {"512", 512},
      {"512B", 512},
      {"4k", 4096},
      {"4K", 4096},
      {"4KiB", 4096},
      {"4kib", 4096},
      {"4 KiB", 4096},
      {"4KB", 4000},
      {"1M", 1 << 20},
      {"10GiB", 10ull << 30},
      {"10GB", 10'000'000'000},
      {"3TiB", 3ull << 40},
      {"2P", 2ull << 50},
      {"16383PiB", 16383ull << 50},
      {"18446744073709551615", std::numeric_limits<uint64_t>::max()},
  };
  for (const auto& c : cases) {
    const auto size = ParseSize(c.text);
    ASSERT_TRUE(size.ok()) << c.text << ": " << size.status();
    EXPECT_EQ(*size, c.bytes) << c.text;
  }
}

TEST(ParseSizeTest, RefusesTheRest) {
  for (const char* text : {"", "GiB", "-1", "1.5GiB", "10XiB", "10GiBs", "0x10",
                           " 1", "10 G i", "K"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_THAT(std::string(size.status().message()),
                HasSubstr("' is not a size: write a whole number of bytes"))
        << text;
  }
  for (const char* text : {"16384PiB", "18446744073709551616", "99999999T"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_THAT(std::string(size.status().message()), HasSubstr("too large"));
  }
}

TEST(ParseDurationTest, AcceptsDurations) {
  EXPECT_EQ(ParseDuration("50us").value(), absl::Microseconds(50));
  EXPECT_EQ(ParseDuration("1.5s").value(), absl::Milliseconds(1500));
  EXPECT_EQ(ParseDuration("2m30s").value(), absl::Seconds(150));
  EXPECT_EQ(ParseDuration("0").value(), absl::ZeroDuration());
}

TEST(ParseDurationTest, RefusesTheRest) {
  for (const char* text : {"", "5", "-1s", "inf", "5 parsecs", "s"}) {
    const auto duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(std::string(duration.status().message()),
                HasSubstr("' is not a duration: write a number with its unit"));
  }
}

TEST(FormatSizeTest, PrefersExactUnits) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1023), "1023 B");
  EXPECT_EQ(FormatSize(4096), "4 KiB");
  EXPECT_EQ(FormatSize(10ull << 30), "10 GiB");
  EXPECT_EQ(FormatSize(1536ull << 20), "1.5 GiB");
  EXPECT_EQ(FormatSize(5ull << 50), "5 PiB");
  EXPECT_EQ(FormatSize(2048ull << 50), "2048 PiB");
}

TEST(WriteTest, IsReadAgain) {
  EXPECT_EQ(WriteSize(0), "0");
  EXPECT_EQ(WriteSize(4097), "4097");
  EXPECT_EQ(WriteSize(4096), "4KiB");
  EXPECT_EQ(WriteSize(1536ull << 20), "1536MiB");
  EXPECT_EQ(WriteSize(2048ull << 50), "2048PiB");
  EXPECT_EQ(WriteDuration(absl::Seconds(90)), "90s");
  EXPECT_EQ(WriteDuration(absl::Microseconds(50)), "50us");
  EXPECT_EQ(WriteDuration(absl::Milliseconds(1500)), "1.5s");
}

TEST(ShortDurationTest, StaysShort) {
  EXPECT_EQ(ShortDuration(absl::Microseconds(850)), "850 us");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(12)), "12 ms");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(12300)), "12.3 s");
  EXPECT_EQ(ShortDuration(absl::Seconds(62)), "1 min 02 s");
  EXPECT_EQ(ShortDuration(absl::Minutes(62)), "1 h 02 min");
}

}  // namespace
}  // namespace skiff::tools
