#include "protocol/connection/rdma_pump.h"

#include <sys/epoll.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/system/spare_memory.h"

namespace skiff::protocol {

namespace {

// How often a turn looks again for what completed while it sent: devices in
// software have often done it at once, and a turn costs a system call.
constexpr int kMoreLooks = 2;
// What counts as a completion where a pass may take so many bytes before it
// looks at the clock: one who uses more than his part has eight at most.
constexpr size_t kBytesOfCompletion = transport::TurnShares::kLeastBytes;
// For how long it looks along with others after something was last asked for or
// completed: several times what a peer takes that is at work. Each look costs
// the turn up to a microsecond.
constexpr absl::Duration kLookAlong = absl::Microseconds(256);
// A look that finds nothing has copied if it took so long, where the device is
// software: a part of what completes later. Others take a microsecond.
constexpr absl::Duration kLongLook = transport::TurnShares::kShortPass;

}  // namespace

RdmaPump::RdmaPump(transport::Reactor* reactor, IserDatamover* datamover,
                   std::shared_ptr<RdmaLink> link,
                   const RdmaPumpOptions& options, PumpClient* client)
    : reactor_(reactor),
      datamover_(datamover),
      link_(std::move(link)),
      client_(client),
      options_(options),
      queue_(datamover->endpoint()->completion_queue()),
      last_receive_(reactor->Now()),
      last_send_progress_(last_receive_),
      idle_since_(last_receive_) {
  NoMemoryForPeer();
  if (reactor_->spinning()) {
    SetPolling(Polling::kBusy);
  } else {
    const absl::Status watched = reactor_->WatchFd(queue_->fd(), EPOLLIN, this);
    watching_ = watched.ok();
    // Out of descriptors, or the like: polls all the time instead.
    if (!watching_) SetPolling(Polling::kBusy);
  }
  // Last: where memory runs out above, nobody must know of this.
  link_->pump = this;
  datamover_->SetEndpointObserver(this);
  // What has completed before there was a pump.
  Kick();
}

RdmaPump::~RdmaPump() {
  if (gone_ != nullptr) *gone_ = true;
  reactor_->turn_shares().Leave(member_);
  link_->pump = nullptr;
  datamover_->SetEndpointObserver(nullptr);
  BeforeEndpointEnds();
}

// The queue is the endpoint's.
void RdmaPump::BeforeEndpointEnds() {
  SetPolling(Polling::kNo);
  if (watching_) reactor_->UnwatchFd(queue_->fd());
  watching_ = false;
  lingering_ = false;
  queue_ = nullptr;
}

void RdmaPump::Kick() {
  kicked_ = true;
  Schedule();
}

void RdmaPump::Schedule() {
  if (!closed_ && !in_pass_) reactor_->ScheduleTurnEnd(this);
}

void RdmaPump::CloseWhenSent() {
  if (closing_ != Closing::kNo) return;
  closing_ = Closing::kSending;
  datamover_->StopReceiving();
  Kick();
}

void RdmaPump::OnFdReady(uint32_t /*events*/) {
  queue_->Disarm();
  Schedule();
}

int RdmaPump::Poll() {
  if (closed_) return 0;
  if (lingering_) return Linger();
  if (polling_ == Polling::kAlong) return LookAlong();
  if (watching_ && !reactor_->spinning()) SetPolling(Polling::kNo);
  Schedule();
  return 1;
}

// A look that finds nothing is no work, which would keep the reactor spinning.
int RdmaPump::Linger() {
  BeginShare();
  if (!LookEarly()) {
    idle_since_ = std::min(idle_since_, reactor_->Now());
    // Of one who uses more than his part, looks too come after the others.
    if (!grant_.greedy) {
      if (MayLinger() || queue_->keeps_awake()) return 0;
      if (queue_->Arm()) {
        lingering_ = false;
        SetPolling(Polling::kNo);
        return 0;
      }
    }
  }
  Schedule();
  return 1;
}

// The descriptor tells of what this does not find.
int RdmaPump::LookAlong() {
  BeginShare();
  if (!MayLookAlong()) {
    SetPolling(Polling::kNo);
    return 0;
  }
  if (!LookEarly()) {
    idle_since_ = std::min(idle_since_, reactor_->Now());
    return 0;
  }
  queue_->Disarm();
  Schedule();
  return 1;
}

bool RdmaPump::LookEarly() {
  early_ = 0;
  if (grant_.greedy) return false;
  left_ = options_.completions_per_turn;
  in_pass_ = true;
  if (CompleteUnlessNoMemory() || TookLong()) EndShare();
  in_pass_ = false;
  early_ = options_.completions_per_turn - left_;
  return early_ > 0 || no_memory_;
}

// What arrives while it logs in is handled among the newcomers.
bool RdmaPump::MayLinger() const {
  if (newcomer_) return false;
  const absl::Duration spin = reactor_->spin();
  return spin > absl::ZeroDuration() && reactor_->Now() - idle_since_ < spin;
}

// One who uses more than his part comes when he is told.
bool RdmaPump::MayLookAlong() const {
  return !newcomer_ && !grant_.alone && !grant_.greedy &&
         reactor_->kept_awake() && reactor_->Now() - idle_since_ < kLookAlong;
}

void RdmaPump::BeginShare() {
  const absl::Time now = reactor_->Now();
  grant_ = reactor_->turn_shares().Begin(&member_, now);
  pass_began_ = grant_.alone ? now : reactor_->NowInTurn();
}

void RdmaPump::EndShare() {
  const absl::Duration took =
      grant_.alone ? absl::ZeroDuration() : reactor_->NowInTurn() - pass_began_;
  reactor_->turn_shares().End(&member_, reactor_->Now(), grant_, !more_, took);
  debt_.Add(grant_, took);
}

bool RdmaPump::OutOfTime() const {
  return reactor_->NowInTurn() - pass_began_ >= grant_.time;
}

bool RdmaPump::TookLong() const {
  return !grant_.alone && reactor_->NowInTurn() - pass_began_ >=
                              std::min(grant_.time, kLongLook);
}

void RdmaPump::OnTurnEnd() {
  if (closed_ || queue_ == nullptr) return;
  if (newcomer_) return reactor_->newcomers().Add(this);
  BeginShare();
  if (put_off_.Again(grant_, reactor_->Now())) return Schedule();
  // A single look may take longer than a pass, where the device is software.
  if (debt_.Pays(grant_)) {
    // Nor may the queue copy for him, in nobody's account, as it does for those
    // who do not look.
    queue_->Poll({});
    return SetPolling(Polling::kBusy);
  }
  if (!RunPasses()) return;
  if (worked_ || TookLong()) EndShare();
  if (no_memory_ && !closed_) ReportClosed(NoMemoryForPeer());
}

bool RdmaPump::RunAsNewcomer() {
  if (closed_ || queue_ == nullptr) return false;
  grant_ = reactor_->newcomers().grant();
  pass_began_ = reactor_->NowInTurn();
  if (!RunPasses()) return true;
  if (!no_memory_ || closed_) return worked_;
  ReportClosed(NoMemoryForPeer());
  return true;
}

bool RdmaPump::RunPasses() {
  left_ = options_.completions_per_turn - early_;
  lingering_ = false;
  worked_ = std::exchange(kicked_, false);
  if (worked_) idle_since_ = absl::InfiniteFuture();
  bool gone = false;
  gone_ = &gone;
  RunPassesUnlessNoMemory(gone);
  if (gone) return false;
  gone_ = nullptr;
  return true;
}

// Without memory the connection ends, and nothing else does.
void RdmaPump::RunPassesUnlessNoMemory(const bool& gone) {
  const transport::SpareMemory::Watch memory;
  bool thrown = false;
  try {
    if (!no_memory_) RunPassesUntil(gone);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  if (gone) return;
  in_pass_ = false;
  no_memory_ = no_memory_ || thrown || memory.ran_out();
}

bool RdmaPump::CompleteUnlessNoMemory() {
  const transport::SpareMemory::Watch memory;
  bool completed = true;
  try {
    completed = Complete();
  } catch (const std::bad_alloc&) {
    no_memory_ = true;
  }
  no_memory_ = no_memory_ || memory.ran_out();
  return completed;
}

// `gone`: the pump was destroyed.
void RdmaPump::RunPassesUntil(const bool& gone) {
  for (int looks = 0; Pass(gone); ++looks) {
    // `later_`: others have their turn first.
    if (later_ || looks == kMoreLooks) return SetPolling(Polling::kBusy);
  }
}

bool RdmaPump::Pass(const bool& gone) {
  in_pass_ = true;
  const bool was_congested = datamover_->congested();
  const bool early = std::exchange(early_, 0) > 0;
  // Always, as what completed before the connection ended comes before its end.
  const bool completed = Complete() || early;
  in_pass_ = false;
  if (completed) {
    client_->OnProgress();
    if (gone) return false;
  }
  if (queue_ == nullptr) return false;
  in_pass_ = true;
  Send();
  const bool drained = was_congested && !datamover_->congested();
  in_pass_ = false;
  if (drained) {
    client_->OnProgress();
    if (gone) return false;
  }
  if (queue_ == nullptr) return false;
  if (link_->ended && !more_) {
    ReportEnded();
    return false;
  }
  // To arm the queue may be a look, too. Of one who does nothing, a slow look
  // is no reason to stay awake for.
  later_ = more_ || ((completed || worked_) && OutOfShare());
  if (!watching_ || later_) return watching_;
  if (MayLinger() || queue_->keeps_awake()) {
    lingering_ = true;
    SetPolling(Polling::kBusy);
    return false;
  }
  if (!queue_->Arm()) return more_ = true;
  SetPolling(Polling::kNo);
  if (MayLookAlong()) SetPolling(Polling::kAlong);
  return false;
}

bool RdmaPump::Complete() {
  const uint64_t received = datamover_->counters().pdus_in;
  int handled = 0;
  more_ = true;
  const absl::Span<transport::Completion> look =
      absl::MakeSpan(completions_)
          .first(
              std::min(completions_.size(), grant_.bytes / kBytesOfCompletion));
  while (left_ > 0) {
    const int count = queue_->Poll(look);
    for (int i = 0; i < count; ++i) datamover_->OnCompletion(completions_[i]);
    handled += count;
    left_ -= count;
    if (count < static_cast<int>(look.size())) {
      more_ = false;
      break;
    }
    if (OutOfTime()) left_ = 0;
  }
  if (handled > 0) {
    last_send_progress_ = reactor_->Now();
    idle_since_ = absl::InfiniteFuture();
    worked_ = true;
  }
  // What the peer's device acknowledges by itself is no sign of life.
  if (datamover_->counters().pdus_in != received) {
    last_receive_ = reactor_->Now();
  }
  return handled > 0;
}

void RdmaPump::Send() {
  // Whoever has been idle makes progress now.
  if (idle_) last_send_progress_ = reactor_->Now();
  datamover_->Flush();
  idle_ = !datamover_->has_output() && !datamover_->in_flight();
  if (closing_ != Closing::kSending || !idle_) return;
  closing_ = Closing::kDisconnecting;
  datamover_->endpoint()->Disconnect();
}

void RdmaPump::SetPolling(Polling polling) {
  if (polling == polling_) return;
  if (polling_ != Polling::kNo) reactor_->RemovePoller(this);
  if (polling != Polling::kNo) {
    // Spinning reactors do not sleep anyway.
    reactor_->AddPoller(
        this, /*busy=*/polling == Polling::kBusy && !reactor_->spinning());
  }
  polling_ = polling;
}

void RdmaPump::ReportEnded() {
  absl::Status why;
  if (closing_ != Closing::kDisconnecting) {
    const transport::RdmaEndpoint& endpoint = *datamover_->endpoint();
    why = endpoint.error();
    if (why.ok()) {
      why = absl::UnavailableError(
          absl::StrCat(endpoint.peer_address(), " ended the connection"));
    }
  }
  ReportClosed(std::move(why));
}

void RdmaPump::ReportClosed(absl::Status why) {
  closed_ = true;
  BeforeEndpointEnds();
  client_->OnClosed(std::move(why));
}

uint64_t RdmaPump::bytes_received() const {
  return datamover_->counters().bytes_in;
}

uint64_t RdmaPump::bytes_sent() const {
  return datamover_->counters().bytes_out;
}

}  // namespace skiff::protocol
