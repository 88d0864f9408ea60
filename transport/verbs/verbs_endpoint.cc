#include "transport/verbs/verbs_endpoint.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/cm_errors.h"
#include "transport/verbs/open_domains.h"

namespace skiff::transport {
namespace {

// What is left of a connect that nobody wants any more. The connection managers
// of iWARP devices do not let go of it before the peer has answered or the
// device's own timeout has passed (Soft-iWARP's takes ten seconds), and would
// have the reactor's thread wait for that.
class CancelledConnect final : public ReactorObject, private CmHandler {
 public:
  CancelledConnect(Reactor* reactor, CmId id,
                   std::shared_ptr<VerbsCompletionQueue> completion_queue,
                   std::shared_ptr<VerbsQueuePair> queue_pair)
      : reactor_(reactor),
        completion_queue_(std::move(completion_queue)),
        queue_pair_(std::move(queue_pair)),
        id_(std::move(id)) {
    id_.SetHandler(this);
  }

 private:
  void OnCmEvent(const CmEvent& event) override {
    // Changes nothing.
    if (event.type == RDMA_CM_EVENT_ADDR_CHANGE) return;
    reactor_->Disown(this);
  }

  Reactor* const reactor_;
  // The queue pair refers to it.
  const std::shared_ptr<VerbsCompletionQueue> completion_queue_;
  const std::shared_ptr<VerbsQueuePair> queue_pair_;
  CmId id_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::Create(
    Reactor* reactor, CmId id, const ConnectOptions& options,
    const VerbsOptions& settings) {
  std::unique_ptr<VerbsEndpoint> endpoint(
      new VerbsEndpoint(reactor, std::move(id), options, settings));
  absl::Status status = endpoint->Initialize();
  if (!status.ok()) return status;
  auto private_data = PrepareEndpoint(*endpoint, options);
  if (!private_data.ok()) return private_data.status();
  endpoint->options_.private_data = *std::move(private_data);
  if (!endpoint->error_.ok()) return endpoint->error_;
  return endpoint;
}

VerbsEndpoint::VerbsEndpoint(Reactor* reactor, CmId id,
                             const ConnectOptions& options,
                             const VerbsOptions& settings)
    : reactor_(reactor),
      options_(options),
      settings_(settings),
      id_(std::move(id)),
      notify_(reactor, [this] { options_.on_disconnect(*this); }) {}

VerbsEndpoint::~VerbsEndpoint() {
  if (queue_pair_ == nullptr) return;
  Break(absl::CancelledError("the endpoint was destroyed"));
  queue_pair_->SetEndpoint(nullptr, nullptr);
  completion_queue_->Forget(this);
  completion_queue_->Adopt(queue_pair_);
  if (awaits_answer_ && domain_->facts().iwarp) {
    reactor_->Own(std::make_unique<CancelledConnect>(
        reactor_, std::move(id_), completion_queue_, std::move(queue_pair_)));
  }
}

absl::StatusOr<VerbsQueuePair::Queues> VerbsEndpoint::ChooseQueues() {
  const auto chosen = ResourcesOf(*domain_, &options_);
  if (!chosen.ok()) return chosen.status();
  VerbsQueuePair::Queues queues;
  if (chosen->shared_receive_queue != nullptr) {
    auto* shared =
        dynamic_cast<VerbsSharedReceiveQueue*>(chosen->shared_receive_queue);
    if (shared == nullptr || shared->domain() != domain_.get() ||
        shared->reactor() != reactor_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the shared receive queue is not of ", domain_->name(),
                       ", or belongs to another reactor"));
    }
    queues.shared_receive = shared->shared_from_this();
  }
  absl::Status status = VerbsQueuePair::Check(*domain_, options_,
                                              queues.shared_receive != nullptr);
  if (!status.ok()) return status;
  if (chosen->completion_queue != nullptr) {
    auto* queue = dynamic_cast<VerbsCompletionQueue*>(chosen->completion_queue);
    if (queue == nullptr || queue->domain() != domain_.get() ||
        queue->reactor() != reactor_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the completion queue is not of ", domain_->name(),
                       ", or belongs to another reactor"));
    }
    completion_queue_ = queue->shared_from_this();
  } else {
    const uint32_t receives = queues.shared_receive != nullptr
                                  ? queues.shared_receive->entries()
                                  : options_.receive_queue;
    auto made = VerbsCompletionQueue::Create(domain_, reactor_,
                                             options_.send_queue + receives);
    if (!made.ok()) return made.status();
    completion_queue_ = *std::move(made);
  }
  if (queues.shared_receive != nullptr) {
    status = queues.shared_receive->Attach(completion_queue_);
    if (!status.ok()) return status;
  }
  queues.completion = completion_queue_.get();
  return queues;
}

