#include "tools/library/callback_backend.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/library/compare_and_write.h"

namespace skiff::library {
namespace {

using Op = scsi::IoRequest::Op;
using scsi::IoStatus;

uint32_t OpOf(Op op) {
  switch (op) {
    case Op::kRead:
      return SKIFF_REQUEST_READ;
    case Op::kWrite:
      return SKIFF_REQUEST_WRITE;
    case Op::kFlush:
      return SKIFF_REQUEST_FLUSH;
    case Op::kUnmap:
      return SKIFF_REQUEST_UNMAP;
    case Op::kWriteZeroes:
      return SKIFF_REQUEST_WRITE_ZEROES;
    case Op::kCompareAndWrite:
      return SKIFF_REQUEST_COMPARE_AND_WRITE;
  }
  return 0;
}

IoStatus StatusOf(const RequestSlot& slot) {
  switch (-slot.error) {
    case 0:
      return IoStatus::kOk;
    case ENOSPC:
      return IoStatus::kNoSpace;
    case EILSEQ:
      if (slot.io->op == Op::kCompareAndWrite) return IoStatus::kMiscompare;
      break;
    case EOPNOTSUPP:
      return IoStatus::kNotSupported;
    case ENODEV:
      return IoStatus::kGone;
    case ENOMEM:
      return IoStatus::kNoMemory;
    case ECANCELED:
      // A command that nobody wants to end cannot end so.
      if (slot.cancel_asked) return IoStatus::kCancelled;
      break;
    default:
      break;
  }
  return slot.io->op == Op::kRead ? IoStatus::kReadError
                                  : IoStatus::kWriteError;
}

void FillIn(const RequestSlot& slot) {
  scsi::IoRequest* const io = slot.io;
  io->status = StatusOf(slot);
  if (io->status == IoStatus::kOk) return;
  io->system_error = -slot.error;
  io->error_offset = slot.error_offset;
  // An offset that is none of the request's would be told to the initiator.
  if (slot.error_offset < io->offset ||
      slot.error_offset - io->offset >= io->length) {
    io->error_offset = io->offset;
  }
}

}  // namespace

// One reactor's way to the callbacks.
class CallbackChannel : public scsi::BackendChannel,
                        public CompletionQueue::Finisher {
 public:
  CallbackChannel(CallbackBackend* backend, transport::Reactor* reactor)
      : backend_(backend),
        thread_(backend->ThreadOf(reactor)),
        queue_(std::make_shared<CompletionQueue>(reactor, this)) {}
  CallbackChannel(const CallbackChannel&) = delete;
  CallbackChannel& operator=(const CallbackChannel&) = delete;
  ~CallbackChannel() override { backend_->requests_.GiveBack(free_); }

  bool Submit(scsi::IoRequest* io) override;
  bool Cancel(scsi::IoRequest* io) override;
  void Finish(RequestSlot* slot) override;

 private:
  void Free(RequestSlot* slot) {
    slot->next = free_;
    free_ = slot;
  }

  // What IoRequest::backend_progress says.
  static constexpr uint64_t kAsked = 0;
  static constexpr uint64_t kEmulated = 1;

  // A request has its result. False: there is more to do for it.
  bool End(RequestSlot* slot);
  // As Submit(), of a COMPARE AND WRITE.
  bool Emulate(scsi::IoRequest* io);

  CallbackBackend* const backend_;
  const uint32_t thread_;
  const std::shared_ptr<CompletionQueue> queue_;
  RequestSlot* free_ = nullptr;
  bool cannot_compare_ = false;  // The callbacks have said so.
};

bool CallbackChannel::Submit(scsi::IoRequest* io) {
  io->backend_progress = kAsked;
  if (io->op == Op::kCompareAndWrite && cannot_compare_) return Emulate(io);
  if (free_ == nullptr) free_ = backend_->requests_.Take();
  RequestSlot* const slot = free_;
  if (slot == nullptr) {
    io->status = IoStatus::kNoMemory;
    return true;
  }
  free_ = slot->next;
  io->backend_data = slot;
  skiff_request& view = slot->view;
  view.op = OpOf(io->op);
  view.flags = (io->fua ? SKIFF_REQUEST_FUA : 0u) |
               (io->may_unmap ? SKIFF_REQUEST_MAY_UNMAP : 0u);
  view.offset = io->offset;
  view.length = io->length;
  view.iov = io->iov_count > 0 ? io->iov : nullptr;
  view.iov_count = static_cast<uint32_t>(io->iov_count);
  slot->Begin(io, queue_.get(), thread_, backend_->user_);
  const Submitting submission(slot);
  backend_->ops_.submit(backend_->user_, &view);
  return submission.completed() && End(slot);
}

bool CallbackChannel::Cancel(scsi::IoRequest* io) {
  if (io->backend_progress == kEmulated) {
    return CompareAndWrite::Cancel(this, io);
  }
  auto* const slot = static_cast<RequestSlot*>(io->backend_data);
  slot->cancel_asked = true;
  if (backend_->ops_.cancel == nullptr || !slot->in_flight() ||
      backend_->ops_.cancel(backend_->user_, &slot->view) == 0) {
    return false;
  }
  // Whoever gives a request back and completes it as well is believed that it
  // is complete: its end is on the way.
  if (!slot->Withdraw()) return false;
  Free(slot);
  return true;
}

void CallbackChannel::Finish(RequestSlot* slot) {
  scsi::IoRequest* const io = slot->io;
  if (End(slot)) io->done(io);  // The last one may destroy the channel.
}

bool CallbackChannel::End(RequestSlot* slot) {
  scsi::IoRequest* const io = slot->io;
  const bool cancelled = slot->cancel_asked;
  FillIn(*slot);
  Free(slot);
  if (io->op != Op::kCompareAndWrite || io->status != IoStatus::kNotSupported ||
      cancelled) {
    return true;
  }
  cannot_compare_ = true;
  io->system_error = 0;
  io->error_offset = 0;
  return Emulate(io);
}

bool CallbackChannel::Emulate(scsi::IoRequest* io) {
  if (backend_->memory_ != nullptr) {
    CompareAndWrite::InMemory(io, backend_->memory_ + io->offset);
    return true;
  }
  io->backend_progress = kEmulated;
  return CompareAndWrite::Submit(this, io);
}

CallbackBackend::CallbackBackend(const skiff_backend_ops& ops, void* user,
                                 void* memory, scsi::BackendInfo info,
                                 std::vector<transport::Reactor*> reactors)
    : ops_(ops),
      user_(user),
      memory_(static_cast<uint8_t*>(memory)),
      reactors_(std::move(reactors)),
      info_(std::move(info)) {}

scsi::BackendInfo CallbackBackend::info() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return info_;
}

