// What a queue pair's user posts.
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "transport/libfabric/fabric/fabric_error.h"
#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {
namespace {

bool Covers(const FabricRegion& region, const Sge& sge) {
  const auto begin = reinterpret_cast<uintptr_t>(sge.data);
  const auto base = reinterpret_cast<uintptr_t>(region.data());
  // What begins before the region begins far behind it, too.
  const uintptr_t offset = begin - base;
  return offset <= region.size() && sge.length <= region.size() - offset;
}

}  // namespace

// Inlined into each kind of post, where most of it is known beforehand.
inline bool FabricQueuePair::AddPieces(absl::Span<const Sge> sges,
                                       bool local_write, FabricWork* work) {
  for (const Sge& sge : sges) {
    if (sge.length == 0) continue;
    const auto* region = static_cast<const FabricRegion*>(sge.region);
    void* descriptor = nullptr;
    if (region != nullptr) {
      if (!IsOurs(*region) || !Covers(*region, sge)) return false;
      descriptor = region->descriptor();
    } else {
      work->is_inline = true;
      work->undescribed = true;
    }
    // The sink of a READ, where that takes remote write permission.
    if (local_write &&
        (region == nullptr || !Has(region->access(), Access::kRemoteWrite))) {
      return false;
    }
    work->length += sge.length;
    work->pieces[work->count] = {sge.data, sge.length};
    work->descriptors[work->count] = descriptor;
    ++work->count;
  }
  return true;
}

template <OperationKind kKind>
bool FabricQueuePair::Prepare(absl::Span<const Sge> sges, FabricWork* work) {
  constexpr bool kReceive = kKind == OperationKind::kReceive;
  constexpr bool kRead = kKind == OperationKind::kRead;
  constexpr bool kSend = kKind == OperationKind::kSend;
  const size_t limit = kReceive ? capabilities_.max_receive_sges
                       : kRead  ? capabilities_.max_read_sges
                                : capabilities_.max_send_sges;
  if (sges.size() > limit) return false;
  const bool sink = kRead && capabilities_.read_sink_needs_remote_write;
  if (!AddPieces(sges, sink, work)) return false;
  if (!kReceive && !kRead && work->count == 0) {
    // Of an empty list, the verbs provider uses the first entry.
    work->pieces[0] = {work->pieces, 0};
    work->undescribed = true;
    work->count = 1;
  }
  // Inline data is copied by the post, and so cannot be received.
  const bool fits = work->length <= capabilities_.max_inline_bytes;
  if (work->is_inline && (kReceive || kRead || !fits)) return false;
  if (kSend && fits) work->is_inline = true;
  return kReceive || work->length <= (kSend ? capabilities_.max_message_bytes
                                            : capabilities_.max_transfer_bytes);
}

// One piece of registered memory is what nearly every RECEIVE has: on connected
// endpoints, all of whose operations complete, it goes to the provider without
// a Work.
PostResult FabricQueuePair::PostReceive(OperationId id,
                                        absl::Span<const Sge> to) {
  constexpr auto kReceive = OperationKind::kReceive;
  if (life_.ended()) return PostResult::kClosed;
  if (receives_.full()) return PostResult::kWouldBlock;
  OperationSlot& slot = receives_.Take(id, kReceive);
  const FabricRegion* const region = to.size() == 1 && !uses_datagrams_
                                         ? UsualRegion<kReceive>(to[0])
                                         : nullptr;
  if (region == nullptr) return PostUnusualReceive(&slot, to);
  return ReceiveIssued(
      &slot, fi_recv(endpoint_.get(), to[0].data, to[0].length,
                     region->descriptor(), FI_ADDR_UNSPEC, &slot.context));
}

// Of any pieces, on any endpoint.
ABSL_ATTRIBUTE_NOINLINE PostResult FabricQueuePair::PostUnusualReceive(
    OperationSlot* slot, absl::Span<const Sge> to) {
  FabricWork work;
  if (!Prepare<OperationKind::kReceive>(to, &work)) {
    Outcome(slot, CompletionStatus::kLocalError, -FI_EINVAL);
    return PostResult::kAccepted;
  }
  if (domain_->needs_sink()) {
    slot->room = sinks_.Add(receives_.IndexOf(*slot), &work);
  }
  return ReceiveIssued(slot, IssueWork<OperationKind::kReceive>(slot, work));
}

