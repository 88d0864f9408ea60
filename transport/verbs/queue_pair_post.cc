// A queue pair's data path.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/verbs/gather.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

constexpr uint64_t kMaxKey = std::numeric_limits<uint32_t>::max();

}  // namespace

PostResult VerbsQueuePair::MakeRoom() {
  if (state_ != State::kReady) {
    return state_ == State::kClosed ? PostResult::kClosed
                                    : PostResult::kWouldBlock;
  }
  if (sends_.full()) return PostResult::kWouldBlock;
  if (staged_count_ == staged_limit_) {
    Flush();
    if (state_ != State::kReady) return PostResult::kClosed;
  }
  FindRoom();
  return PostResult::kAccepted;
}

// Needs room. READs are signalled: see WorkRing.
inline ibv_send_wr* VerbsQueuePair::Stage(OperationId id, OperationKind kind,
                                          ibv_wr_opcode opcode) {
  static_assert(WorkSlot::kSignalled == IBV_SEND_SIGNALED);
  const bool is_read = kind == OperationKind::kRead;
  unsigned int signal = 0;
  if (is_read || --until_signal_ == 0) {
    signal = IBV_SEND_SIGNALED;
    until_signal_ = signal_every_;
  }
  ibv_send_wr* request = staged_.data() + staged_count_++;
  request->wr_id = reinterpret_cast<uintptr_t>(sends_.Push(
      id, kind,
      static_cast<uint8_t>(signal | (is_read ? WorkSlot::kNoteworthy : 0))));
  request->opcode = opcode;
  request->send_flags = signal;
  // The last user's key lies where providers look for immediate data, which a
  // READ never has.
  if (!is_read) request->invalidate_rkey = 0;
  return request;
}

// The device refuses this one in its turn: what was posted earlier still runs,
// and the connection breaks.
void VerbsQueuePair::SetInvalid(ibv_send_wr* request) {
  request->sg_list[0] = {0, 1, 0};
  request->opcode = IBV_WR_SEND;
  request->send_flags &= ~IBV_SEND_INLINE;
  request->num_sge = 1;
}

void VerbsQueuePair::SetPieces(ibv_send_wr* request,
                               absl::Span<const Sge> pieces, uint64_t max_bytes,
                               uint32_t max_sges, bool may_be_inline) {
  ibv_sge* const sges = request->sg_list;
  const GatherResult gathered = Gather(pieces, {sges, max_sges});
  if (!gathered.valid || gathered.bytes > max_bytes) {
    SetInvalid(request);
    return;
  }
  if (may_be_inline) staged_bytes_ += gathered.bytes;
  request->num_sge = static_cast<int>(gathered.count);
  if (gathered.count == 0 && domain_->facts().soft_iwarp) {
    // It would use what was there before: see SendNothing().
    sges[0] = {};
    request->num_sge = 1;
  }
  if (!may_be_inline || gathered.bytes == 0 || gathered.bytes > max_inline_) {
    return;
  }
  const size_t index = request - staged_.data();
  char* const copy = &staged_inline_[index * max_inline_];
  size_t offset = 0;
  for (const Sge& piece : pieces) {
    if (piece.length > 0) {
      std::memcpy(copy + offset, piece.data, piece.length);
    }
    offset += piece.length;
  }
  sges[0] = {reinterpret_cast<uintptr_t>(copy),
             static_cast<uint32_t>(gathered.bytes), 0};
  request->num_sge = 1;
  request->send_flags |= IBV_SEND_INLINE;
}

// One piece that the device fetches itself, and nothing wrong with it.
template <OperationKind kKind>
inline bool VerbsQueuePair::IsUsual(absl::Span<const Sge> pieces,
                                    RemoteKey key) const {
  if (pieces.size() != 1) return false;
  const Sge& piece = pieces[0];
  constexpr bool kRead = kKind == OperationKind::kRead;
  if (kRead ? !CanSink(piece) : piece.region == nullptr) return false;
  const uint64_t longer = piece.length - (kRead ? 1 : usual_least_);
  if (kKind == OperationKind::kSend) {
    return longer <= usual_send_ && key.value <= kMaxKey;
  }
  return longer <= (kRead ? usual_read_ : usual_write_) && key.value <= kMaxKey;
}

template <OperationKind kKind, ibv_wr_opcode kOpcode>
inline PostResult VerbsQueuePair::Post(OperationId id,
                                       absl::Span<const Sge> pieces,
                                       RemoteBuffer remote) {
  if (staged_count_ == staged_end_ || !IsUsual<kKind>(pieces, remote.key)) {
    return PostUnusual<kKind, kOpcode>(id, pieces, remote);
  }
  return StageUsual<kKind, kOpcode>(id, pieces[0], remote);
}

