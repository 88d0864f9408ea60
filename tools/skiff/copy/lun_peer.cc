#include "tools/skiff/copy/lun_peer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace skiff::tools {

LunPeer::LunPeer(std::string name, Lun* lun, uint64_t start, uint32_t slots,
                 transport::Reactor* home)
    : name_(std::move(name)),
      lun_(lun),
      start_(start),
      home_(home),
      operations_(slots) {
  for (Operation& operation : operations_) {
    operation.peer = this;
    operation.io.done = &LunPeer::OnDone;
    operation.io.context = &operation;
  }
}

void LunPeer::Submit(CopySlot* slot, scsi::DiskIo::Op op) {
  Operation* operation = &operations_[slot->index];
  operation->slot = slot;
  operation->iov = {slot->data, slot->size};
  scsi::DiskIo* io = &operation->io;
  io->op = op;
  io->may_unmap = true;  // Of zeroes only.
  io->offset = start_ + slot->offset;
  io->length = slot->size;
  io->iov = &operation->iov;
  io->iov_count = 1;
  lun_->session()->reactor()->Post([this, io] { lun_->disk()->Submit(io); });
}

void LunPeer::Read(CopySlot* slot) { Submit(slot, scsi::DiskIo::Op::kRead); }

void LunPeer::Write(CopySlot* slot) { Submit(slot, scsi::DiskIo::Op::kWrite); }

bool LunPeer::WriteZeroes(CopySlot* slot) {
  Submit(slot, scsi::DiskIo::Op::kWriteZeroes);
  return true;
}

void LunPeer::OnDone(scsi::DiskIo* io) {
  Operation* operation = static_cast<Operation*>(io->context);
  CopySlot* slot = operation->slot;
  if (!io->status.ok()) {
    slot->status =
        absl::Status(io->status.code(),
                     absl::StrCat(operation->peer->name_, ", offset ",
                                  io->offset, ": ", io->status.message()));
  }
  operation->peer->home_->Post([slot] { slot->done(slot); });
}

absl::Status LunPeer::Finish(uint64_t) { return lun_->Flush(); }

}  // namespace skiff::tools
