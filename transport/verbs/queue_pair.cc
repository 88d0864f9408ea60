// A queue pair's life: made, brought up, closed and drained.
#include "transport/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {

absl::Status VerbsQueuePair::Check(const VerbsDomain& domain,
                                   const ConnectOptions& options,
                                   bool shared_receive) {
  const Capabilities& caps = domain.capabilities();
  struct Limit {
    const char* what;
    uint64_t wanted;
    uint64_t least;
    uint64_t most;
  };
  const Limit limits[] = {
      {"send_queue", options.send_queue, 1, caps.max_send_queue},
      {"receive_queue", shared_receive ? 1 : options.receive_queue, 1,
       caps.max_receive_queue},
      {"max_sges", options.max_sges, 1,
       std::min(caps.max_send_sges, caps.max_receive_sges)},
      {"bytes of private data", options.private_data.size(), 0,
       caps.max_private_data_bytes},
  };
  for (const Limit& limit : limits) {
    if (limit.wanted < limit.least || limit.wanted > limit.most) {
      return absl::InvalidArgumentError(absl::StrCat(
          limit.wanted, " ", limit.what, " are out of the limits of ",
          domain.name(), ", ", limit.least, " to ", limit.most));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<VerbsQueuePair>> VerbsQueuePair::Create(
    std::shared_ptr<VerbsDomain> domain, Queues queues,
    const ConnectOptions& options, const VerbsOptions& settings) {
  absl::Status status =
      Check(*domain, options, queues.shared_receive != nullptr);
  if (!status.ok()) return status;
  std::shared_ptr<VerbsQueuePair> queue_pair(new VerbsQueuePair(
      std::move(domain), std::move(queues), options, settings));
  status = queue_pair->Initialize();
  if (!status.ok()) return status;
  return queue_pair;
}

VerbsQueuePair::VerbsQueuePair(std::shared_ptr<VerbsDomain> domain,
                               Queues queues, const ConnectOptions& options,
                               const VerbsOptions& settings)
    : domain_(std::move(domain)),
      completion_queue_(queues.completion),
      shared_receive_(std::move(queues.shared_receive)),
      settings_(settings),
      max_sges_(options.max_sges),
      send_queue_(options.send_queue),
      receive_queue_(shared_receive_ != nullptr ? 0 : options.receive_queue),
      wished_inline_(options.inline_bytes),
      max_message_bytes_(domain_->capabilities().max_message_bytes),
      max_transfer_bytes_(domain_->capabilities().max_transfer_bytes),
      sink_needs_remote_write_(
          domain_->capabilities().read_sink_needs_remote_write),
      call_bytes_(domain_->facts().soft_iwarp
                      ? std::max<uint64_t>(1, settings.soft_iwarp_call_bytes)
                      : std::numeric_limits<uint64_t>::max()),
      sends_(send_queue_, this),
      receives_(receive_queue_, this),
      receive_sges_(max_sges_),
      port_down_(completion_queue_->reactor(),
                 [this] {
                   Fail(absl::UnavailableError(absl::StrCat(
                       domain_->name(), " port ", port_,
                       " went down and stayed so for ",
                       absl::FormatDuration(settings_.port_down_grace))));
                 }),
      drain_(completion_queue_->reactor(), [this] { Abandon(); }) {}

absl::Status VerbsQueuePair::Initialize() {
  // The device's thread is far behind: what waits there has descriptors.
  if (domain_->destroying() >= settings_.max_destroying) {
    return absl::ResourceExhaustedError(absl::StrCat(
        domain_->name(), " has ", domain_->destroying(),
        " objects of earlier connections to destroy yet: try again later"));
  }
  absl::Status status =
      completion_queue_->Reserve(send_queue_ + receive_queue_);
  if (!status.ok()) return status;
  reserved_ = true;
  auto watch = domain_->Watch(completion_queue_->reactor());
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  status = CreateQp();
  if (!status.ok()) return status;
  PrepareStaging();
  domain_->Add(number_, completion_queue_->reactor(), weak_from_this());
  completion_queue_->Add(this);
  return status;
}

absl::Status VerbsQueuePair::CreateQp() {
  ibv_qp_init_attr attr = {};
  attr.send_cq = completion_queue_->cq();
  attr.recv_cq = completion_queue_->cq();
  attr.srq = shared_receive_ != nullptr ? shared_receive_->srq() : nullptr;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = send_queue_;
  attr.cap.max_recv_wr = receive_queue_;
  attr.cap.max_send_sge = max_sges_;
  attr.cap.max_recv_sge = max_sges_;
  attr.cap.max_inline_data =
      std::min(wished_inline_, domain_->facts().max_inline_bytes);
  max_inline_ = attr.cap.max_inline_data;
  qp_ = ibv_create_qp(domain_->pd(), &attr);
  if (qp_ == nullptr) {
    return CallError(
        absl::StrCat("cannot create a queue pair of ", send_queue_, " and ",
                     receive_queue_, " entries with ", domain_->name(),
                     ", which has ", domain_->facts().device.max_qp, "; ",
                     domain_->destroying(), " objects are being destroyed"),
        errno);
  }
  number_ = qp_->qp_num;
  return absl::OkStatus();
}

// What is put together before it is posted.
void VerbsQueuePair::PrepareStaging() {
  signal_every_ = std::max(1u, settings_.signal_every);
  // Soft-iWARP lends the pages of what is not signalled to TCP, which may still
  // have them to send when a later operation completes (siw_qp_prepare_tx()).
  if (domain_->facts().soft_iwarp) signal_every_ = 1;
  until_signal_ = signal_every_;
  const size_t batch =
      std::max(1u, std::min(settings_.send_batch, send_queue_));
  staged_.resize(batch);
  staged_sges_.resize(batch * max_sges_);
  staged_inline_.reset(new char[batch * max_inline_ + 1]);
  staged_limit_ = static_cast<uint32_t>(batch);
  usual_least_ = uint64_t{max_inline_} + 1;
  // The length of a piece has 32 bits.
  const auto longer = [](uint64_t most, uint64_t least) {
    const uint64_t longest = std::numeric_limits<uint32_t>::max();
    return std::clamp(most, least, longest) - least;
  };
  usual_send_ = longer(max_message_bytes_, usual_least_);
  usual_write_ = longer(max_transfer_bytes_, usual_least_);
  usual_read_ = longer(max_transfer_bytes_, 1);
  for (size_t i = 0; i < batch; ++i) {
    staged_[i].sg_list = &staged_sges_[i * max_sges_];
    staged_[i].next = i + 1 < batch ? &staged_[i + 1] : nullptr;
  }
}

VerbsQueuePair::~VerbsQueuePair() {
  DestroyQp();
  if (number_ != 0) completion_queue_->Remove(this);
  if (reserved_) completion_queue_->Release(send_queue_ + receive_queue_);
}

// Destroying takes long where something else refers to the queue pair, such as
// a window that this very thread would free next.
std::shared_ptr<BuriedWork> VerbsQueuePair::DestroyQp() {
  if (qp_ == nullptr) return nullptr;
  domain_->Remove(number_);
  const bool fenced = Fence();
  ibv_qp* const qp = std::exchange(qp_, nullptr);
  if (!fenced) {
    ibv_destroy_qp(qp);
    return nullptr;
  }
  auto work = std::make_shared<BuriedWork>();
  domain_->DestroyLater([qp, work] {
    ibv_destroy_qp(qp);
    work->destroyed = true;
  });
  return work;
}

// Returns true if the device is done with what was posted: with its memory,
// which is its owner's from here on, and with its completions. The state Reset
// does that to a queue pair that was not drained, or whose receives are shared
// (InfiniBand specification, section 10.3.1); iWARP's have none. Completions
// that a driver makes in spite of it find buried slots.
bool VerbsQueuePair::Fence() {
  if (Drained() && !shares_receives()) return true;
  if (domain_->facts().iwarp) return false;
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RESET;
  return ibv_modify_qp(qp_, &attr, IBV_QP_STATE) == 0;
}

void VerbsQueuePair::SetEndpoint(RdmaEndpoint* endpoint,
                                 QueuePairOwner* owner) {
  endpoint_ = endpoint;
  owner_ = owner;
  sends_.SetEndpoint(endpoint);
  receives_.SetEndpoint(endpoint);
}

absl::Status VerbsQueuePair::Modify(rdma_cm_id* id, ibv_qp_state state,
                                    uint32_t read_depth_here,
                                    uint32_t read_depth_there) {
  ibv_qp_attr attr = {};
  int mask = 0;
  attr.qp_state = state;
  if (rdma_init_qp_attr(id, &attr, &mask) != 0) {
    return CallError(
        absl::StrCat("cannot prepare a queue pair of ", domain_->name()),
        errno);
  }
  // Kernels pass on bits of their own, which ibv_modify_qp(3) does not know.
  mask &= (IBV_QP_DEST_QPN << 1) - 1;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_WRITE;
  }
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    attr.max_dest_rd_atomic = static_cast<uint8_t>(read_depth_there);
  }
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    attr.max_rd_atomic = static_cast<uint8_t>(read_depth_here);
  }
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) {
    attr.min_rnr_timer = settings_.min_rnr_timer;
  }
  if ((mask & IBV_QP_TIMEOUT) != 0) attr.timeout = settings_.ack_timeout;
  // What the connecting side asked for.
  if ((mask & IBV_QP_RETRY_CNT) != 0) {
    attr.retry_cnt = std::min(attr.retry_cnt, settings_.retry_count);
  }
  if (const int error = ibv_modify_qp(qp_, &attr, mask); error != 0) {
    return CallError(
        absl::StrCat("cannot bring up a queue pair of ", domain_->name(),
                     " (state ", static_cast<int>(state), ")"),
        error);
  }
  return absl::OkStatus();
}