absl::Status VerbsEndpoint::Initialize() {
  auto domain = DomainOf(id_.get()->verbs->device);
  if (!domain.ok()) return domain.status();
  domain_ = *std::move(domain);
  local_address_ = ToSocketAddress(rdma_get_local_addr(id_.get())).ToString();
  peer_address_ = ToSocketAddress(rdma_get_peer_addr(id_.get())).ToString();
  auto queues = ChooseQueues();
  if (!queues.ok()) return queues.status();
  const bool shared = queues->shared_receive != nullptr;
  auto queue_pair =
      VerbsQueuePair::Create(domain_, *std::move(queues), options_, settings_);
  if (!queue_pair.ok()) return queue_pair.status();
  queue_pair_ = *std::move(queue_pair);
  queue_pair_->SetEndpoint(this, this);
  capabilities_ = domain_->capabilities();
  capabilities_.max_inline_bytes = queue_pair_->max_inline();
  capabilities_.max_send_sges = options_.max_sges;
  capabilities_.max_receive_sges = options_.max_sges;
  capabilities_.max_read_sges =
      std::min(capabilities_.max_read_sges, options_.max_sges);
  capabilities_.max_send_queue = options_.send_queue;
  capabilities_.max_receive_queue = shared ? 0 : options_.receive_queue;
  capabilities_.max_read_depth =
      std::min(capabilities_.max_read_depth, options_.read_depth);
  return queue_pair_->ToInit(id_.get());
}

rdma_conn_param VerbsEndpoint::ConnectionParameters(
    uint32_t initiator_depth, uint32_t responder_resources) const {
  rdma_conn_param param = {};
  param.private_data = options_.private_data.data();
  param.private_data_len = static_cast<uint8_t>(options_.private_data.size());
  const uint32_t mine = capabilities_.max_read_depth;
  param.initiator_depth = static_cast<uint8_t>(std::min(mine, initiator_depth));
  param.responder_resources =
      static_cast<uint8_t>(std::min(mine, responder_resources));
  param.retry_count = settings_.retry_count;
  param.rnr_retry_count = settings_.rnr_retry_count;
  param.srq = queue_pair_->has_shared_receives() ? 1 : 0;
  param.qp_num = queue_pair_->number();
  return param;
}

absl::Status VerbsEndpoint::SetReady(uint32_t initiator_depth,
                                     uint32_t responder_resources) {
  const uint32_t mine = capabilities_.max_read_depth;
  const uint32_t reads = std::min(mine, initiator_depth);
  absl::Status status = queue_pair_->ToReadyToSend(
      id_.get(), reads, std::min(mine, responder_resources));
  if (status.ok()) capabilities_.max_read_depth = reads;
  return status;
}

void VerbsEndpoint::SetConnected(std::vector<uint8_t> peer_private_data,
                                 bool accepted) {
  peer_private_data_ = std::move(peer_private_data);
  local_address_ = ToSocketAddress(rdma_get_local_addr(id_.get())).ToString();
  DescribePath();
  id_.SetHandler(this);
  state_ = State::kConnected;
  if (domain_->facts().soft_iwarp) WatchFirstMessage(accepted);
}

