#include "transport/verbs/verbs_connector.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/cm_errors.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {

absl::StatusOr<std::unique_ptr<VerbsConnector>> VerbsConnector::Create(
    Reactor* reactor, const Address& address, const ConnectOptions& options,
    const VerbsOptions& settings, ConnectCallback done) {
  absl::Status status = CheckConnect(address, options);
  if (!status.ok()) return status;
  if (options.private_data.size() > PrivateDataLimit(/*iwarp=*/true)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot connect to ", address.ToString(), ": ",
        options.private_data.size(),
        " bytes of private data exceed every device's limit, at most ",
        PrivateDataLimit(/*iwarp=*/true)));
  }
  auto channel = CmChannel::ForReactor(reactor, settings);
  if (!channel.ok()) return channel.status();
  status = (*channel)->Watch();
  if (!status.ok()) return status;
  std::unique_ptr<VerbsConnector> connector(
      new VerbsConnector(reactor, address, options, settings,
                         *std::move(channel), std::move(done)));
  status = connector->Start();
  if (!status.ok()) return status;
  return connector;
}

VerbsConnector::VerbsConnector(Reactor* reactor, Address address,
                               const ConnectOptions& options,
                               const VerbsOptions& settings,
                               std::shared_ptr<CmChannel> channel,
                               ConnectCallback done)
    : HostConnector(reactor, std::move(address), options, std::move(done),
                    "is the address right, is the host up, does it speak "
                    "RDMA?"),
      settings_(settings),
      channel_(std::move(channel)) {}

int VerbsConnector::MillisecondsLeft() const {
  const int64_t left = absl::ToInt64Milliseconds(deadline_ - reactor_->Now());
  return static_cast<int>(
      std::clamp<int64_t>(left, 1, std::numeric_limits<int>::max()));
}

absl::Status VerbsConnector::StartOne(const SocketAddress& candidate) {
  // librdmacm does not promise to leave it alone.
  SocketAddress to = candidate;
  auto id = CmId::Create(channel_);
  if (!id.ok()) return id.status();
  id_ = *std::move(id);
  id_.SetHandler(this);
  if (rdma_resolve_addr(id_.get(), nullptr,
                        reinterpret_cast<sockaddr*>(&to.storage),
                        MillisecondsLeft()) != 0) {
    return absl::UnavailableError(
        CallError("no RDMA device leads to this address", errno).message());
  }
  return absl::OkStatus();
}

absl::Status VerbsConnector::ResolveRoute() {
  if (rdma_resolve_route(id_.get(), MillisecondsLeft()) != 0) {
    return CallError("no RDMA path leads to this address", errno);
  }
  return absl::OkStatus();
}

absl::Status VerbsConnector::SendRequest() {
  id_.SetHandler(nullptr);
  auto endpoint =
      VerbsEndpoint::Create(reactor_, std::move(id_), options_, settings_);
  if (!endpoint.ok()) return endpoint.status();
  endpoint_ = *std::move(endpoint);
  endpoint_->id().SetHandler(this);
  rdma_conn_param param =
      endpoint_->ConnectionParameters(RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES);
  if (rdma_connect(endpoint_->id().get(), &param) != 0) {
    return CallError("the connection request was not sent", errno);
  }
  endpoint_->SetAwaitsAnswer(true);
  return absl::OkStatus();
}

absl::Status VerbsConnector::Complete(const CmEvent& event) {
  absl::Status status =
      endpoint_->SetReady(event.initiator_depth, event.responder_resources);
  if (!status.ok()) return status;
  if (event.type == RDMA_CM_EVENT_CONNECT_RESPONSE &&
      rdma_establish(endpoint_->id().get()) != 0) {
    return CallError("the connection was not confirmed", errno);
  }
  endpoint_->SetConnected(event.private_data, /*accepted=*/false);
  return absl::OkStatus();
}

void VerbsConnector::OnCmEvent(const CmEvent& event) {
  absl::Status status;
  if (endpoint_ != nullptr && event.type != RDMA_CM_EVENT_ADDR_CHANGE) {
    endpoint_->SetAwaitsAnswer(false);
  }
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      status = ResolveRoute();
      if (!status.ok()) FailOne(status);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      status = SendRequest();
      // The caller's own functions may have said no.
      if (!status.ok()) FailOne(status, Concerns::kAll);
      return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
      status = Complete(event);
      if (!status.ok()) {
        FailOne(status);
      } else {
        Finish(Endpoint(std::unique_ptr<RdmaEndpoint>(std::move(endpoint_))));
      }
      return;
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL && endpoint_ != nullptr) {
        endpoint_->SetDeviceRemoved();
      }
      status = CmEventError(event);
      // Who refuses answers for the host.
      FailOne(status, status.GetPayload(kRejectPrivateData).has_value()
                          ? Concerns::kAll
                          : Concerns::kThisAddress);
      return;
  }
}

void VerbsConnector::DropOne() {
  endpoint_.reset();
  id_.Reset();
}

}  // namespace skiff::transport
