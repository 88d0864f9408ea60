#include "transport/verbs/verbs_acceptor.h"

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/log/log.h"
#include "transport/verbs/cm_errors.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {

VerbsConnectionRequest::VerbsConnectionRequest(CmId id, const CmEvent& event,
                                               const VerbsOptions& settings,
                                               std::shared_ptr<int> pending)
    : id_(std::move(id)),
      event_(event),
      settings_(settings),
      pending_(std::move(pending)),
      local_address_(
          ToSocketAddress(rdma_get_local_addr(id_.get())).ToString()),
      peer_address_(ToSocketAddress(rdma_get_peer_addr(id_.get())).ToString()) {
  ++*pending_;
  id_.SetHandler(this);
}

VerbsConnectionRequest::~VerbsConnectionRequest() {
  Reject({});
  --*pending_;
}

void VerbsConnectionRequest::Accept(Reactor* home, const AcceptOptions& options,
                                    AcceptedCallback done) {
  // On this side, because the old channel must not be touched from the other.
  id_.SetHandler(nullptr);
  absl::Status status;
  auto channel = CmChannel::ForReactor(home, settings_);
  if (!channel.ok()) {
    status = channel.status();
  } else if (channel->get() != id_.channel()) {
    status = id_.Migrate(*std::move(channel));
  }
  home->Post([home, id = std::move(id_), request = event_, options,
              settings = settings_, status = std::move(status),
              done = std::move(done)]() mutable {
    if (status.ok()) status = id.channel()->Watch();
    if (!status.ok()) {
      id.Reset();
      done(std::move(status));
      return;
    }
    VerbsAcceptor::Start(home, std::move(id), std::move(request), options,
                         settings, std::move(done));
  });
}

void VerbsConnectionRequest::Reject(absl::Span<const uint8_t> private_data) {
  if (id_.get() == nullptr) return;
  const size_t limit = RejectDataLimit(
      id_.get()->verbs->device->transport_type == IBV_TRANSPORT_IWARP);
  if (private_data.size() > limit) {
    // A caller's mistake: peers have no influence on it.
    LogToProcess(
        LogLevel::kWarning,
        absl::StrCat("verbs://", local_address_, ": rejecting ", peer_address_,
                     " without its ", private_data.size(),
                     " bytes of private data, ", limit, " are the limit"));
    private_data = {};
  }
  // Fails when the peer has given up: it needs no answer then.
  rdma_reject(id_.get(), private_data.data(),
              static_cast<uint8_t>(private_data.size()));
  id_.Reset();
}

void VerbsAcceptor::Start(Reactor* reactor, CmId id, CmEvent request,
                          const AcceptOptions& options,
                          const VerbsOptions& settings, AcceptedCallback done) {
  auto endpoint =
      VerbsEndpoint::Create(reactor, std::move(id), options, settings);
  if (!endpoint.ok()) {
    done(endpoint.status());
    return;
  }
  auto* acceptor =
      new VerbsAcceptor(reactor, *std::move(endpoint), std::move(request),
                        options.timeout, std::move(done));
  reactor->Own(std::unique_ptr<ReactorObject>(acceptor));
  absl::Status status = acceptor->SendReply();
  if (!status.ok()) acceptor->Finish(status);
}

VerbsAcceptor::VerbsAcceptor(Reactor* reactor,
                             std::unique_ptr<VerbsEndpoint> endpoint,
                             CmEvent request, absl::Duration timeout,
                             AcceptedCallback done)
    : reactor_(reactor),
      endpoint_(std::move(endpoint)),
      request_(std::move(request)),
      timeout_(timeout),
      done_(std::move(done)),
      deadline_(reactor, [this] {
        Finish(absl::DeadlineExceededError(
            absl::StrCat("the peer did not confirm the connection within ",
                         absl::FormatDuration(timeout_))));
      }) {}

absl::Status VerbsAcceptor::SendReply() {
  endpoint_->id().SetHandler(this);
  absl::Status status = endpoint_->SetReady(request_.initiator_depth,
                                            request_.responder_resources);
  if (!status.ok()) return status;
  rdma_conn_param param = endpoint_->ConnectionParameters(
      request_.initiator_depth, request_.responder_resources);
  deadline_.ScheduleAfter(timeout_);
  if (rdma_accept(endpoint_->id().get(), &param) != 0) {
    return CallError("the connection was not accepted - did the peer give up?",
                     errno);
  }
  return absl::OkStatus();
}

void VerbsAcceptor::OnCmEvent(const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      Finish(absl::OkStatus());
      break;
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      break;
    default:
      if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        endpoint_->SetDeviceRemoved();
      }
      Finish(CmEventError(event));
      break;
  }
}

void VerbsAcceptor::Finish(const absl::Status& status) {
  const std::unique_ptr<ReactorObject> self = reactor_->Disown(this);
  if (!status.ok()) {
    const std::string peer = endpoint_->peer_address();
    endpoint_.reset();
    done_(absl::Status(status.code(), absl::StrCat("accept from ", peer, ": ",
                                                   status.message())));
    return;
  }
  endpoint_->SetConnected(request_.private_data, /*accepted=*/true);
  done_(Endpoint(std::unique_ptr<RdmaEndpoint>(std::move(endpoint_))));
}

}  // namespace skiff::transport