void VerbsEndpoint::WatchFirstMessage(bool accepted) {
  using Nothing = FirstMessageWatch::Nothing;
  first_message_ = std::make_unique<FirstMessageWatch>(
      reactor_,
      FirstMessageWatch::Settings{settings_.soft_iwarp_nudge_after,
                                  settings_.soft_iwarp_nudge_limit},
      FirstMessageWatch::Connection{
          [this] { return !queue_pair_->waits_for_first(); },
          [this](Nothing nothing) {
            return queue_pair_->SendNothing(nothing == Nothing::kRead
                                                ? IBV_WR_RDMA_READ
                                                : IBV_WR_RDMA_WRITE);
          }});
  if (accepted) {
    first_message_->StartAccepted(
        ToSocketAddress(rdma_get_local_addr(id_.get())),
        ToSocketAddress(rdma_get_peer_addr(id_.get())));
  } else {
    first_message_->StartConnected();
  }
}

void VerbsEndpoint::DescribePath() {
  const uint8_t port = id_.get()->port_num;
  path_ = absl::StrCat(domain_->name(), " port ", port);
  if (domain_->facts().iwarp) {
    absl::StrAppend(&path_, ", iWARP");
    return;
  }
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  if (!queue_pair_->Query(&attr, &init, IBV_QP_AV | IBV_QP_PATH_MTU)) return;
  absl::StrAppend(&path_, ", MTU ", MtuToString(attr.path_mtu));
  ibv_gid_entry gid = {};
  if (attr.ah_attr.is_global != 0 &&
      ibv_query_gid_ex(domain_->context(), port, attr.ah_attr.grh.sgid_index,
                       &gid, 0) == 0) {
    absl::StrAppend(&path_, ", ", GidToString(gid));
  }
}

void VerbsEndpoint::Break(absl::Status why) {
  if (state_ == State::kClosed) return;
  const bool was_connected = state_ == State::kConnected;
  state_ = State::kClosed;
  error_ = std::move(why);
  if (!disconnect_sent_) {
    disconnect_sent_ = true;
    // Fails where the peer, or nobody yet, is connected.
    if (was_connected) rdma_disconnect(id_.get());
  }
  queue_pair_->Close();
  if (was_connected && options_.on_disconnect) {
    notify_.ScheduleAt(absl::InfinitePast());
  }
}

void VerbsEndpoint::Disconnect() {
  Break(absl::CancelledError("this side ended the connection"));
}

absl::Status VerbsEndpoint::Removed() const {
  return absl::UnavailableError(absl::StrCat(domain_->name(), " was removed"));
}

void VerbsEndpoint::OnCmEvent(const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_DISCONNECTED:
      // If the peer uses the same device, its end may come first.
      Break(domain_->removed() ? Removed()
                               : absl::UnavailableError(absl::StrCat(
                                     peer_address_, " ended the connection")));
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      domain_->SetRemoved();
      Break(Removed());
      queue_pair_->Abandon();
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
      Break(CmEventError(event));
      break;
    default:
      // A change of the address, or the end of the peer's late packets.
      break;
  }
}

void VerbsEndpoint::OnQueuePairError(absl::Status why) {
  Break(absl::Status(
      why.code(),
      absl::StrCat("connection ", local_address_, " to ", peer_address_, " on ",
                   domain_->name(), ": ", why.message())));
}

void VerbsEndpoint::OnCommunicationEstablished() {
  // Only matters to an acceptor that still waits; fails otherwise.
  rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
}

PostResult VerbsEndpoint::PostBind(OperationId id, MemoryWindow* window,
                                   const MemoryRegion* region, size_t offset,
                                   size_t length, Access access) {
  return queue_pair_->PostBind(id, static_cast<VerbsWindow*>(window),
                               static_cast<const VerbsRegion*>(region), offset,
                               length, access);
}

}  // namespace skiff::transport