inline PostResult FabricQueuePair::ReceiveIssued(OperationSlot* slot,
                                                 ssize_t result) {
  if (result == -FI_EAGAIN) {
    receives_.UntakeNewest();
    return PostResult::kWouldBlock;
  }
  if (result != 0) NotIssued(slot, result);
  queue_->ReceivePosted();
  return PostResult::kAccepted;
}

// One piece of registered memory is what nearly every operation has: it goes to
// the provider without a Work.
template <OperationKind kKind>
PostResult FabricQueuePair::PostRequest(OperationId id,
                                        absl::Span<const Sge> sges,
                                        RemoteBuffer remote) {
  constexpr bool kRead = kKind == OperationKind::kRead;
  if (!usual_ || requests_.full() || sges.size() != 1 ||
      (counts_.wanted() && counts_.Fenced(kKind))) {
    return PostUnusual<kKind>(id, sges, remote);
  }
  if (kRead && reads_ >= capabilities_.max_read_depth) {
    return PostResult::kWouldBlock;
  }
  const Sge& piece = sges[0];
  const FabricRegion* const region = UsualRegion<kKind>(piece);
  if (region == nullptr) return PostUnusual<kKind>(id, sges, remote);
  if (kRead) ++reads_;
  // After a failure, nothing is usual any more.
  OperationSlot& slot = requests_.TakeClean(id, kKind);
  const ssize_t result =
      IssueUsual<kKind>(&slot, piece, region->descriptor(), remote);
  if (result != 0) NewestNotTaken<kKind>(piece, result);
  if (after_post_ != 0) AfterPost();
  return PostResult::kAccepted;
}

// Any operation at any time.
template <OperationKind kKind>
ABSL_ATTRIBUTE_NOINLINE PostResult FabricQueuePair::PostUnusual(
    OperationId id, absl::Span<const Sge> sges, RemoteBuffer remote) {
  if (!life_.connected()) return PostResult::kClosed;
  if (requests_.full()) return PostResult::kWouldBlock;
  if (kKind == OperationKind::kRead) {
    if (reads_ >= capabilities_.max_read_depth) return PostResult::kWouldBlock;
    ++reads_;
  }
  const bool hold = requests_.holding() || counts_.Fenced(kKind);
  OperationSlot& slot = requests_.Take(id, kKind);
  PostWork<kKind>(&slot, sges, remote, hold);
  if (after_post_ != 0) AfterPost();
  return PostResult::kAccepted;
}

// A usual operation that the provider did not take.
template <OperationKind kKind>
ABSL_ATTRIBUTE_NOINLINE void FabricQueuePair::NewestNotTaken(const Sge& piece,
                                                             ssize_t result) {
  OperationSlot* const slot = requests_.Newest();
  if (result == -FI_EAGAIN) {
    PostWork<kKind>(slot, {&piece, 1}, one_sided_.remote(), /*hold=*/true);
  } else {
    NotIssued(slot, result);
  }
}

ABSL_ATTRIBUTE_NOINLINE void FabricQueuePair::AfterPost() {
  // Of what is over already, and of READs that are done here, the peer has
  // nothing to do.
  const OperationSlot::State newest = requests_.Newest()->state;
  if (newest != OperationSlot::State::kDone &&
      newest != OperationSlot::State::kDue) {
    RingPeer();
  }
  queue_->RequestPosted();
}

// Not for operations that are wrong.
template <OperationKind kKind>
inline const FabricRegion* FabricQueuePair::UsualRegion(const Sge& sge) const {
  const auto* region = static_cast<const FabricRegion*>(sge.region);
  const uint64_t longest = kKind == OperationKind::kReceive ? UINT64_MAX
                           : kKind == OperationKind::kSend
                               ? capabilities_.max_message_bytes
                               : capabilities_.max_transfer_bytes;
  // 0 less 1 is at least as long as any.
  if (region == nullptr || sge.length - 1 >= longest || !IsOurs(*region) ||
      !Covers(*region, sge) ||
      (kKind == OperationKind::kRead &&
       capabilities_.read_sink_needs_remote_write &&
       !Has(region->access(), Access::kRemoteWrite))) {
    return nullptr;
  }
  return region;
}

