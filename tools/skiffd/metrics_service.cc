#include "tools/skiffd/metrics_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/common/module.h"
#include "tools/metrics/target_metrics.h"

namespace skiff::tools::skiffd {

absl::StatusOr<std::unique_ptr<MetricsService>> MetricsService::Start(
    const std::string& address, metrics::TargetSnapshots::Options options) {
  const absl::StatusOr<void*> start = LoadModule(
      metrics::kExporterModule, metrics::kStartExporter, "skiff-metrics");
  if (!start.ok()) return start.status();
  std::unique_ptr<MetricsService> self(new MetricsService(std::move(options)));
  std::string error;
  self->exporter_.reset(reinterpret_cast<metrics::StartExporter>(*start)(
      address,
      [snapshots = &self->snapshots_] {
        return metrics::MetricsOf(snapshots->Take());
      },
      &error));
  if (self->exporter_ == nullptr) return absl::UnavailableError(error);
  const std::string host = address.substr(0, address.rfind(':'));
  self->url_ =
      absl::StrCat("http://", host, ":", self->exporter_->port(), "/metrics");
  return self;
}

}  // namespace skiff::tools::skiffd
