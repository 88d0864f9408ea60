#ifndef SKIFF_TOOLS_SKIFFD_METRICS_SERVICE_H_
#define SKIFF_TOOLS_SKIFFD_METRICS_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/metrics/exporter.h"
#include "tools/metrics/target_snapshots.h"

namespace skiff::tools::skiffd {

// Serves the metrics of a target server over HTTP, on threads of its own.
class MetricsService {
 public:
  // `address`: "HOST:PORT", which HOST is an IP address. Errors say what can't
  // be loaded, or why nobody can listen there.
  static absl::StatusOr<std::unique_ptr<MetricsService>> Start(
      const std::string& address, metrics::TargetSnapshots::Options options);

  MetricsService(const MetricsService&) = delete;
  MetricsService& operator=(const MetricsService&) = delete;

  // "http://127.0.0.1:9464/metrics", with the port really bound.
  const std::string& url() const { return url_; }
  // The server is not asked any more: call before it may not be. On any
  // thread; does not wait.
  void Close() { snapshots_.Close(); }

 private:
  explicit MetricsService(metrics::TargetSnapshots::Options options)
      : snapshots_(std::move(options)) {}

  metrics::TargetSnapshots snapshots_;
  std::string url_;
  std::unique_ptr<metrics::Exporter> exporter_;  // The last: it asks them.
};

}  // namespace skiff::tools::skiffd

#endif  // SKIFF_TOOLS_SKIFFD_METRICS_SERVICE_H_
