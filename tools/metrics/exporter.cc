#include "tools/metrics/exporter.h"

#include <CivetServer.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace skiff::tools::metrics {
namespace {

// Whoever asks slowly, or not at all, takes one of these threads for so long,
// and others wait. Prometheus does for ten seconds: that is for 600 of those.
constexpr int kThreads = 64;
constexpr int kRequestMillis = 1000;
// Connections that wait for a thread, in the system.
constexpr int kBacklog = 1024;

prometheus::MetricType TypeOf(Family::Type type) {
  switch (type) {
    case Family::Type::kCounter:
      return prometheus::MetricType::Counter;
    case Family::Type::kHistogram:
      return prometheus::MetricType::Histogram;
    case Family::Type::kGauge:
      break;
  }
  return prometheus::MetricType::Gauge;
}

prometheus::ClientMetric::Histogram Cumulative(const Histogram& from) {
  prometheus::ClientMetric::Histogram to;
  for (size_t i = 0; i < from.counts.size(); ++i) {
    to.sample_count += from.counts[i];
    prometheus::ClientMetric::Bucket bucket;
    bucket.cumulative_count = to.sample_count;
    bucket.upper_bound = i < from.bounds.size()
                             ? from.bounds[i]
                             : std::numeric_limits<double>::infinity();
    to.bucket.push_back(bucket);
  }
  to.sample_sum = from.sum;
  return to;
}

prometheus::ClientMetric MetricOf(const Sample& sample, Family::Type type) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.labels) {
    metric.label.push_back({name, value});
  }
  switch (type) {
    case Family::Type::kCounter:
      metric.counter.value = sample.value;
      break;
    case Family::Type::kGauge:
      metric.gauge.value = sample.value;
      break;
    case Family::Type::kHistogram:
      metric.histogram = Cumulative(sample.histogram);
      break;
  }
  return metric;
}

class Collected final : public prometheus::Collectable {
 public:
  explicit Collected(Exporter::Collect collect)
      : collect_(std::move(collect)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> all;
    for (const Family& family : collect_()) {
      prometheus::MetricFamily out;
      out.name = family.name;
      out.help = family.help;
      out.type = TypeOf(family.type);
      for (const Sample& sample : family.samples) {
        out.metric.push_back(MetricOf(sample, family.type));
      }
      all.push_back(std::move(out));
    }
    return all;
  }

 private:
  const Exporter::Collect collect_;
};

// RFC 9110 section 9.3.2: HEAD is answered as GET is, without the content.
// Prometheus's library knows no HEAD. 0: the request is for that library.
int AnswerHead(mg_connection* connection) {
  const mg_request_info* const asked = mg_get_request_info(connection);
  if (asked->request_method != std::string("HEAD") ||
      asked->local_uri != std::string("/metrics")) {
    return 0;
  }
  mg_printf(connection,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Connection: close\r\n\r\n");
  return 200;
}

CivetCallbacks Callbacks() {
  CivetCallbacks callbacks;
  callbacks.begin_request = &AnswerHead;
  return callbacks;
}

class ExporterImpl final : public Exporter {
 public:
  ExporterImpl(const std::string& address, Collect collect)
      : collected_(std::make_shared<Collected>(std::move(collect))),
        callbacks_(Callbacks()),
        exposer_(
            std::vector<std::string>{
                "listening_ports", address, "num_threads",
                absl::StrCat(kThreads), "request_timeout_ms",
                absl::StrCat(kRequestMillis), "listen_backlog",
                absl::StrCat(kBacklog), "enable_keep_alive", "no"},
            &callbacks_) {
    exposer_.RegisterCollectable(collected_);
  }
  int port() const override {
    const std::vector<int> ports = exposer_.GetListeningPorts();
    return ports.empty() ? 0 : ports.front();
  }

 private:
  const std::shared_ptr<Collected> collected_;
  const CivetCallbacks callbacks_;
  prometheus::Exposer exposer_;  // Gone before what it asks.
};

}  // namespace
}  // namespace skiff::tools::metrics

extern "C" __attribute__((visibility("default")))
skiff::tools::metrics::Exporter*
skiff_start_metrics_exporter(const std::string& address,
                             skiff::tools::metrics::Exporter::Collect collect,
                             std::string* error) {
  try {
    return new skiff::tools::metrics::ExporterImpl(address, std::move(collect));
  } catch (const std::exception& failure) {
    *error =
        absl::StrCat("cannot serve metrics at ", address, ": ", failure.what(),
                     "; check that the address is this machine's, and "
                     "that nobody else listens there");
    return nullptr;
  }
}