absl::Status VerbsQueuePair::ToInit(rdma_cm_id* id) {
  port_ = id->port_num;
  return Modify(id, IBV_QPS_INIT, 0, 0);
}

absl::Status VerbsQueuePair::ToReadyToSend(rdma_cm_id* id,
                                           uint32_t read_depth_here,
                                           uint32_t read_depth_there) {
  if (state_ == State::kClosed) {
    return absl::UnavailableError("the queue pair failed");
  }
  // An iWARP connection manager does this itself.
  if (!domain_->facts().iwarp) {
    // Once more: the connection manager knows the path only now.
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      absl::Status status =
          Modify(id, state, read_depth_here, read_depth_there);
      if (!status.ok()) return status;
    }
  }
  max_reads_ = read_depth_here;
  state_ = State::kReady;
  return absl::OkStatus();
}

bool VerbsQueuePair::SendNothing(ibv_wr_opcode opcode) {
  const bool read = opcode == IBV_WR_RDMA_READ;
  // It takes a place of the device's queue that was not counted on, and has to
  // be gone from there before the user needs that. READs that wait for their
  // answer have left it.
  if (sends_.size() != (read ? 0 : reads_)) return false;
  // Where nobody may READ, nobody answers.
  if (read && max_reads_ == 0) return false;
  // It completes without a word, or fails with the connection.
  static WorkSlot* const kNobodys = [] {
    auto* slot = new WorkSlot;
    slot->Bury();
    return slot;
  }();
  // Of an empty list, siw uses what was there before (push_send_wqe() of its
  // library, siw_activate_tx_from_sq()).
  ibv_sge nothing = {};
  ibv_send_wr request = {};
  request.wr_id = reinterpret_cast<uintptr_t>(kNobodys);
  request.opcode = opcode;
  request.sg_list = &nothing;
  request.num_sge = 1;
  // 0 is special to some devices (siw_qp_mpa_rts()).
  request.wr.rdma.rkey = 1;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &request, &bad);
  if (error == 0) return true;
  Fail(CallError(absl::StrCat("cannot post to ", domain_->name()),
                 std::abs(error)));
  return false;
}

