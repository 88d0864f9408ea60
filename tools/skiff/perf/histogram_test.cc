#include "tools/skiff/perf/histogram.h"

#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"

namespace skiff::tools {
namespace {

TEST(HistogramTest, IsZeroWhenEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.Percentile(50), 0u);
}

TEST(HistogramTest, IsExactForSmallValues) {
  Histogram histogram;
  for (uint64_t v = 1; v <= 200; ++v) histogram.Add(v);
  EXPECT_EQ(histogram.count(), 200u);
  EXPECT_EQ(histogram.min(), 1u);
  EXPECT_EQ(histogram.max(), 200u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 100.5);
  EXPECT_EQ(histogram.Percentile(0), 1u);
  EXPECT_EQ(histogram.Percentile(50), 100u);
  EXPECT_EQ(histogram.Percentile(99), 198u);
  EXPECT_EQ(histogram.Percentile(100), 200u);
}

TEST(HistogramTest, KeepsEveryMagnitudeWithinOnePercent) {
  for (uint64_t value = 1; value < Histogram::kMaxValue;
       value += value / 3 + 1) {
    Histogram histogram;
    histogram.Add(value);
    // A larger one, so that the bucket's bound and not the maximum is seen.
    histogram.Add(Histogram::kMaxValue);
    const uint64_t found = histogram.Percentile(50);
    EXPECT_GE(found, value);
    EXPECT_LE(static_cast<double>(found - value),
              0.008 * static_cast<double>(value))
        << value;
  }
}

TEST(HistogramTest, CountsWhatIsTooLargeAsTheLargest) {
  Histogram histogram;
  histogram.Add(~uint64_t{0});
  EXPECT_EQ(histogram.max(), Histogram::kMaxValue);
  EXPECT_EQ(histogram.Percentile(50), Histogram::kMaxValue);
}

TEST(HistogramTest, Merges) {
  Histogram a;
  Histogram b;
  a.Add(10);
  b.Add(30);
  b.Add(50);
  a.Merge(b);
  EXPECT_EQ(a.count(), 3u);
  EXPECT_EQ(a.min(), 10u);
  EXPECT_EQ(a.max(), 50u);
  EXPECT_DOUBLE_EQ(a.mean(), 30);
  EXPECT_EQ(a.Percentile(50), 30u);
}

}  // namespace
}  // namespace skiff::tools
