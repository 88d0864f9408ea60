#ifndef SKIFF_TOOLS_METRICS_METRIC_H_
#define SKIFF_TOOLS_METRICS_METRIC_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Metrics in Prometheus's terms, without its library: what counts is one thing,
// who serves it is another, and only the latter loads that library.

namespace skiff::tools::metrics {

using Labels =
    std::vector<std::pair<std::string, std::string>>;  // Name, value.

// Values by size. `counts` has one more than `bounds`: what is above the last.
// None is counted twice.
struct Histogram {
  std::vector<double> bounds;  // Inclusive, ascending.
  std::vector<uint64_t> counts;
  double sum = 0;
};

struct Sample {
  Labels labels;
  double value = 0;
  Histogram histogram;  // Of a family of these, in place of `value`.
};

// Samples of one name.
struct Family {
  enum class Type : uint8_t {
    kCounter,  // Never becomes less, but for a restart.
    kGauge,
    kHistogram,
  };

  std::string name;
  std::string help;
  Type type = Type::kGauge;
  std::vector<Sample> samples;
};

}  // namespace skiff::tools::metrics

#endif  // SKIFF_TOOLS_METRICS_METRIC_H_
