#include "transport/libfabric/fabric/fabric_completion_queue.h"

#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {
namespace {

// Tries to get the provider to sleep before leaving it to the timer.
constexpr int kSettleRounds = 4;
// A user who was told that there is something, or looked himself, has so long
// to look (again) until the queue reads on for what peers wait for. The
// provider's descriptor stays readable meanwhile, so that the reactor does not
// sleep.
constexpr absl::Duration kAttention = absl::Milliseconds(1);

}  // namespace

absl::StatusOr<std::shared_ptr<FabricCompletionQueue>>
FabricCompletionQueue::Create(std::shared_ptr<FabricDomain> domain,
                              Reactor* reactor, uint32_t entries) {
  if (entries == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        domain->name(), ": a completion queue needs at least one entry"));
  }
  const uint32_t limit = domain->settings().max_completion_queue_entries;
  if (entries > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(domain->name(), ": a completion queue of ", entries,
                     " entries exceeds the limit of ", limit));
  }
  std::shared_ptr<FabricCompletionQueue> out(
      new FabricCompletionQueue(std::move(domain), reactor, entries));
  absl::Status status = out->Open();
  if (!status.ok()) return status;
  return out;
}

FabricCompletionQueue::FabricCompletionQueue(
    std::shared_ptr<FabricDomain> domain, Reactor* reactor, uint32_t entries)
    : FabricCompletionHost(std::move(domain), reactor, this, entries),
      settings_(this->domain()->settings()),
      spins_(reactor->spinning()),
      entries_(entries),
      timer_(reactor, [this] { OnTimer(); }),
      burial_(reactor, [this] { quarantine_.clear(); }) {}

absl::Status FabricCompletionQueue::Open() {
  if (!ready().Open()) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat(domain()->name(),
                            ": cannot create an eventfd; "
                            "raise the limit on open files (ulimit -n)"));
  }
  fi_cq_attr attributes = {};
  attributes.size = entries_;
  attributes.format = FI_CQ_FORMAT_MSG;
  // ofi_rxm never takes an endpoint out of its completion queue's wait object
  // (rxm_ep_wait_fd_add()), shm has none. And a reactor that never sleeps does
  // not need one, which the tcp provider signals at each completion.
  attributes.wait_obj =
      domain()->datagrams() || spins_ ? FI_WAIT_NONE : FI_WAIT_FD;
  fid_cq* queue = nullptr;
  int result = fi_cq_open(domain()->domain(), &attributes, &queue, this);
  const bool sleeps = result == 0 && attributes.wait_obj == FI_WAIT_FD;
  if (result == -FI_ENOSYS || result == -FI_EINVAL) {
    attributes.wait_obj = FI_WAIT_NONE;
    result = fi_cq_open(domain()->domain(), &attributes, &queue, this);
  }
  if (result != 0) {
    return FabricStatus(
        result, absl::StrCat(domain()->name(), ": a completion queue of ",
                             entries_, " entries"));
  }
  queue_.reset(queue);
  looks_ = !sleeps && !spins_;
  if (!sleeps) return absl::OkStatus();
  result = fi_control(&queue->fid, FI_GETWAIT, &provider_fd_);
  if (result != 0) {
    provider_fd_ = -1;
    return FabricStatus(result, absl::StrCat(domain()->name(), ": FI_GETWAIT"));
  }
  absl::Status status = reactor()->WatchFd(provider_fd_, EPOLLIN, this);
  if (!status.ok()) return status;
  watched_ = true;
  Settle();
  return absl::OkStatus();
}

FabricCompletionQueue::~FabricCompletionQueue() {
  if (watched_) reactor()->UnwatchFd(provider_fd_);
  if (work().polling) reactor()->RemovePoller(this);
  BuryEndpoints();
  // Endpoints close before the queue that they are bound to.
  queue_pairs_.clear();
  quarantine_.clear();
  queue_.reset();
}

// The reactor has ended while connections closed. In shared memory, a peer in
// this process may still work in an endpoint of ours.
void FabricCompletionQueue::BuryEndpoints() {
  if (!domain()->local_only()) return;
  struct Remains {
    std::shared_ptr<FabricDomain> domain;
    Fid<fid_cq> queue;
    std::vector<DatagramObjects> endpoints;
  };
  std::vector<std::unique_ptr<ShmPresence>> presences;
  auto remains = std::make_shared<Remains>();
  for (const auto& queue_pair : queue_pairs_) {
    if (!queue_pair->closing()) continue;
    remains->endpoints.push_back(queue_pair->TakeObjects());
    presences.push_back(std::move(remains->endpoints.back().presence));
  }
  if (presences.empty()) return;
  remains->domain = domain();
  remains->queue = std::move(queue_);
  BuryShm(std::move(presences), std::move(remains));
}

