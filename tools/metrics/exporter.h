#ifndef SKIFF_TOOLS_METRICS_EXPORTER_H_
#define SKIFF_TOOLS_METRICS_EXPORTER_H_

#include <functional>
#include <string>
#include <vector>

#include "tools/metrics/metric.h"

namespace skiff::tools::metrics {

// Serves metrics over HTTP, at /metrics, on threads of its own, until it is
// destroyed. It is a module (libskiff_metrics.so), since what it is made with
// is not to be loaded into a process that serves none.
class Exporter {
 public:
  // Takes the state; called on the exporter's threads, several at once.
  using Collect = std::function<std::vector<Family>()>;

  virtual ~Exporter() = default;
  // The port really bound.
  virtual int port() const = 0;
};

// "HOST:PORT". Null: `error` says why. The module has this function, by the
// name kStartExporter.
using StartExporter = Exporter* (*)(const std::string& address,
                                    Exporter::Collect collect,
                                    std::string* error);
inline constexpr char kStartExporter[] = "skiff_start_metrics_exporter";
inline constexpr char kExporterModule[] = "libskiff_metrics.so";

}  // namespace skiff::tools::metrics

#endif  // SKIFF_TOOLS_METRICS_EXPORTER_H_
