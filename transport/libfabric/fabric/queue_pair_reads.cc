// READs in shared memory, which a queue pair does itself where it can.
#include <rdma/fi_errno.h>

#include "transport/libfabric/fabric/queue_pair.h"

namespace skiff::transport {

// Its completion waits for Service(), as that of all else that ends in a post.
// A WRITE that is posted later may come before one that is due, and then a READ
// that has to be behind that. RDMA promises no more without a fence.
bool FabricQueuePair::ReadHere(OperationSlot* slot, const FabricPieces& pieces,
                               const RemoteBuffer& from) {
  if (counts_.unserved_writes()) return false;
  if (!shm_reads_.has_due() && shm_reads_.has_allowance()) {
    if (!ReadNow(slot, pieces, from)) return false;
    ScheduleService();
    return true;
  }
  held_.KeepRead(requests_.IndexOf(*slot), pieces, from);
  slot->state = OperationSlot::State::kDue;
  if (!shm_reads_.has_due()) queue_->ReadsDue(this);
  shm_reads_.PutDue(slot);
  return true;
}

bool FabricQueuePair::ReadNow(OperationSlot* slot, const FabricPieces& pieces,
                              const RemoteBuffer& from) {
  if (!shm_reads_.Read(pieces, from)) return false;
  slot->state = OperationSlot::State::kDone;
  return true;
}

// What was posted behind them may be over before, and still completes in its
// order.
bool FabricQueuePair::DoDueReads() {
  const uint64_t before = shm_reads_.due_done();
  shm_reads_.RenewAllowance();
  shm_reads_.SetRefused(false);
  while (shm_reads_.has_due() && shm_reads_.has_allowance() &&
         life_.break_reason().ok()) {
    if (!DoDueRead(shm_reads_.OldestDue())) {  // The next look tries again.
      shm_reads_.SetRefused(true);
      break;
    }
    shm_reads_.DueDone();
  }
  Retire(&requests_);
  // What is posted from the next turn on is read at once again.
  if (!shm_reads_.has_due()) ScheduleService();
  return shm_reads_.due_done() != before;
}

bool FabricQueuePair::DoDueRead(OperationSlot* slot) {
  const FabricWork& work = held_.Of(requests_.IndexOf(*slot));
  const FabricPieces pieces = work.AsPieces();
  if (ReadNow(slot, pieces, work.remote)) return true;
  slot->state = OperationSlot::State::kIssued;
  const ssize_t result = IssueRead(slot, pieces, work.remote);
  if (result == -FI_EAGAIN) {
    slot->state = OperationSlot::State::kDue;
    return false;
  }
  if (result == 0) {
    RingPeer();
  } else {
    NotIssued(slot, result);
  }
  return true;
}

void FabricQueuePair::DropDueReads() {
  shm_reads_.DropDue();
  queue_->NoReadsDue(this);
}

}  // namespace skiff::transport
