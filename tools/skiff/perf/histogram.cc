#include "tools/skiff/perf/histogram.h"

#include <algorithm>
#include <cmath>

namespace skiff::tools {

uint64_t Histogram::LargestOf(size_t index) {
  if (index < (size_t{2} << kSubBits)) return index;
  const size_t shift = (index >> kSubBits) - 1;
  const uint64_t sub =
      (index & ((size_t{1} << kSubBits) - 1)) | (size_t{1} << kSubBits);
  return ((sub + 1) << shift) - 1;
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Histogram::mean() const {
  if (count_ == 0) return 0;
  return static_cast<double>(sum_) / static_cast<double>(count_);
}

uint64_t Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const auto wanted = std::max<uint64_t>(
      1, static_cast<uint64_t>(
             std::ceil(percent / 100 * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return std::min(LargestOf(i), max_);
  }
  return max_;
}

}  // namespace skiff::tools