void VerbsQueuePair::Close() {
  if (state_ == State::kClosed) return;
  SetClosed();
  port_down_.Cancel();
  sends_.FailNewest(DropStaged(), CompletionStatus::kFlushed);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  if (ibv_modify_qp(qp_, &attr, IBV_QP_STATE) != 0) {
    Abandon();
    return;
  }
  completion_queue_->Collect(this);
  if (!Drained()) drain_.ScheduleAfter(settings_.drain_timeout);
}

void VerbsQueuePair::Abandon() {
  const auto self = shared_from_this();
  SetClosed();
  drain_.Cancel();
  port_down_.Cancel();
  if (qp_ == nullptr || Drained()) return;
  sends_.FailNewest(DropStaged(), CompletionStatus::kFlushed);
  // What the device did complete keeps its result.
  completion_queue_->Sweep();
  if (Drained()) return;
  const std::shared_ptr<BuriedWork> work = DestroyQp();
  completion_queue_->Sweep();
  sends_.FlushAll();
  receives_.FlushAll();
  completion_queue_->Collect(this);
  if (work == nullptr) return;
  work->slots = {sends_.Bury(), receives_.Bury()};
  completion_queue_->Bury(work);
}

bool VerbsQueuePair::Drained() const {
  return state_ == State::kClosed && sends_.empty() && receives_.empty();
}