// Of any pieces; `hold`: not to be handed to the provider now.
template <OperationKind kKind>
void FabricQueuePair::PostWork(OperationSlot* slot, absl::Span<const Sge> sges,
                               const RemoteBuffer& remote, bool hold) {
  // Nothing is sent behind an error.
  if (life_.stopped()) return Outcome(slot, CompletionStatus::kFlushed, 0);
  FabricWork work;
  work.remote = remote;
  if (!Prepare<kKind>(sges, &work)) {
    return Outcome(slot, CompletionStatus::kLocalError, -FI_EINVAL);
  }
  if (kKind == OperationKind::kRead && work.length == 0 &&
      domain_->completes_before_reads()) {
    // Soft-iWARP would take the last list's first entry for an empty list's,
    // and the provider takes no piece without memory.
    slot->state = OperationSlot::State::kDone;
    ScheduleService();
    return;
  }
  if (!hold) {
    const ssize_t result = IssueWork<kKind>(slot, work);
    if (result == 0) return;
    if (result != -FI_EAGAIN) return NotIssued(slot, result);
  }
  Hold(slot, work);
}

template PostResult FabricQueuePair::PostRequest<OperationKind::kSend>(
    OperationId, absl::Span<const Sge>, RemoteBuffer);
template PostResult FabricQueuePair::PostRequest<OperationKind::kRead>(
    OperationId, absl::Span<const Sge>, RemoteBuffer);
template PostResult FabricQueuePair::PostRequest<OperationKind::kWrite>(
    OperationId, absl::Span<const Sge>, RemoteBuffer);

// One piece with a descriptor.
template <OperationKind kKind>
inline ssize_t FabricQueuePair::IssueUsual(OperationSlot* slot,
                                           const Sge& piece, void* descriptor,
                                           RemoteBuffer remote) {
  if constexpr (kKind == OperationKind::kSend) {
    if (piece.length <= long_sends_) {
      return IssueLong<kKind>(slot, piece);
    }
    // The short form: every operation of our endpoints completes.
    return fi_send(endpoint_.get(), piece.data, piece.length, descriptor,
                   FI_ADDR_UNSPEC, &slot->context);
  }
  const fi_msg_rma* const message =
      one_sided_.Fill(piece, descriptor, remote, &slot->context);
  if (counts_.wanted()) return IssueLong<kKind>(slot, piece);
  return kKind == OperationKind::kRead
             ? fi_readmsg(endpoint_.get(), message, FI_COMPLETION)
             : fi_writemsg(endpoint_.get(), message, write_flags_);
}

template <OperationKind kKind>
ABSL_ATTRIBUTE_NOINLINE ssize_t FabricQueuePair::IssueLong(OperationSlot* slot,
                                                           const Sge& piece) {
  void* descriptor =
      static_cast<const FabricRegion*>(piece.region)->descriptor();
  const iovec data = {piece.data, piece.length};
  const bool is_inline = kKind == OperationKind::kSend &&
                         piece.length <= capabilities_.max_inline_bytes;
  return Issue<kKind>(slot, {&data, &descriptor, 1, piece.length},
                      one_sided_.remote(), is_inline);
}

template <OperationKind kKind>
inline ssize_t FabricQueuePair::Issue(OperationSlot* slot,
                                      const FabricPieces& pieces,
                                      const RemoteBuffer& remote,
                                      bool is_inline) {
  constexpr bool kRead = kKind == OperationKind::kRead;
  const uint64_t inlined = is_inline ? FI_INJECT : 0;
  if constexpr (kKind == OperationKind::kSend ||
                kKind == OperationKind::kReceive) {
    return uses_datagrams_
               ? datagram_traffic_.Issue(endpoint_.get(), slot, pieces, inlined)
               : ConnectedTraffic::Issue<kKind>(endpoint_.get(), slot, pieces,
                                                inlined);
  }
  if (kRead && shm_reads_.available() && ReadHere(slot, pieces, remote))
    return 0;
  return IssueOneSided<kKind>(slot, pieces, remote, inlined);
}