uint32_t CallbackBackend::ThreadOf(const transport::Reactor* reactor) const {
  const auto found = std::find(reactors_.begin(), reactors_.end(), reactor);
  return static_cast<uint32_t>(found - reactors_.begin());
}

absl::StatusOr<std::unique_ptr<scsi::BackendChannel>>
CallbackBackend::OpenChannel(transport::Reactor* reactor) {
  return std::make_unique<CallbackChannel>(this, reactor);
}

scsi::ProvisioningExtent CallbackBackend::ProvisioningAt(uint64_t offset) {
  uint64_t size = 0;
  uint64_t granularity = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    size = info_.size_bytes;
    granularity = info_.block_size;
  }
  // It may have become smaller since the command was checked.
  const uint64_t rest = offset < size ? size - offset : granularity;
  if (ops_.provisioning == nullptr) return {rest, true};
  uint64_t length = 0;
  const bool mapped = ops_.provisioning(user_, offset, &length) != 0;
  // Whole blocks, and one at least, or initiators would ask for ever.
  length = std::clamp(length - length % granularity, granularity, rest);
  return {length, mapped};
}

void CallbackBackend::Unused() {
  if (ops_.unused != nullptr) ops_.unused(user_);
}

absl::Status CallbackBackend::SetSize(uint64_t size_bytes) {
  if (memory_ != nullptr) {
    return absl::UnimplementedError(
        "a backend with memory keeps the size that it was made with: devices "
        "may have registered it");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (size_bytes == 0 || size_bytes % info_.block_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("size_bytes is ", size_bytes,
                     ": a positive multiple of the block size, ",
                     info_.block_size, ", is needed"));
  }
  info_.size_bytes = size_bytes;
  return absl::OkStatus();
}

}  // namespace skiff::library
