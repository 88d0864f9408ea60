#include "transport/verbs/verbs_completion_queue.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/verbs_shared_receive_queue.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

// ibv_ack_cq_events() takes a lock, and so acknowledges many at once.
constexpr unsigned int kAcknowledgeEvery = 256;

// One for the process, never read.
int AlwaysReadable() {
  static const int kFd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  return kFd;
}

}  // namespace

absl::StatusOr<std::shared_ptr<VerbsCompletionQueue>>
VerbsCompletionQueue::Create(std::shared_ptr<VerbsDomain> domain,
                             Reactor* reactor, uint32_t entries) {
  const auto limit = static_cast<uint32_t>(domain->facts().device.max_cqe);
  if (entries == 0 || entries > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a completion queue of ", entries,
                     " entries: ", domain->name(), " has 1 to ", limit));
  }
  std::shared_ptr<VerbsCompletionQueue> queue(
      new VerbsCompletionQueue(std::move(domain), reactor, entries));
  absl::Status status = queue->Initialize();
  if (!status.ok()) return status;
  return queue;
}

absl::Status VerbsCompletionQueue::Initialize() {
  const auto failed = [this](const char* what) {
    return CallError(absl::StrCat("cannot create ", what, " of ", entries_,
                                  " entries with ", domain_->name()),
                     errno);
  };
  epoll_ = ScopedFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid() || AlwaysReadable() < 0) {
    return failed("the descriptor of a completion queue");
  }
  // The kernel's rxe sets the flag of its own interface, which user space knows
  // as one of datagrams. RC queue pairs have no other use for it.
  if (domain_->facts().soft_roce) invalidated_flags_ |= IBV_WC_IP_CSUM_OK;
  channel_ = ibv_create_comp_channel(domain_->context());
  if (channel_ == nullptr) return failed("the channel of a completion queue");
  epoll_event event = {};
  event.events = EPOLLIN;
  if (fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) !=
          0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel_->fd, &event) != 0) {
    return failed("the channel of a completion queue");
  }
  channel_watched_ = true;
  cq_ = ibv_create_cq(domain_->context(), static_cast<int>(entries_), nullptr,
                      channel_, 0);
  if (cq_ == nullptr) return failed("a completion queue");
  return absl::OkStatus();
}

VerbsCompletionQueue::~VerbsCompletionQueue() {
  // Nobody can ask for their completions any more.
  orphans_.clear();
  if (cq_ != nullptr && unacknowledged_ > 0) {
    ibv_ack_cq_events(cq_, unacknowledged_);
  }
  if (channel_ == nullptr) return;
  // After its queue pairs.
  domain_->DestroyLater([cq = cq_, channel = channel_] {
    if (cq != nullptr) ibv_destroy_cq(cq);
    ibv_destroy_comp_channel(channel);
  });
}

absl::Status VerbsCompletionQueue::Reserve(uint32_t entries) {
  if (entries > entries_ - reserved_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the completion queue has ", entries_, " entries, of which ", reserved_,
        " are taken; this needs ", entries, " more"));
  }
  reserved_ += entries;
  return absl::OkStatus();
}

void VerbsCompletionQueue::Add(VerbsQueuePair* queue_pair) {
  ReleaseBuried();
  queue_pairs_[queue_pair->number()] = queue_pair;
}

void VerbsCompletionQueue::Remove(VerbsQueuePair* queue_pair) {
  // Another one may have its number by now.
  const auto found = queue_pairs_.find(queue_pair->number());
  if (found != queue_pairs_.end() && found->second == queue_pair) {
    queue_pairs_.erase(found);
  }
  if (draining_ == queue_pair) draining_ = nullptr;
}

void VerbsCompletionQueue::Adopt(std::shared_ptr<VerbsQueuePair> queue_pair) {
  if (!queue_pair->Drained() || queue_pair->shares_receives()) {
    orphans_.push_back(std::move(queue_pair));
  }
}

void VerbsCompletionQueue::Forget(const RdmaEndpoint* endpoint) {
  for (Completion& completion : backlog_) {
    if (completion.endpoint == endpoint) completion.endpoint = nullptr;
  }
}

void VerbsCompletionQueue::Push(const Completion& completion) {
  backlog_.push_back(completion);
  SetWake(true);
}

void VerbsCompletionQueue::Collect(VerbsQueuePair* queue_pair) {
  Completion completion;
  while (queue_pair->TakeReady({&completion, 1}) > 0) Push(completion);
}