absl::Status FabricCompletionQueue::Reserve(uint32_t entries) {
  const size_t left = entries_ - reserved_;
  if (entries > left) {
    return absl::ResourceExhaustedError(absl::StrCat(
        domain()->name(), ": the completion queue has ", entries_,
        " entries, of which ", left, " are left; the endpoint needs ", entries,
        " - create it with more entries, or shorten the endpoint's queues"));
  }
  reserved_ += entries;
  return absl::OkStatus();
}

FabricQueuePair* FabricCompletionQueue::Adopt(
    std::unique_ptr<FabricQueuePair> queue_pair) {
  queue_pairs_.push_back(std::move(queue_pair));
  UpdatePoller();
  return queue_pairs_.back().get();
}

size_t FabricCompletionQueue::TakeReady(absl::Span<Completion> out) {
  size_t count = 0;
  while (count < out.size() && !ready().empty()) {
    const OperationSlot& slot = *ready().Take();
    FabricQueuePair* const queue_pair = slot.queue_pair;
    Report(slot, &out[count++]);
    if (queue_pair->user() == nullptr) Detached(queue_pair);
  }
  return count;
}

void FabricCompletionQueue::Report(const OperationSlot& slot, Completion* out) {
  *out = slot.outcome;
  slot.queue_pair->Polled(slot.outcome.kind);
}

