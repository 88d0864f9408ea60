// A queue pair's life, and its completions.
#include "transport/libfabric/fabric/queue_pair.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/fabric_info.h"

namespace skiff::transport {
namespace {

absl::Status CheckLimit(const FabricDomain& domain, absl::string_view what,
                        size_t wanted, size_t limit) {
  if (wanted <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(domain.name(), ": ", wanted, " ", what,
                   " were asked for, and the device has ", limit));
}

}  // namespace

absl::Status FabricQueuePair::CheckLimits(const FabricDomain& domain,
                                          const ConnectOptions& options) {
  const Capabilities& device = domain.capabilities();
  absl::Status status = CheckLimit(domain, "send queue entries",
                                   options.send_queue, device.max_send_queue);
  status.Update(CheckLimit(domain, "receive queue entries",
                           options.receive_queue, device.max_receive_queue));
  status.Update(
      CheckLimit(domain, "scatter/gather entries", options.max_sges,
                 std::min(device.max_send_sges, device.max_receive_sges)));
  if (options.send_queue == 0 || options.receive_queue == 0 ||
      options.max_sges == 0) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        domain.name(), ": queues and max_sges must be at least 1")));
  }
  return status;
}

absl::StatusOr<FabricQueuePair*> FabricQueuePair::Create(
    FabricCompletionHost* queue, const ConnectOptions& options) {
  const Capabilities& device = queue->domain()->capabilities();
  const absl::Status status =
      queue->Reserve(options.send_queue + options.receive_queue);
  if (!status.ok()) return status;
  Capabilities granted = device;
  granted.max_send_queue = options.send_queue;
  granted.max_receive_queue = options.receive_queue;
  granted.max_send_sges = options.max_sges;
  granted.max_receive_sges = options.max_sges;
  granted.max_read_sges = std::min(device.max_read_sges, options.max_sges);
  granted.max_read_depth =
      std::min({device.max_read_depth, options.read_depth, options.send_queue});
  granted.max_inline_bytes =
      std::min<size_t>(device.max_inline_bytes, options.inline_bytes);
  return queue->Adopt(
      std::unique_ptr<FabricQueuePair>(new FabricQueuePair(queue, granted)));
}

FabricQueuePair::FabricQueuePair(FabricCompletionHost* queue,
                                 const Capabilities& capabilities)
    : queue_(queue),
      domain_(queue->domain()),
      capabilities_(capabilities),
      uses_datagrams_(domain_->datagrams()),
      long_sends_(uses_datagrams_ ? SIZE_MAX : capabilities.max_inline_bytes),
      write_flags_(FI_COMPLETION |
                   (domain_->asks_for_delivery() ? FI_DELIVERY_COMPLETE : 0)),
      after_post_(queue->wants_posts() ? kTellQueue : 0),
      requests_(this, capabilities.max_send_queue),
      receives_(this, capabilities.max_receive_queue),
      counts_({uses_datagrams_, domain_->send_passes_write(),
               domain_->completes_before_reads(),
               capabilities.eager_message_bytes}),
      held_(requests_.indices(), capabilities.max_inline_bytes),
      sinks_(*domain_, capabilities.max_message_bytes, receives_.indices()),
      shm_reads_(domain_->settings().shm_read_bytes, requests_.indices()) {}

FabricQueuePair::~FabricQueuePair() {
  if (!life_.ended() && link_ != nullptr) {
    link_->OnClosing(/*tell_peer=*/true);
  }
  // Before the link's, whose objects it uses; and that before our rings.
  endpoint_.reset();
  link_.reset();
}

void FabricQueuePair::Adjust(fi_info* info) const {
  info->tx_attr->size = capabilities_.max_send_queue;
  info->rx_attr->size = capabilities_.max_receive_queue;
  info->tx_attr->iov_limit = capabilities_.max_send_sges;
  info->rx_attr->iov_limit = capabilities_.max_receive_sges;
  info->tx_attr->inject_size = capabilities_.max_inline_bytes;
  if (uses_datagrams_) DatagramTraffic::Adjust(*domain_, info);
}

void FabricQueuePair::SetEndpoint(Fid<fid_ep> endpoint,
                                  std::unique_ptr<FabricLink> link) {
  endpoint_ = std::move(endpoint);
  link_ = std::move(link);
}

void FabricQueuePair::SetDatagramEndpoint(const DatagramTags& tags,
                                          DatagramObjects objects,
                                          std::unique_ptr<FabricLink> link) {
  SetEndpoint(std::move(objects.endpoint), std::move(link));
  datagram_traffic_.Open(tags, std::move(objects));
}

DatagramObjects FabricQueuePair::TakeObjects() {
  DatagramObjects out = datagram_traffic_.TakeObjects();
  out.endpoint = std::move(endpoint_);
  return out;
}

void FabricQueuePair::set_user(RdmaEndpoint* user) {
  user_ = user;
  requests_.SetEndpoint(user);
  receives_.SetEndpoint(user);
  FindUsual();
}

// From inside a post, too: so all that follows waits for Service().
void FabricQueuePair::Outcome(OperationSlot* slot, CompletionStatus status,
                              int32_t code) {
  slot->state = OperationSlot::State::kDone;
  slot->outcome.status = status;
  slot->outcome.provider_code = code;
  if (slot->outcome.kind != OperationKind::kReceive) Stop();
  ScheduleService();
}