void VerbsCompletionQueue::Sweep() {
  // Drain() would take the backlog first, and for ever.
  std::deque<Completion> swept = std::exchange(backlog_, {});
  Completion completion;
  while (Drain({&completion, 1}) == 1) swept.push_back(completion);
  backlog_.insert(backlog_.begin(), swept.begin(), swept.end());
  if (!backlog_.empty()) SetWake(true);
}

void VerbsCompletionQueue::Bury(std::shared_ptr<BuriedWork> work) {
  ReleaseBuried();
  buried_.push_back(std::move(work));
}

void VerbsCompletionQueue::ReleaseBuried() {
  const auto first =
      std::partition(buried_.begin(), buried_.end(),
                     [](const auto& work) { return !work->destroyed; });
  if (first == buried_.end()) return;
  // Until what was completed before has been seen.
  const std::vector<std::shared_ptr<BuriedWork>> destroyed(
      std::make_move_iterator(first), std::make_move_iterator(buried_.end()));
  buried_.erase(first, buried_.end());
  Sweep();
}

// The device's next completions. False if there are none.
inline bool VerbsCompletionQueue::Refill() {
  const int count = ibv_poll_cq(cq_, kBatch, batch_.data());
  if (count <= 0) return false;
  batch_next_ = batch_.data();
  batch_end_ = batch_next_ + count;
  return true;
}

void VerbsCompletionQueue::SetReceived(const ibv_wc& wc,
                                       Completion* out) const {
  out->bytes = wc.byte_len;
  out->invalidated = (wc.wc_flags & invalidated_flags_) != 0;
  if (out->invalidated) out->invalidated_key = {wc.invalidated_rkey};
}

size_t VerbsCompletionQueue::ExpandReceive(const ibv_wc& wc, Completion* out) {
  auto* slot = reinterpret_cast<WorkSlot*>(wc.wr_id);
  VerbsQueuePair* queue_pair = slot->queue_pair;
  if (queue_pair == nullptr) {  // From a shared receive queue.
    if (slot->buried()) return 0;
    const auto found = queue_pairs_.find(wc.qp_num);
    if (found != queue_pairs_.end()) queue_pair = found->second;
  }
  *out = Completion();
  out->id = slot->id;
  out->kind = OperationKind::kReceive;
  out->status = ToCompletionStatus(wc.status, OperationKind::kReceive);
  out->scope = ToDamageScope(wc.status);
  out->provider_code = wc.status;
  if (wc.status == IBV_WC_SUCCESS) SetReceived(wc, out);
  if (slot->queue_pair == nullptr) {
    SharedReceiveSlot::From(slot)->queue->Retire(slot);
  }
  if (queue_pair == nullptr) return 1;
  out->endpoint = queue_pair->endpoint();
  queue_pair->OnReceiveDone(slot, wc);
  return 1;
}

// Reports one of `batch_` if it went well and comes in its turn, as nearly all
// do.
inline bool VerbsCompletionQueue::ReportUsual(const ibv_wc& wc,
                                              Completion* out) {
  auto* slot = reinterpret_cast<WorkSlot*>(wc.wr_id);
  VerbsQueuePair* const queue_pair = slot->queue_pair;
  if (wc.status != IBV_WC_SUCCESS || queue_pair == nullptr) return false;
  if (slot->kind == OperationKind::kReceive) {
    if (!queue_pair->ReportReceived(slot, out)) return false;
    SetReceived(wc, out);
    return true;
  }
  bool more = false;
  if (!queue_pair->ReportSent(slot, out, &more)) return false;
  if (more) draining_ = queue_pair;
  return true;
}

ABSL_ATTRIBUTE_NOINLINE size_t
VerbsCompletionQueue::ExpandUnusual(const ibv_wc& wc, Completion* out) {
  auto* slot = reinterpret_cast<WorkSlot*>(wc.wr_id);
  draining_ = slot->queue_pair;
  if (slot->kind == OperationKind::kReceive) return ExpandReceive(wc, out);
  slot->queue_pair->OnSendDone(slot, wc);
  return 0;
}

// Reports what is in `batch_`, which is not empty, until something else has to
// be reported first. Returns what is behind the last that it wrote.
inline Completion* VerbsCompletionQueue::ExpandBatch(Completion* next,
                                                     const Completion* end) {
  const ibv_wc* wc = batch_next_;
  do {
    if (!ReportUsual(*wc, next)) {
      batch_next_ = wc + 1;  // What follows may look at the rest.
      return next + ExpandUnusual(*wc, next);
    }
    ++next;
    ++wc;
  } while (wc != batch_end_ && next != end && draining_ == nullptr);
  batch_next_ = wc;
  return next;
}