// Needs room.
template <OperationKind kKind, ibv_wr_opcode kOpcode>
inline PostResult VerbsQueuePair::StageUsual(OperationId id, const Sge& piece,
                                             const RemoteBuffer& remote) {
  if constexpr (kKind == OperationKind::kRead) {
    if (reads_ >= max_reads_) return PostResult::kWouldBlock;
    ++reads_;
  }
  ibv_send_wr* request = Stage(id, kKind, kOpcode);
  if constexpr (kKind == OperationKind::kSend) {
    request->invalidate_rkey = static_cast<uint32_t>(remote.key.value);
  } else {
    request->wr.rdma.remote_addr = remote.address;
    request->wr.rdma.rkey = static_cast<uint32_t>(remote.key.value);
  }
  ibv_sge* const sge = request->sg_list;
  sge->addr = reinterpret_cast<uintptr_t>(piece.data);
  sge->length = static_cast<uint32_t>(piece.length);
  request->num_sge = 1;
  sge->lkey = static_cast<const VerbsRegion*>(piece.region)->local_key();
  if (kKind != OperationKind::kRead) staged_bytes_ += piece.length;
  return PostResult::kAccepted;
}

template <OperationKind kKind, ibv_wr_opcode kOpcode>
ABSL_ATTRIBUTE_NOINLINE PostResult VerbsQueuePair::PostUnusual(
    OperationId id, absl::Span<const Sge> pieces, RemoteBuffer remote) {
  constexpr bool kRead = kKind == OperationKind::kRead;
  const PostResult room = MakeRoom();
  if (room != PostResult::kAccepted) return room;
  if (IsUsual<kKind>(pieces, remote.key)) {
    return StageUsual<kKind, kOpcode>(id, pieces[0], remote);
  }
  if (kRead) {
    if (reads_ >= max_reads_) return PostResult::kWouldBlock;
    ++reads_;
  }
  ibv_send_wr* request = Stage(id, kKind, kOpcode);
  const auto key = static_cast<uint32_t>(remote.key.value);
  if (kKind == OperationKind::kSend) {
    request->invalidate_rkey = key;
    SetPieces(request, pieces, max_message_bytes_, max_sges_, true);
  } else {
    request->wr.rdma.remote_addr = remote.address;
    request->wr.rdma.rkey = key;
    const uint32_t read_sges =
        std::min(max_sges_, domain_->capabilities().max_read_sges);
    SetPieces(request, pieces, max_transfer_bytes_,
              kRead ? read_sges : max_sges_, !kRead);
  }
  if (key != remote.key.value) SetInvalid(request);
  if (!kRead || !sink_needs_remote_write_) return room;
  for (const Sge& piece : pieces) {
    if (piece.length > 0 && !CanSink(piece)) SetInvalid(request);
  }
  return room;
}

PostResult VerbsQueuePair::PostSend(OperationId id,
                                    absl::Span<const Sge> from) {
  return Post<OperationKind::kSend, IBV_WR_SEND>(id, from, {});
}

PostResult VerbsQueuePair::PostSendWithInvalidate(OperationId id,
                                                  absl::Span<const Sge> from,
                                                  RemoteKey key) {
  if (!domain_->capabilities().send_with_invalidate) return PostResult::kClosed;
  return Post<OperationKind::kSend, IBV_WR_SEND_WITH_INV>(id, from, {0, key});
}

PostResult VerbsQueuePair::PostRead(OperationId id, absl::Span<const Sge> to,
                                    RemoteBuffer from) {
  return Post<OperationKind::kRead, IBV_WR_RDMA_READ>(id, to, from);
}

PostResult VerbsQueuePair::PostWrite(OperationId id, absl::Span<const Sge> from,
                                     RemoteBuffer to) {
  return Post<OperationKind::kWrite, IBV_WR_RDMA_WRITE>(id, from, to);
}

PostResult VerbsQueuePair::PostBind(OperationId id, VerbsWindow* window,
                                    const VerbsRegion* region, size_t offset,
                                    size_t length, Access access) {
  if (!domain_->capabilities().memory_windows) return PostResult::kClosed;
  if (window != nullptr && window->bind_staged()) Flush();
  const PostResult room = MakeRoom();
  if (room != PostResult::kAccepted) return room;
  ibv_send_wr* request = Stage(id, OperationKind::kBind, IBV_WR_BIND_MW);
  if (window == nullptr || region == nullptr) {
    SetInvalid(request);
    return room;
  }
  request->num_sge = 0;
  request->bind_mw.mw = window->mw();
  request->bind_mw.rkey = window->StageBind();
  request->bind_mw.bind_info.mr = region->mr();
  request->bind_mw.bind_info.addr = region->remote_base() + offset;
  request->bind_mw.bind_info.length = length;
  request->bind_mw.bind_info.mw_access_flags = ToVerbsAccess(access);
  const bool inside =
      offset <= region->size() && length <= region->size() - offset;
  const bool allowed = (static_cast<uint32_t>(access) &
                        ~static_cast<uint32_t>(region->access())) == 0;
  if (inside && allowed) {
    staged_binds_ = true;
  } else {
    SetInvalid(request);
  }
  return room;
}

