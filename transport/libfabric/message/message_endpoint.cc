#include "transport/libfabric/message/message_endpoint.h"

#include <utility>

#include "transport/libfabric/fabric/endpoint_setup.h"

namespace skiff::transport {

absl::StatusOr<ConnectableEndpoint> MakeConnectable(
    const std::shared_ptr<FabricDomain>& domain, const fi_info& info,
    Reactor* reactor, const ConnectOptions& options, bool* opened) {
  *opened = false;
  auto endpoint = MakeEndpoint(domain, reactor, options);
  if (!endpoint.ok()) return endpoint.status();
  ConnectableEndpoint out;
  out.endpoint = *std::move(endpoint);
  auto link =
      MessageLink::Open(out.endpoint->queue_pair(), info, reactor, opened);
  if (!link.ok()) return link.status();
  out.link = *link;
  auto private_data = PrepareEndpoint(*out.endpoint, options);
  if (!private_data.ok()) return private_data.status();
  out.private_data = *std::move(private_data);
  return out;
}

}  // namespace skiff::transport