// What is reported before anything of `batch_`.
ABSL_ATTRIBUTE_NOINLINE size_t
VerbsCompletionQueue::TakeEarlier(absl::Span<Completion> out) {
  if (!backlog_.empty()) {
    out[0] = backlog_.front();
    backlog_.pop_front();
    return 1;
  }
  const size_t count = draining_->TakeReady(out);
  if (count < out.size()) draining_ = nullptr;
  return count;
}

// All but the orphans' end.
size_t VerbsCompletionQueue::Drain(absl::Span<Completion> out) {
  return static_cast<size_t>(DrainBehind(out.data(), out, false) - out.data());
}

// The rest of `out`, of which what is before `next` has been written. Returns
// what is behind the last written. `was_all`: a batch that is not full was all
// that there is: whoever polls comes again, and what there is now is worth more
// to him than to know that.
Completion* VerbsCompletionQueue::DrainBehind(Completion* next,
                                              absl::Span<Completion> out,
                                              bool was_all) {
  Completion* const end = out.data() + out.size();
  while (next != end) {
    if (!backlog_.empty() || draining_ != nullptr) {
      next += TakeEarlier({next, static_cast<size_t>(end - next)});
    } else if (batch_next_ != batch_end_) {
      next = ExpandBatch(next, end);
    } else if ((was_all && next != out.data()) || !Refill()) {
      break;
    } else {
      was_all = batch_end_ != batch_.data() + kBatch;
    }
  }
  return next;
}

// What the device has is in `batch_`, and goes before anything else.
ABSL_ATTRIBUTE_NOINLINE int VerbsCompletionQueue::PollBatch(
    absl::Span<Completion> out) {
  const bool was_all = batch_end_ != batch_.data() + kBatch;
  Completion* next = ExpandBatch(out.data(), out.data() + out.size());
  if (!was_all || draining_ != nullptr || batch_next_ != batch_end_ ||
      !backlog_.empty() || next == out.data()) {
    next = DrainBehind(next, out, was_all);
  }
  return static_cast<int>(next - out.data());
}

// Apart from what follows, as most polls of a program that waits find nothing.
int VerbsCompletionQueue::Poll(absl::Span<Completion> out) {
  if (batch_next_ != batch_end_ || draining_ != nullptr || !backlog_.empty() ||
      !orphans_.empty() || out.empty()) {
    return PollUnusual(out);
  }
  return Refill() ? PollBatch(out) : 0;
}

ABSL_ATTRIBUTE_NOINLINE int VerbsCompletionQueue::PollUnusual(
    absl::Span<Completion> out) {
  const size_t count = Drain(out);
  if (!orphans_.empty()) ReleaseDrained(count < out.size() && !Refill());
  return static_cast<int>(count);
}

void VerbsCompletionQueue::ReleaseDrained(bool idle) {
  for (size_t i = 0; i < orphans_.size();) {
    if (orphans_[i]->Drained() && (idle || !orphans_[i]->shares_receives())) {
      std::swap(orphans_[i], orphans_.back());
      orphans_.pop_back();
    } else {
      ++i;
    }
  }
}

bool VerbsCompletionQueue::Arm() {
  if (!backlog_.empty() || draining_ != nullptr || batch_next_ != batch_end_) {
    return false;
  }
  if (!armed_) {
    // Of a device that is gone; what is left of it comes by the backlog.
    if (ibv_req_notify_cq(cq_, 0) != 0) return true;
    armed_ = true;
  }
  // What came before the notification was asked for makes no event.
  return !Refill();
}

void VerbsCompletionQueue::Disarm() {
  if (wake_) SetWake(false);
  if (!armed_) return;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  // One request for a notification makes at most one event.
  if (ibv_get_cq_event(channel_, &queue, &context) == 0) {
    armed_ = false;
    if (++unacknowledged_ >= kAcknowledgeEvery) {
      ibv_ack_cq_events(cq_, std::exchange(unacknowledged_, 0));
    }
  } else if (errno != EAGAIN && channel_watched_) {
    // The device is gone, and its descriptor readable for ever.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel_->fd, nullptr);
    channel_watched_ = false;
  }
}

void VerbsCompletionQueue::SetWake(bool wake) {
  if (wake == wake_) return;
  wake_ = wake;
  epoll_event event = {};
  event.events = EPOLLIN;
  epoll_ctl(epoll_.get(), wake ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
            AlwaysReadable(), &event);
}

}  // namespace skiff::transport
