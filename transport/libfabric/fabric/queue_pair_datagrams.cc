// What a queue pair over reliable datagrams does besides.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {

ssize_t FabricQueuePair::IssueDatagram(OperationSlot* slot,
                                       const Pieces& pieces, uint64_t flags) {
  const bool send = slot->outcome.kind == OperationKind::kSend;
  fi_msg_tagged message = {};
  message.msg_iov = pieces.iovecs;
  message.desc = pieces.descriptors;
  message.iov_count = pieces.count;
  message.addr = send ? peer_ : FI_ADDR_UNSPEC;
  message.tag = send ? peer_tags_.receive_tag : tags_.receive_tag;
  message.context = &slot->context;
  return send ? fi_tsendmsg(endpoint_.get(), &message, flags)
              : fi_trecvmsg(endpoint_.get(), &message, FI_COMPLETION);
}

// The shm provider reads a long message out of the sender's memory until all
// of it is there, and goes round for ever where the RECEIVE is too short
// (smr_cma_loop()). So there is always room: the domain's sink, or, if all
// pieces are taken, a copy of the last one with as much behind it.
void FabricQueuePair::AddSink(OperationSlot* slot, Work* work) {
  const size_t longest = capabilities_.max_message_bytes;
  slot->room = static_cast<uint32_t>(std::min(work->length, longest));
  const uint32_t index = receives_.IndexOf(*slot);
  if (!last_pieces_.empty() && last_pieces_[index] != nullptr) {
    last_pieces_[index]->real = {};
  }
  if (work->count < domain_->max_iovecs()) {
    work->pieces[work->count] = {domain_->sink(), longest};
    work->descriptors[work->count++] = nullptr;
    return;
  }
  if (last_pieces_.empty()) last_pieces_.resize(receives_.indices());
  auto& last = last_pieces_[index];
  if (last == nullptr) last = std::make_unique<LastPiece>();
  iovec& piece = work->pieces[work->count - 1];
  last->memory.resize(longest);
  last->real = piece;
  last->before = work->length - piece.iov_len;
  piece = {last->memory.data(), longest};
}

void FabricQueuePair::TakeFromLastPiece(uint32_t index, size_t bytes) {
  if (last_pieces_[index] == nullptr) return;
  LastPiece& last = *last_pieces_[index];
  if (last.real.iov_base != nullptr && bytes > last.before) {
    std::memcpy(last.real.iov_base, last.memory.data(),
                std::min(bytes - last.before, last.real.iov_len));
  }
  last.real = {};
}

void FabricQueuePair::ReceivedTooMuch(OperationSlot* slot, size_t bytes) {
  slot->outcome.status = CompletionStatus::kTooLong;
  slot->outcome.provider_code = FI_ETRUNC;
  BreakSoon(absl::InternalError(absl::StrCat(
      domain_->name(), ": a message of ", bytes,
      " bytes does not fit the RECEIVE of ", slot->room, " bytes")));
}

ssize_t FabricQueuePair::PostProbe(Probe* probe, const Sge& memory, bool send) {
  probe->slot.queue_pair = this;
  const iovec piece = {memory.data, memory.length};
  const auto* region = static_cast<const FabricRegion*>(memory.region);
  void* descriptor = region != nullptr ? region->descriptor() : nullptr;
  fi_msg_tagged message = {};
  message.msg_iov = &piece;
  message.desc = descriptor != nullptr ? &descriptor : nullptr;
  message.iov_count = 1;
  message.addr = send ? peer_ : FI_ADDR_UNSPEC;
  message.tag = send ? peer_tags_.probe_tag : tags_.probe_tag;
  message.context = &probe->slot.context;
  const ssize_t result =
      send ? fi_tsendmsg(endpoint_.get(), &message, FI_COMPLETION)
           : fi_trecvmsg(endpoint_.get(), &message, FI_COMPLETION);
  probe->under_way = result == 0;
  return result;
}

bool FabricQueuePair::ProbeDone(const OperationSlot* slot, size_t bytes) {
  if (slot == &probe_out_.slot) {
    if (std::exchange(probe_out_.under_way, false)) link_->OnProbeSent();
    return true;
  }
  if (slot == &nothing_.slot) {
    NothingDone();
    return true;
  }
  if (slot != &probe_in_.slot) return false;
  if (std::exchange(probe_in_.under_way, false)) link_->OnProbe(bytes);
  return true;
}

void FabricQueuePair::RefusedByPeer() {
  SetBreakReason(absl::PermissionDeniedError(
      absl::StrCat(domain_->name(),
                   ": the peer refused a READ or WRITE: a wrong key, "
                   "bounds or permissions")));
  OperationSlot* slot = requests_.FirstIssued([](const OperationSlot& issued) {
    return issued.outcome.kind == OperationKind::kRead ||
           issued.outcome.kind == OperationKind::kWrite;
  });
  if (slot != nullptr) {
    NotProvidersAnyMore(slot->outcome.kind);
    Outcome(slot, CompletionStatus::kRemoteAccess, FI_EKEYREJECTED);
  }
  ScheduleService();
}