PostResult VerbsQueuePair::PostInvalidate(OperationId id, RemoteKey key) {
  if (!domain_->capabilities().memory_windows) return PostResult::kClosed;
  const PostResult room = MakeRoom();
  if (room != PostResult::kAccepted) return room;
  ibv_send_wr* request =
      Stage(id, OperationKind::kInvalidate, IBV_WR_LOCAL_INV);
  request->num_sge = 0;
  request->invalidate_rkey = static_cast<uint32_t>(key.value);
  return room;
}

// The windows of the binds that were posted have their new keys.
void VerbsQueuePair::CommitBinds() {
  staged_binds_ = false;
  for (uint32_t i = 0; i < staged_count_; ++i) {
    if (staged_[i].opcode == IBV_WR_BIND_MW) {
      staged_[i].bind_mw.mw->rkey = staged_[i].bind_mw.rkey;
    }
  }
}

// Behind the last staged request that one call into the device takes, from
// `first` on. Soft-iWARP sends within the call what the socket has room for. It
// leaves the rest to a thread of its kernel's, for whose processor our polls
// then compete: two programs that poll had half the rate of messages of 64 KiB.
uint32_t VerbsQueuePair::EndOfLimitedCall(uint32_t first) const {
  uint64_t bytes = 0;
  uint32_t end = first;
  do {
    const ibv_send_wr& request = staged_[end++];
    if (request.opcode == IBV_WR_RDMA_READ) continue;
    for (int i = 0; i < request.num_sge; ++i) {
      bytes += request.sg_list[i].length;
    }
  } while (end < staged_count_ && bytes < call_bytes_);
  return end;
}

// One call into the device. Returns its error, and counts what it took.
inline int VerbsQueuePair::PostStaged(uint32_t first, uint32_t end,
                                      uint32_t* posted) {
  ibv_send_wr* const requests = staged_.data();
  ibv_send_wr& last = requests[end - 1];
  ibv_send_wr* const after_last = last.next;
  last.next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, requests + first, &bad);
  last.next = after_last;
  // Soft-iWARP names none when it took all and failed to start them.
  *posted = error == 0 || bad == nullptr
                ? end
                : static_cast<uint32_t>(bad - requests);
  return error;
}

void VerbsQueuePair::Flush() {
  if (staged_count_ == 0) return;
  ibv_send_wr& last = staged_[staged_count_ - 1];
  last.send_flags |= IBV_SEND_SIGNALED;
  reinterpret_cast<WorkSlot*>(last.wr_id)->flags |= WorkSlot::kSignalled;
  until_signal_ = signal_every_;
  uint32_t posted = 0;
  int error = 0;
  do {
    error = PostStaged(posted, EndOfCall(posted), &posted);
  } while (error == 0 && posted < staged_count_);
  if (staged_binds_) CommitBinds();
  const uint32_t count = DropStaged();
  FindRoom();
  if (error != 0) FailPost(error, count - posted);
}

// The device refused the newest `count`.
ABSL_ATTRIBUTE_NOINLINE void VerbsQueuePair::FailPost(int error,
                                                      uint32_t count) {
  sends_.FailNewest(count, CompletionStatus::kLocalError);
  Fail(CallError(absl::StrCat("cannot post to ", domain_->name()),
                 std::abs(error)));
}

PostResult VerbsQueuePair::PostReceive(OperationId id,
                                       absl::Span<const Sge> to) {
  if (state_ == State::kClosed || shared_receive_ != nullptr) {
    return PostResult::kClosed;
  }
  if (receives_.full()) return PostResult::kWouldBlock;
  ibv_recv_wr request;
  request.next = nullptr;
  request.sg_list = receive_sges_.data();
  request.num_sge = 1;
  bool valid = true;
  if (to.size() != 1 || !SetUsualPiece(to[0], request.sg_list)) {
    const GatherResult gathered =
        GatherReceive(to, absl::MakeSpan(receive_sges_));
    request.num_sge = static_cast<int>(gathered.count);
    valid = gathered.valid;
  }
  request.wr_id = reinterpret_cast<uintptr_t>(
      receives_.Push(id, OperationKind::kReceive, WorkSlot::kSignalled));
  ibv_recv_wr* bad = nullptr;
  const int error = valid ? ibv_post_recv(qp_, &request, &bad) : EINVAL;
  if (error != 0) {
    receives_.FailNewest(1, CompletionStatus::kLocalError);
    Fail(CallError(
        absl::StrCat("cannot post a RECEIVE of ", to.size(), " pieces to ",
                     domain_->name(), ", of ", max_sges_),
        std::abs(error)));
  }
  return PostResult::kAccepted;
}

}  // namespace skiff::transport