ABSL_ATTRIBUTE_NOINLINE void FabricCompletionQueue::TakeRead(size_t count) {
  seen_ += count;
  for (const fi_cq_msg_entry *entry = read_.data(), *end = entry + count;
       entry != end; ++entry) {
    auto* slot = reinterpret_cast<OperationSlot*>(entry->op_context);
    if (slot == nullptr) continue;
    FabricQueuePair* const queue_pair = slot->queue_pair;
    if (ready().has_direct() && queue_pair->RetireUsual(slot)) {
      ready().Report(slot->outcome);
      queue_pair->RequestPolled(slot->outcome.kind);
      queue_pair->RetireDone();
    } else {
      queue_pair->Completed(slot, entry->len);
    }
  }
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool FabricCompletionQueue::ReadSome() {
  // Closing an endpoint from within reads the queue, too.
  if (draining_) return false;
  draining_ = true;
  const ssize_t count = fi_cq_read(queue_.get(), read_.data(), read_.size());
  bool found = count > 0;
  if (found) {
    TakeRead(static_cast<size_t>(count));
  } else if (count != -FI_EAGAIN) {
    found = ReadFailed(count);
  }
  draining_ = false;
  return found;
}

void FabricCompletionQueue::Drain() {
  while (ReadSome()) {
  }
}

int FabricCompletionQueue::Poll(absl::Span<Completion> out) {
  // Also by whom the ring has enough for, or who takes nothing now.
  polled_ = true;
  size_t count = 0;
  if (!ready().empty()) count = TakeReady(out);
  if (count == out.size()) return static_cast<int>(count);
  // Whoever polls comes again: what there is now is worth more to him than to
  // know that there is no more, which a provider may need a system call for.
  ready().OpenDirect(out.subspan(count));
  if (looks_) {
    Look(reactor()->Now());
  } else {
    ReadSome();
  }
  count = static_cast<size_t>(ready().CloseDirect() - out.data());
  if (!work().with_reads_due.empty()) DoDueReads();
  if (!work().service.empty()) Serve();
  if (!ready().empty()) count += TakeReady(out.subspan(count));
  return static_cast<int>(count);
}

bool FabricCompletionQueue::Arm() {
  if (ready().empty()) {
    if (waits()) {
      Settle(/*for_user=*/true);
    } else {
      looked_in_vain_ = absl::InfinitePast();
      Look(reactor()->Now());
      DoDueReads();
      Serve();
    }
  }
  return ready().Arm();
}

void FabricCompletionQueue::Disarm() { ready().Disarm(); }

bool FabricCompletionQueue::ReadFailed(ssize_t result) {
  if (result == -FI_EAVAIL) {
    DrainError();
    return true;
  }
  if (result < 0 && result != -FI_EAGAIN) {
    const absl::Status why = FabricStatus(
        result,
        absl::StrCat(domain()->name(), ": the completion queue failed"));
    for (const auto& queue_pair : queue_pairs_) queue_pair->BreakSoon(why);
  }
  return false;
}

void FabricCompletionQueue::DrainError() {
  fi_cq_err_entry error = {};
  uint8_t data[64] = {};
  error.err_data = data;
  error.err_data_size = sizeof(data);
  if (fi_cq_readerr(queue_.get(), &error, 0) < 0) return;
  ++seen_;
  auto* slot = reinterpret_cast<OperationSlot*>(error.op_context);
  if (slot == nullptr) return;
  char text[128] = {};
  // ofi_rxm looks for an endpoint of the queue, also where there is none left
  // (rxm_cq_strerror()).
  const char* provider_text =
      domain()->datagrams()
          ? fi_strerror(std::abs(error.err))
          : fi_cq_strerror(queue_.get(), error.prov_errno, error.err_data, text,
                           sizeof(text) - 1);
  // The shm provider reports some negated.
  slot->queue_pair->Failed(slot, std::abs(error.err), error.prov_errno,
                           provider_text != nullptr ? provider_text : text);
}

// Without wait objects. What has come until now is for the user to see: while
// he works on that, the peer goes on. Waiting for an end of what comes makes
// each side wait for the other.
ABSL_ATTRIBUTE_NOINLINE void FabricCompletionQueue::Look(absl::Time now) {
  if (now - looked_in_vain_ < settings_.look_interval) return;
  const uint64_t before = seen_;
  ReadSome();
  if (seen_ == before) {
    looked_in_vain_ = now;
    return;
  }
  work().active = now;
  // More may follow, and somebody has to see it.
  if (!work().polling) ScheduleTurnEnd();
}

void FabricCompletionQueue::DrainAndServe() {
  Drain();
  DoDueReads();
  Serve();
}

// Also for a user who does not poll now: he is told.
void FabricCompletionQueue::DoDueReads() {
  for (FabricQueuePair* queue_pair : work().with_reads_due) {
    if (queue_pair->DoDueReads()) work().active = reactor()->Now();
  }
  std::erase_if(work().with_reads_due,
                [](const auto* pair) { return !pair->has_due(); });
}

// What needs doing now that no post is on the stack. Callbacks wait for
// OnTurnEnd().
void FabricCompletionQueue::Serve() {
  const std::vector<FabricQueuePair*>& service = work().service;
  for (size_t i = 0; i < service.size(); ++i) service[i]->Service();
}

void FabricCompletionQueue::OnTurnEnd() {
  // Callbacks may destroy endpoints, and with the last of them the queue.
  const auto self = shared_from_this();
  Serve();
  auto served = std::exchange(work().service, {});
  for (FabricQueuePair* queue_pair : served) queue_pair->FinishService();
  if (work().unsettled) {
    Unmute();
    Settle();
  }
  UpdatePoller();
  EndLingering();
}

// Keeps a queue while it closes the connections of users who have let go. If
// the reactor ends first, the queue does, too.
class FabricCompletionQueue::Lingering final : public ReactorObject {
 public:
  explicit Lingering(std::shared_ptr<FabricCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  ~Lingering() override { queue_->lingering_ = nullptr; }

 private:
  const std::shared_ptr<FabricCompletionQueue> queue_;
};

void FabricCompletionQueue::Linger() {
  if (lingering_ != nullptr) return;
  auto lingering = std::make_unique<Lingering>(shared_from_this());
  lingering_ = lingering.get();
  reactor()->Own(std::move(lingering));
}

// The caller holds the queue.
void FabricCompletionQueue::EndLingering() {
  if (lingering_ != nullptr &&
      std::none_of(queue_pairs_.begin(), queue_pairs_.end(),
                   [](const auto& pair) { return pair->closing(); })) {
    reactor()->Disown(lingering_);
  }
}

void FabricCompletionQueue::Detached(FabricQueuePair* queue_pair) {
  if (queue_pair->unpolled() || queue_pair->in_service() ||
      queue_pair->closing()) {
    return;
  }
  const auto found = std::find_if(
      queue_pairs_.begin(), queue_pairs_.end(),
      [&](const auto& candidate) { return candidate.get() == queue_pair; });
  if (found == queue_pairs_.end()) return;
  Unreserve(queue_pair->entries());
  quarantine_.push_back(std::move(*found));
  queue_pairs_.erase(found);
  if (!burial_.scheduled()) burial_.ScheduleAfter(settings_.quarantine);
}

void FabricCompletionQueue::OnFdReady(uint32_t /*events*/) {
  const absl::Time now = reactor()->Now();
  if (std::exchange(polled_, false)) attended_ = now;
  const bool armed = ready().armed();
  if (!armed && now - attended_ < kAttention) return;
  if (armed) attended_ = now;
  const uint64_t before = seen_;
  Settle(/*for_user=*/armed);
  fruitless_ = seen_ == before ? fruitless_ + 1 : 0;
  if (fruitless_ < settings_.max_fruitless_wakeups || !StarvedOfReceives())
    return;
  muted_ = true;
  // Cannot fail for a descriptor that is watched.
  reactor()->ModifyFd(provider_fd_, 0).IgnoreError();
  Backoff();
}

bool FabricCompletionQueue::StarvedOfReceives() const {
  return std::any_of(queue_pairs_.begin(), queue_pairs_.end(),
                     [](const auto& pair) { return pair->without_receives(); });
}

void FabricCompletionQueue::OnTimer() {
  if (std::exchange(held_back_, false)) {
    for (const auto& queue_pair : queue_pairs_) {
      if (queue_pair->holding()) queue_pair->ScheduleService();
    }
  }
  Unmute();
  Settle();
}

void FabricCompletionQueue::HeldBack() {
  held_back_ = true;
  if (!timer_.scheduled()) timer_.ScheduleAfter(settings_.retry_interval);
}

void FabricCompletionQueue::Unmute() {
  fruitless_ = 0;
  if (std::exchange(muted_, false)) {
    reactor()->ModifyFd(provider_fd_, EPOLLIN).IgnoreError();
  }
}

void FabricCompletionQueue::Backoff() {
  work().unsettled = true;
  if (!timer_.scheduled()) timer_.ScheduleAfter(settings_.retry_interval);
}

void FabricCompletionQueue::Settle(bool for_user) {
  if (!waits()) {
    const uint64_t before = seen_;
    DrainAndServe();
    if (seen_ != before) work().active = reactor()->Now();
    UpdatePoller();
    return;
  }
  fid* fids[] = {&queue_->fid};
  for (int i = 0; i < kSettleRounds; ++i) {
    while ((!for_user || ready().empty()) && ReadSome()) {
    }
    DoDueReads();
    Serve();
    if (for_user && !ready().empty()) return;
    if (fi_trywait(domain()->fabric(), fids, 1) == 0) {
      work().unsettled = muted_;
      return;
    }
  }
  Backoff();
}

int FabricCompletionQueue::Poll() {
  // The user looks himself.
  if (std::exchange(polled_, false) && !ready().armed()) return 0;
  const uint64_t before = seen_;
  Look(reactor()->Now());
  DoDueReads();
  Serve();
  if (!WorthPolling()) {
    work().polling = false;
    reactor()->RemovePoller(this);
    UpdatePoller();
  }
  return static_cast<int>(seen_ - before);
}

void FabricCompletionQueue::Wake() {
  if (waits()) return;
  work().active = reactor()->Now();
  UpdatePoller();
}

bool FabricCompletionQueue::Restless() const {
  return std::any_of(queue_pairs_.begin(), queue_pairs_.end(),
                     [](const auto& pair) { return pair->restless(); });
}

bool FabricCompletionQueue::WorthPolling() const {
  if (spins_) return !queue_pairs_.empty();
  const std::vector<FabricQueuePair*>& due = work().with_reads_due;
  if (std::any_of(due.begin(), due.end(),
                  [](const auto* pair) { return !pair->due_refused(); })) {
    return true;
  }
  const absl::Duration idle = reactor()->Now() - work().active;
  return idle < settings_.spin || (idle < settings_.patience && Restless());
}

// Without wait objects: every turn, and after a while without success every
// retry_interval, for as long as something is under way.
void FabricCompletionQueue::UpdatePoller() {
  if (waits() || work().polling || queue_pairs_.empty()) return;
  if (WorthPolling()) {
    work().polling = true;
    // Spinning reactors do not sleep anyway.
    reactor()->AddPoller(this, /*busy=*/!spins_);
  } else if (!Restless()) {
    // Nobody looks from here on.
    for (const auto& queue_pair : queue_pairs_) queue_pair->Sleep();
  } else if (!timer_.scheduled()) {
    timer_.ScheduleAfter(settings_.retry_interval);
  }
}

}  // namespace skiff::transport