void FabricQueuePair::PeerVanished(const absl::Status& why) {
  if (closing_) {
    Close();
  } else if (!closed_) {
    if (!domain_->local_only()) queue_->Drain();
    End(why, /*tell_peer=*/false);
  }
}

void FabricQueuePair::Settle() {
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds && (i < kRounds / 4 || has_requests()); ++i) {
    queue_->Drain();
  }
}

// Each then fails with FI_ECANCELED. One that has its message already cannot be
// taken back, and completes.
void FabricQueuePair::TakeReceivesBack() {
  receives_.ForEachIssued([this](OperationSlot* slot) {
    fi_cancel(&endpoint_->fid, &slot->context);
  });
  queue_->Drain();
}

// Its completion waits for Service(), as that of all else that ends in a post.
bool FabricQueuePair::ReadHere(OperationSlot* slot, const Pieces& pieces,
                               const RemoteBuffer& from) {
  if (unserved_writes_) return false;
  if (has_due() || read_allowance_ == 0) {
    PutDue(slot, pieces, from);
    return true;
  }
  if (!ReadNow(slot, pieces, from)) return false;
  ScheduleService();
  return true;
}

bool FabricQueuePair::waits_for_peer() {
  return holding() || requests_.FirstIssued(
                          [](const OperationSlot&) { return true; }) != nullptr;
}

bool FabricQueuePair::ReadNow(OperationSlot* slot, const Pieces& pieces,
                              const RemoteBuffer& from) {
  if (!reader_->Read({pieces.iovecs, pieces.count}, pieces.length, from)) {
    return false;
  }
  read_allowance_ -= std::min<uint64_t>(read_allowance_, pieces.length);
  slot->state = OperationSlot::State::kDone;
  return true;
}

// A WRITE that is posted later may come before it, and then a READ that has to
// be behind that. RDMA promises no more without a fence.
void FabricQueuePair::PutDue(OperationSlot* slot, const Pieces& pieces,
                             const RemoteBuffer& from) {
  held_.resize(requests_.indices());
  due_.resize(requests_.indices());
  Work& kept = held_[requests_.IndexOf(*slot)];
  // One that was held is there already.
  if (pieces.iovecs != kept.pieces) {
    std::copy_n(pieces.iovecs, pieces.count, kept.pieces);
    kept.undescribed = pieces.descriptors == nullptr;
    if (!kept.undescribed) {
      std::copy_n(pieces.descriptors, pieces.count, kept.descriptors);
    }
    kept.count = pieces.count;
    kept.length = pieces.length;
    kept.remote = from;
    kept.is_inline = false;
  }
  slot->state = OperationSlot::State::kDue;
  if (!has_due()) queue_->ReadsDue(this);
  due_[due_put_++ & (due_.size() - 1)] = slot;
}

// What was posted behind them may be over before, and still completes in its
// order.
bool FabricQueuePair::DoDueReads() {
  const uint64_t before = due_taken_;
  read_allowance_ = ReadAllowance();
  due_refused_ = false;
  while (has_due() && read_allowance_ > 0 && break_reason_.ok()) {
    OperationSlot* const slot = due_[due_taken_ & (due_.size() - 1)];
    Work& work = held_[requests_.IndexOf(*slot)];
    const Pieces pieces = {work.pieces,
                           work.undescribed ? nullptr : work.descriptors,
                           work.count, work.length};
    if (!ReadNow(slot, pieces, work.remote)) {
      slot->state = OperationSlot::State::kIssued;
      const ssize_t result = IssueRead(slot, pieces, work.remote);
      if (result == -FI_EAGAIN) {  // The next look tries again.
        slot->state = OperationSlot::State::kDue;
        due_refused_ = true;
        break;
      }
      if (result != 0) {
        NotIssued(slot, result);
      } else {
        RingPeer();
      }
    }
    ++due_taken_;
  }
  Retire(&requests_);
  // What is posted from the next turn on is read at once again.
  if (!has_due()) ScheduleService();
  return due_taken_ != before;
}

void FabricQueuePair::DropDueReads() {
  due_taken_ = due_put_;
  queue_->NoReadsDue(this);
}

void FabricQueuePair::CountIssued(const OperationSlot& slot, size_t length) {
  ++issued_one_sided_;
  if (!watched_) WatchOneSided();
  if (slot.outcome.kind == OperationKind::kRead) {
    ++provider_reads_;
    serves_writes_ = &slot;
    return;
  }
  ++writes_;
  unserved_writes_ = true;
  // A short one completes when the peer has been sent it.
  serves_writes_ =
      length > domain_->capabilities().eager_message_bytes ? &slot : nullptr;
}

void FabricQueuePair::CountDone(const OperationSlot& slot) {
  if (slot.outcome.kind == OperationKind::kSend) {
    ++sent_;
  } else if (slot.outcome.kind == OperationKind::kWrite) {
    --writes_;
    if (&slot == serves_writes_ && writes_ == 0) unserved_writes_ = false;
  } else if (slot.outcome.kind == OperationKind::kRead) {
    --provider_reads_;
    if (&slot == serves_writes_) unserved_writes_ = false;
  }
}

void FabricQueuePair::WatchOneSided() {
  watched_ = true;
  if (domain_->forgets_refusals()) ServeLink();
}

}  // namespace skiff::transport
