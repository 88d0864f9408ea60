#include "transport/libfabric/fabric/endpoint_setup.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skiff::transport {
namespace {

absl::StatusOr<std::shared_ptr<FabricCompletionQueue>> ChooseQueue(
    const std::shared_ptr<FabricDomain>& domain, Reactor* reactor,
    const EndpointResources& resources, const ConnectOptions& options) {
  if (resources.shared_receive_queue != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(domain->name(), " has no shared receive queues"));
  }
  if (resources.completion_queue == nullptr) {
    return FabricCompletionQueue::Create(
        domain, reactor, options.send_queue + options.receive_queue);
  }
  auto* queue =
      dynamic_cast<FabricCompletionQueue*>(resources.completion_queue);
  if (queue == nullptr || queue->reactor() != reactor ||
      queue->domain() != domain) {
    return absl::InvalidArgumentError(
        absl::StrCat(domain->name(),
                     ": the completion queue belongs to another device or "
                     "another reactor"));
  }
  return queue->shared_from_this();
}

}  // namespace

absl::Status CheckPrivateData(const FabricDomain& domain,
                              const ConnectOptions& options) {
  const size_t limit = domain.capabilities().max_private_data_bytes;
  if (options.private_data.size() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(domain.name(), ": ", options.private_data.size(),
                     " bytes of private data exceed the limit of ", limit));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FabricEndpoint>> MakeEndpoint(
    const std::shared_ptr<FabricDomain>& domain, Reactor* reactor,
    ConnectOptions options) {
  absl::Status status = CheckPrivateData(*domain, options);
  if (!status.ok()) return status;
  const auto resources = ResourcesOf(*domain, &options);
  if (!resources.ok()) return resources.status();
  status = FabricQueuePair::CheckLimits(*domain, options);
  if (!status.ok()) return status;
  auto queue = ChooseQueue(domain, reactor, *resources, options);
  if (!queue.ok()) return queue.status();
  auto queue_pair = FabricQueuePair::Create(queue->get(), options);
  if (!queue_pair.ok()) return queue_pair.status();
  auto endpoint =
      std::make_unique<FabricEndpoint>(*std::move(queue), *queue_pair);
  (*queue_pair)->set_on_disconnect(options.on_disconnect);
  return endpoint;
}

}  // namespace skiff::transport
