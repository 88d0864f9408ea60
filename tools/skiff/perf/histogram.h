#ifndef SKIFF_TOOLS_SKIFF_PERF_HISTOGRAM_H_
#define SKIFF_TOOLS_SKIFF_PERF_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace skiff::tools {

// Counts values in buckets whose width grows with the value, as HdrHistogram
// does: any value up to kMaxValue is kept with an error below 0.8 %, in
// constant memory, for the price of a few instructions. Not thread-safe; merge
// the histograms of threads.
class Histogram {
 public:
  // Larger values count as this one: 73 minutes, in nanoseconds.
  static constexpr uint64_t kMaxValue = (uint64_t{1} << 42) - 1;

  Histogram() : counts_(kBuckets, 0) {}

  void Add(uint64_t value) {
    if (value > kMaxValue) value = kMaxValue;
    ++counts_[Index(value)];
    ++count_;
    sum_ += value;
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }
  void Merge(const Histogram& other);

  uint64_t count() const { return count_; }
  // The others are zero when nothing was added.
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double mean() const;
  // The largest value of the bucket below or in which `percent` of all values
  // are: 50 is the median, 99.9 what one of a thousand exceeds.
  uint64_t Percentile(double percent) const;

 private:
  static constexpr int kSubBits = 7;  // 128 buckets for each power of two.
  static constexpr int kValueBits = 42;
  static constexpr size_t kBuckets =
      static_cast<size_t>(kValueBits - kSubBits + 1) << kSubBits;

  static size_t Index(uint64_t value) {
    if (value < (uint64_t{2} << kSubBits)) return value;
    const int shift = 63 - __builtin_clzll(value) - kSubBits;
    return (static_cast<size_t>(shift) << kSubBits) +
           static_cast<size_t>(value >> shift);
  }
  static uint64_t LargestOf(size_t index);

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t min_ = ~uint64_t{0};
  uint64_t max_ = 0;
};

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_SKIFF_PERF_HISTOGRAM_H_
