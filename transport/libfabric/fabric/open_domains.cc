#include "transport/libfabric/fabric/open_domains.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_completion_queue.h"

namespace skiff::transport {
namespace {

// A domain with what can be made of it.
class OpenDomain final : public FabricDomain {
 public:
  static absl::StatusOr<std::shared_ptr<FabricDomain>> Open(
      const fi_info& info, const LibfabricOptions& settings) {
    std::shared_ptr<OpenDomain> domain(new OpenDomain(settings));
    const absl::Status status = domain->FabricDomain::Open(info);
    if (!status.ok()) return status;
    return domain;
  }

  absl::StatusOr<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(
      Reactor* reactor, uint32_t entries) override {
    auto queue =
        FabricCompletionQueue::Create(shared_from_this(), reactor, entries);
    if (!queue.ok()) return queue.status();
    return std::shared_ptr<CompletionQueue>(*std::move(queue));
  }

 private:
  explicit OpenDomain(const LibfabricOptions& settings)
      : FabricDomain(settings) {}
};

std::string DomainKey(const fi_info& info) {
  return absl::StrCat(info.fabric_attr->prov_name, "|", info.fabric_attr->name,
                      "|", info.domain_attr->name, "|", info.ep_attr->type);
}

}  // namespace

absl::StatusOr<std::shared_ptr<FabricDomain>> DomainFor(
    const fi_info& info, const LibfabricOptions& settings) {
  static std::mutex mutex;
  // Nearly always one for each key.
  using Domains = std::vector<std::weak_ptr<FabricDomain>>;
  static auto* domains = new std::map<std::string, Domains>;
  std::lock_guard<std::mutex> lock(mutex);
  Domains& known = (*domains)[DomainKey(info)];
  for (auto it = known.begin(); it != known.end();) {
    const auto domain = it->lock();
    const bool gone = domain == nullptr || domain->removed();
    if (!gone && domain->settings() == settings) return domain;
    it = gone ? known.erase(it) : std::next(it);
  }
  auto opened = OpenDomain::Open(info, settings);
  if (opened.ok()) known.push_back(*opened);
  return opened;
}

}  // namespace skiff::transport