void VerbsQueuePair::Fail(absl::Status why) {
  if (state_ == State::kClosed) return;
  if (owner_ != nullptr) {
    owner_->OnQueuePairError(std::move(why));
  } else {
    Close();
  }
}

void VerbsQueuePair::OnAsyncEvent(ibv_event_type type, int port) {
  switch (type) {
    case IBV_EVENT_COMM_EST:
      if (owner_ != nullptr) owner_->OnCommunicationEstablished();
      break;
    case IBV_EVENT_PORT_ERR:
      if (port == port_ && state_ != State::kClosed) {
        port_down_.ScheduleAfter(settings_.port_down_grace);
      }
      break;
    case IBV_EVENT_PORT_ACTIVE:
      if (port == port_) port_down_.Cancel();
      break;
    case IBV_EVENT_DEVICE_FATAL:
      Fail(absl::UnavailableError(
          absl::StrCat(domain_->name(), " failed or was removed")));
      if (qp_ != nullptr) Abandon();
      break;
    default:
      Fail(absl::UnavailableError(absl::StrCat(
          domain_->name(), " broke the connection: ", ibv_event_type_str(type),
          type == IBV_EVENT_QP_ACCESS_ERR
              ? " (the peer used a key or memory that it may not use)"
              : "")));
      break;
  }
}

void VerbsQueuePair::OnSendFailed(WorkSlot* slot, const ibv_wc& wc) {
  sends_.Fail(slot, ToCompletionStatus(wc.status, slot->kind), wc.status);
  Fail(OperationError(wc.status, slot->kind, wc.vendor_err));
}

void VerbsQueuePair::OnReceiveDone(WorkSlot* slot, const ibv_wc& wc) {
  if (slot->queue_pair == this) receives_.Retire(slot);
  received_ = true;
  if (wc.status != IBV_WC_SUCCESS) {
    Fail(OperationError(wc.status, OperationKind::kReceive, wc.vendor_err));
  }
}

void VerbsQueuePair::Explain(Completion* failed) {
  if (failed->provider_code == 0) {  // It never reached the device.
    failed->provider_code = failed->status == CompletionStatus::kFlushed
                                ? IBV_WC_WR_FLUSH_ERR
                                : IBV_WC_LOC_QP_OP_ERR;
  }
  failed->scope =
      ToDamageScope(static_cast<ibv_wc_status>(failed->provider_code));
}

size_t VerbsQueuePair::TakeReady(absl::Span<Completion> out) {
  bool noteworthy = false;
  size_t count = sends_.Take(out, &noteworthy);
  FindRoom();
  // Until then RECEIVEs are reported as the device completes them.
  if (state_ == State::kClosed && !receives_.empty()) {
    bool failed = false;
    count += receives_.Take(out.subspan(count), &failed);
    noteworthy |= failed;
  }
  if (noteworthy) Note(out.first(count));
  return count;
}

void VerbsQueuePair::Note(absl::Span<Completion> taken) {
  for (Completion& completion : taken) {
    if (completion.kind == OperationKind::kRead) --reads_;
    if (completion.status != CompletionStatus::kOk) Explain(&completion);
  }
}

}  // namespace skiff::transport