void FabricQueuePair::Completed(OperationSlot* slot, size_t bytes) {
  if (slot->state != OperationSlot::State::kIssued) {
    // If it is not ours, it is a late or second report about a slot that is not
    // the provider's any more.
    OwnDone(slot, bytes);
    return;
  }
  OperationRing* ring = &requests_;
  if (slot->outcome.kind == OperationKind::kReceive) {
    ring = &receives_;
    if (life_.closing()) {
      // The user has heard that the connection is over.
      slot->outcome.status = CompletionStatus::kFlushed;
    } else {
      Received(slot, bytes);
    }
  } else if (counts_.wanted()) {
    counts_.Done(*slot);
  }
  slot->state = OperationSlot::State::kDone;
  if (ring->OldestIsDone()) Retire(ring);
  if (requests_.holding()) ScheduleService();
}

void FabricQueuePair::Received(OperationSlot* slot, size_t bytes) {
  sinks_.Received(receives_.IndexOf(*slot), bytes);
  slot->outcome.bytes = static_cast<uint32_t>(bytes);
  if (domain_->needs_sink() && bytes > slot->room) {
    ReceivedTooMuch(slot, bytes);
  } else {
    counts_.Received();
  }
}

void FabricQueuePair::Failed(OperationSlot* slot, int error, int provider_error,
                             const std::string& text) {
  // Without probes, connecting ends at its deadline.
  if (OwnDone(slot, 0)) return;
  if (slot->state != OperationSlot::State::kIssued) return;
  counts_.Failed(slot->outcome.kind);
  const CompletionStatus status = MapOperationError(
      domain_->provider(), slot->outcome.kind, error, provider_error);
  Outcome(slot, status, provider_error != 0 ? provider_error : error);
  StopBecause(
      status == CompletionStatus::kFlushed
          ? absl::UnavailableError(absl::StrCat(
                domain_->name(), ": the peer ended the connection"))
          : FabricStatus(error, absl::StrCat(domain_->name(),
                                             ": an operation failed: ", text)));
}

void FabricQueuePair::Retire(OperationRing* ring) {
  for (OperationSlot* slot = ring->Oldest();
       slot != nullptr && slot->state == OperationSlot::State::kDone;
       slot = ring->Oldest()) {
    if (slot->outcome.status != CompletionStatus::kOk) {
      slot->outcome.scope = DamageScope::kConnection;
      BreakSoon(absl::InternalError(
          absl::StrCat(domain_->name(),
                       ": an operation was posted with a wrong buffer or "
                       "length")));
    }
    if (ring->OldestIsHeld()) ring->ReleaseHeld();
    ring->RetireOldest();
    if (queue_->Push(slot)) Polled(slot->outcome.kind);
  }
}

void FabricQueuePair::Service() {
  Retire(&requests_);
  Retire(&receives_);
  // An operation that was posted wrong waits behind what the provider still
  // works on; all other failures end the connection now.
  if (!life_.break_reason().ok()) {
    Break(life_.break_reason(), /*tell_peer=*/true);
  } else {
    if (!shm_reads_.has_due()) shm_reads_.RenewAllowance();
    IssueHeld();
    // Some of them may be over already.
    Retire(&requests_);
  }
}

void FabricQueuePair::FinishService() {
  turn_.in_service = false;
  // What callbacks posted, and is over, since Service().
  if (requests_.OldestIsDone() || receives_.OldestIsDone()) {
    ScheduleService();
  }
  if (std::exchange(turn_.link_due, false) && link_ != nullptr)
    link_->OnTurnEnd();
  if (std::exchange(turn_.disconnect_due, false) && user_ != nullptr &&
      on_disconnect_) {
    const auto on_disconnect = std::exchange(on_disconnect_, nullptr);
    on_disconnect(*user_);
  }
  if (user_ == nullptr) queue_->Detached(this);
}

void FabricQueuePair::ReceivedTooMuch(OperationSlot* slot, size_t bytes) {
  slot->outcome.status = CompletionStatus::kTooLong;
  slot->outcome.provider_code = FI_ETRUNC;
  BreakSoon(absl::InternalError(absl::StrCat(
      domain_->name(), ": a message of ", bytes,
      " bytes does not fit the RECEIVE of ", slot->room, " bytes")));
}

bool FabricQueuePair::OwnDone(const OperationSlot* slot, size_t bytes) {
  if (!uses_datagrams_) {
    if (!connected_traffic_.IsNothing(slot)) return false;
    NothingDone();
    return true;
  }
  switch (datagram_traffic_.ProbeDone(slot)) {
    case DatagramTraffic::ProbeReport::kNoProbe:
      return false;
    case DatagramTraffic::ProbeReport::kOld:
      break;
    case DatagramTraffic::ProbeReport::kSent:
      link_->OnProbeSent();
      break;
    case DatagramTraffic::ProbeReport::kReceived:
      link_->OnProbe(bytes);
      break;
  }
  return true;
}

bool FabricQueuePair::SendNothing(OperationKind kind) {
  const bool read = kind == OperationKind::kRead;
  // The provider needs its completions in posting order: see OperationCounts.
  if (has_requests() || connected_traffic_.nothing_under_way()) return false;
  if (read && capabilities_.max_read_depth == 0) return false;
  const ssize_t result =
      connected_traffic_.IssueNothing(endpoint_.get(), this, kind);
  if (result == 0) {
    if (read) counts_.NothingIssued();
    return true;
  }
  if (result != -FI_EAGAIN) {
    BreakSoon(FabricStatus(
        result, absl::StrCat(domain_->name(), " refused an operation")));
  }
  return false;
}

void FabricQueuePair::NothingDone() {
  const auto kind = connected_traffic_.NothingDone();
  if (!kind.has_value()) return;
  if (*kind == OperationKind::kRead) counts_.NothingDone();
  if (requests_.holding()) ScheduleService();
}

bool FabricQueuePair::waits_for_peer() {
  return holding() || requests_.FirstIssued(
                          [](const OperationSlot&) { return true; }) != nullptr;
}

}  // namespace skiff::transport