// A READ or WRITE that the provider does.
template <OperationKind kKind>
inline ssize_t FabricQueuePair::IssueOneSided(OperationSlot* slot,
                                              const FabricPieces& pieces,
                                              const RemoteBuffer& remote,
                                              uint64_t flags) {
  const fi_rma_iov target = {remote.address, pieces.length, remote.key.value};
  const fi_msg_rma message = {pieces.iovecs,  pieces.descriptors,
                              pieces.count,   one_sided_.peer(),
                              &target,        1,
                              &slot->context, 0};
  const ssize_t result =
      kKind == OperationKind::kRead
          ? fi_readmsg(endpoint_.get(), &message, FI_COMPLETION)
          : fi_writemsg(endpoint_.get(), &message, write_flags_ | flags);
  if (counts_.wanted() && result == 0) CountIssued(*slot, pieces.length);
  return result;
}

ssize_t FabricQueuePair::IssueRead(OperationSlot* slot,
                                   const FabricPieces& pieces,
                                   const RemoteBuffer& from) {
  return IssueOneSided<OperationKind::kRead>(slot, pieces, from, 0);
}

template <OperationKind kKind>
ssize_t FabricQueuePair::IssueWork(OperationSlot* slot,
                                   const FabricWork& work) {
  return Issue<kKind>(slot, work.AsPieces(), work.remote, work.is_inline);
}

// One that was held.
ssize_t FabricQueuePair::IssueAgain(OperationSlot* slot) {
  const FabricWork& work = held_.Of(requests_.IndexOf(*slot));
  slot->state = OperationSlot::State::kIssued;
  switch (slot->outcome.kind) {
    case OperationKind::kSend:
      return IssueWork<OperationKind::kSend>(slot, work);
    case OperationKind::kRead:
      return IssueWork<OperationKind::kRead>(slot, work);
    default:
      return IssueWork<OperationKind::kWrite>(slot, work);
  }
}

void FabricQueuePair::Hold(OperationSlot* slot, const FabricWork& work) {
  held_.Keep(requests_.IndexOf(*slot), work);
  slot->state = OperationSlot::State::kHeld;
  if (!requests_.holding()) requests_.HoldNewest();
  FindUsual();
  queue_->HeldBack();
}

void FabricQueuePair::IssueHeld() {
  while (life_.connected() && life_.break_reason().ok()) {
    OperationSlot* slot = requests_.OldestHeld();
    if (slot == nullptr || counts_.Fenced(slot->outcome.kind)) return;
    // Those behind a held one that were wrong have their outcome already.
    if (slot->state == OperationSlot::State::kHeld) {
      const ssize_t result = IssueAgain(slot);
      if (result == -FI_EAGAIN) {
        slot->state = OperationSlot::State::kHeld;
        queue_->HeldBack();
        return;
      }
      requests_.ReleaseHeld();
      if (result != 0) NotIssued(slot, result);
    } else {
      requests_.ReleaseHeld();
    }
    FindUsual();
  }
}

// The first that nobody watches yet, if its provider forgets refusals, is
// watched from the end of the turn on.
ABSL_ATTRIBUTE_NOINLINE void FabricQueuePair::CountIssued(
    const OperationSlot& slot, size_t length) {
  counts_.Issued(slot, length);
  if (std::exchange(watched_, true)) return;
  if (domain_->forgets_refusals()) ServeLink();
}

void FabricQueuePair::NotIssued(OperationSlot* slot, ssize_t result) {
  const int error = static_cast<int>(-result);
  CompletionStatus status = CompletionStatus::kLocalError;
  if (error == FI_ENOTCONN || error == FI_EOPBADSTATE ||
      error == FI_ESHUTDOWN) {
    status = CompletionStatus::kFlushed;
  } else if (error != FI_EINVAL && error != FI_EFAULT && error != FI_EMSGSIZE) {
    status = CompletionStatus::kTransportError;
  }
  Outcome(slot, status, error);
  StopBecause(FabricStatus(
      error, absl::StrCat(domain_->name(), " refused an operation")));
}

}  // namespace skiff::transport
