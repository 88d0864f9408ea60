// How a queue pair ends.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {

void FabricQueuePair::Stop() {
  life_.Stop();
  FindUsual();
}

void FabricQueuePair::StopBecause(const absl::Status& why) {
  life_.StopBecause(why);
  FindUsual();
}

void FabricQueuePair::BreakSoon(const absl::Status& why) {
  if (life_.ended()) return;
  StopBecause(why);
  ScheduleService();
}

void FabricQueuePair::Break(const absl::Status& why, bool tell_peer) {
  if (life_.ended()) return;
  // What arrived before the end counts.
  queue_->Drain();
  End(why, tell_peer);
}

void FabricQueuePair::End(const absl::Status& why, bool tell_peer) {
  turn_.disconnect_due = life_.End(why);
  FindUsual();
  DropDueReads();
  if (endpoint_ == nullptr || link_->OnClosing(tell_peer)) {
    CloseEndpoint();
    return;
  }
  life_.Linger();
  queue_->Linger();
  ScheduleService();
}

void FabricQueuePair::PeerVanished(const absl::Status& why) {
  if (life_.closing()) {
    Close();
  } else if (!life_.ended()) {
    if (!domain_->local_only()) queue_->Drain();
    End(why, /*tell_peer=*/false);
  }
}

void FabricQueuePair::RefusedByPeer() {
  StopBecause(absl::PermissionDeniedError(
      absl::StrCat(domain_->name(),
                   ": the peer refused a READ or WRITE: a wrong key, "
                   "bounds or permissions")));
  OperationSlot* slot = requests_.FirstIssued([](const OperationSlot& issued) {
    return issued.outcome.kind == OperationKind::kRead ||
           issued.outcome.kind == OperationKind::kWrite;
  });
  if (slot != nullptr) {
    counts_.Failed(slot->outcome.kind);
    Outcome(slot, CompletionStatus::kRemoteAccess, FI_EKEYREJECTED);
  }
  ScheduleService();
}

void FabricQueuePair::Close() {
  life_.Closed();
  CloseEndpoint();
}

void FabricQueuePair::CloseEndpoint() {
  endpoint_.reset();
  queue_->Drain();
  FlushRing(&requests_);
  FlushRing(&receives_);
  ScheduleService();
}

void FabricQueuePair::FlushRing(OperationRing* ring) {
  for (OperationSlot* slot = ring->Oldest(); slot != nullptr;
       slot = ring->Oldest()) {
    if (slot->state != OperationSlot::State::kDone) {
      slot->state = OperationSlot::State::kDone;
      slot->outcome.status = CompletionStatus::kFlushed;
    }
    Retire(ring);
  }
}

void FabricQueuePair::Settle() {
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds && (i < kRounds / 4 || has_requests()); ++i) {
    queue_->Drain();
  }
}

void FabricQueuePair::Detach() {
  set_user(nullptr);
  on_disconnect_ = nullptr;
  Break(absl::CancelledError("the endpoint was destroyed"),
        /*tell_peer=*/true);
  // A peer that has not heard of it may go on to send and to write for a while,
  // and the memory for that may be freed now.
  if (life_.closing() && endpoint_ != nullptr) {
    if (domain_->writes_may_last()) {
      Settle();
      CloseEndpoint();
    } else {
      TakeReceivesBack();
    }
  }
  queue_->Detached(this);
}

// Each then fails with FI_ECANCELED. One that has its message already cannot be
// taken back, and completes.
void FabricQueuePair::TakeReceivesBack() {
  receives_.ForEachIssued([this](OperationSlot* slot) {
    fi_cancel(&endpoint_->fid, &slot->context);
  });
  queue_->Drain();
}

}  // namespace skiff::transport
