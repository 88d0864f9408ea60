#include "scsi/initiator/disk.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/disk_part.h"
#include "scsi/initiator/disk_probe.h"
#include "scsi/initiator/scsi_error.h"
#include "scsi/iovec_cursor.h"

namespace skiff::scsi {
namespace {

using Op = DiskIo::Op;
using Phase = DiskIo::Phase;

constexpr uint32_t kMaxCommands = 65536;

bool IsInvalidOpcode(const absl::Status& status) {
  const std::optional<ScsiError> error = GetScsiError(status);
  return error.has_value() && error->sense.has_value() &&
         error->sense->code == AdditionalSense::kInvalidCommandOperationCode;
}

// A first-in first-out list of I/O.
class IoList {
 public:
  DiskIo* front() const { return head_; }
  bool empty() const { return head_ == nullptr; }
  void Push(DiskIo* io) {
    io->next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = io;
    tail_ = io;
  }
  void Remove(DiskIo* io) {
    DiskIo* previous = nullptr;
    for (DiskIo* at = head_; at != io; at = at->next) previous = at;
    (previous != nullptr ? previous->next : head_) = io->next;
    if (tail_ == io) tail_ = previous;
  }
  DiskIo* Pop() {
    DiskIo* io = head_;
    Remove(io);
    return io;
  }

 private:
  DiskIo* head_ = nullptr;
  DiskIo* tail_ = nullptr;
};

class DiskImpl : public Disk, private transport::TurnHook {
 public:
  DiskImpl(CommandPort* port, transport::Reactor* reactor,
           const DiskOptions& options)
      : environment_{port,
                     reactor,
                     options.lun,
                     options.retry,
                     options.on_unit_attention,
                     options.on_recovered_error},
        options_(options),
        probe_(&environment_) {
    for (uint32_t i = 0; i < options.max_commands; ++i) {
      Slot& slot = slots_.emplace_back(&environment_, this);
      slot.next_free = std::exchange(free_, &slot);
    }
  }
  ~DiskImpl() override {
    closed_ = true;
    OnTurnEnd();
    assert(queue_.empty() && busy_ == 0 && !probe_.running());
  }

  void Open(absl::AnyInvocable<void(absl::Status)> on_open) override;
  const DiskInfo& info() const override { return info_; }
  void Submit(DiskIo* io) override;
  void Cancel(DiskIo* io) override;
  void Close() override;

 private:
  // A command, and the part of an I/O that it carries.
  struct Slot {
    Slot(const RetryingCommand::Environment* environment, DiskImpl* owner)
        : disk(owner),
          command(
              environment,
              [](RetryingCommand* command) {
                auto* slot = static_cast<Slot*>(command->context());
                slot->disk->OnSlotDone(slot);
              },
              this) {}

    DiskImpl* const disk;
    RetryingCommand command;
    DiskIo* io = nullptr;
    DiskPart part;
    Slot* next_free = nullptr;
  };

  absl::Status Check(const DiskIo& io) const;
  void Enqueue(DiskIo* io, Phase phase);
  void Pump();
  // Starts one command of an I/O. An error is the I/O's.
  absl::Status Issue(DiskIo* io, Slot* slot);
  void OnSlotDone(Slot* slot);
  absl::Status Result(const Slot& slot) const;
  bool NeedsFlushAfter(const DiskIo& io) const;
  void Advance(DiskIo* io);
  // Ends an I/O at the end of the turn, for what must not be inside Submit().
  void FinishLater(DiskIo* io, absl::Status status);
  void Finish(DiskIo* io);
  void OnTurnEnd() override;

  const RetryingCommand::Environment environment_;
  const DiskOptions options_;
  DiskProbe probe_;
  DiskInfo info_;
  uint64_t max_transfer_bytes_ = 0;
  bool open_ = false;
  bool closed_ = false;
  bool write_same_works_ = true;  // Until the disk denies it.

  std::deque<Slot> slots_;
  Slot* free_ = nullptr;
  uint32_t busy_ = 0;
  IoList queue_;     // With work to hand out.
  IoList finished_;  // For OnTurnEnd().
};

void DiskImpl::Open(absl::AnyInvocable<void(absl::Status)> on_open) {
  assert(!probe_.running());
  if (closed_) {
    environment_.reactor->Post([on_open = std::move(on_open)]() mutable {
      on_open(absl::FailedPreconditionError("the disk was closed"));
    });
    return;
  }
  probe_.Start(
      [this, on_open = std::move(on_open)](absl::Status status) mutable {
        if (status.ok()) {
          info_ = probe_.info();
          uint64_t limit = options_.max_transfer_bytes;
          if (info_.max_transfer_bytes != 0) {
            limit = std::min(limit, info_.max_transfer_bytes);
          }
          limit -= limit % info_.block_size;
          max_transfer_bytes_ = std::max<uint64_t>(limit, info_.block_size);
          write_same_works_ = true;
          open_ = true;
        }
        on_open(std::move(status));
      });
}

absl::Status DiskImpl::Check(const DiskIo& io) const {
  if (closed_) return absl::CancelledError("the disk was closed");
  if (!open_) return absl::FailedPreconditionError("the disk is not open");
  if (io.op == Op::kFlush) return absl::OkStatus();
  if (io.offset % info_.block_size != 0 || io.length % info_.block_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "offset ", io.offset, " and length ", io.length,
        " must be multiples of the block size, ", info_.block_size));
  }
  if (io.offset > info_.size_bytes ||
      io.length > info_.size_bytes - io.offset) {
    return absl::OutOfRangeError(
        absl::StrCat("bytes ", io.offset, " to ", io.offset + io.length,
                     " are not on the disk, which has ", info_.size_bytes));
  }
  const bool has_data = io.op == Op::kRead || io.op == Op::kWrite ||
                        io.op == Op::kCompareAndWrite;
  const uint64_t factor = io.op == Op::kCompareAndWrite ? 2 : 1;
  if (has_data && TotalLength(io.iov, io.iov_count) / factor < io.length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the buffer is shorter than ", factor * io.length, " bytes"));
  }
  if (io.op != Op::kRead && info_.read_only) {
    return absl::PermissionDeniedError("the disk is write-protected");
  }
  if (io.op == Op::kUnmap && !info_.unmap) {
    return absl::UnimplementedError("the disk cannot unmap");
  }
  if (io.op == Op::kCompareAndWrite &&
      io.length > info_.max_compare_and_write_bytes) {
    return absl::UnimplementedError(absl::StrCat(
        "the disk can compare and write ", info_.max_compare_and_write_bytes,
        " bytes at most, not ", io.length));
  }
  return absl::OkStatus();
}

void DiskImpl::Submit(DiskIo* io) {
  io->status = absl::OkStatus();
  io->planned = 0;
  io->in_flight = 0;
  io->restart = false;
  absl::Status status = Check(*io);
  const bool nothing_to_do = io->op != Op::kFlush && io->length == 0;
  if (!status.ok() || nothing_to_do) return FinishLater(io, std::move(status));
  if (io->op == Op::kFlush) {
    Enqueue(io, Phase::kFlush);
  } else {
    Enqueue(io, io->op == Op::kWriteZeroes && !write_same_works_
                    ? Phase::kZeroBuffers
                    : Phase::kTransfer);
  }
  Pump();
}

void DiskImpl::Enqueue(DiskIo* io, Phase phase) {
  io->phase = phase;
  io->planned = 0;
  io->queued = true;
  queue_.Push(io);
}

void DiskImpl::Pump() {
  while (!closed_ && free_ != nullptr && !queue_.empty()) {
    DiskIo* io = queue_.front();
    Slot* slot = free_;
    absl::Status status = Issue(io, slot);
    if (!status.ok()) {
      io->status = std::move(status);
      io->planned = WorkOf(*io);
    }
    if (io->planned < WorkOf(*io)) continue;
    queue_.Pop();
    io->queued = false;
    if (io->in_flight == 0) FinishLater(io, std::move(io->status));
  }
}

absl::Status DiskImpl::Issue(DiskIo* io, Slot* slot) {
  const absl::StatusOr<uint64_t> planned = PrepareDiskPart(
      *io, info_, max_transfer_bytes_, &slot->part, &slot->command);
  if (!planned.ok()) return planned.status();
  free_ = slot->next_free;
  ++busy_;
  slot->io = io;
  io->planned += *planned;
  ++io->in_flight;
  slot->command.Start();
  return absl::OkStatus();
}

// The status of a command; an incomplete transfer is an error, too. A device
// may tell a residual of a parameter list, but has to have taken some of it.
absl::Status DiskImpl::Result(const Slot& slot) const {
  const absl::Status& status = slot.command.status();
  if (!status.ok()) return status;
  const Command& command = slot.command.result();
  const bool nothing_taken = command.underflow && command.data_out_length > 0 &&
                             command.residual >= command.data_out_length;
  const bool incomplete =
      slot.part.transfers && (command.underflow || command.overflow);
  if (!incomplete && !nothing_taken) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      CommandName(command), ": the disk reported ",
      IsRecovered(command) ? "RECOVERED ERROR" : ScsiStatusName(command.status),
      ", but a ", command.underflow ? "residual" : "overflow", " of ",
      command.residual, " bytes"));
}

void DiskImpl::OnSlotDone(Slot* slot) {
  DiskIo* io = slot->io;
  absl::Status status = Result(*slot);
  slot->io = nullptr;
  slot->next_free = std::exchange(free_, slot);
  --busy_;
  --io->in_flight;
  if (!status.ok() && IsInvalidOpcode(status)) {
    if (slot->part.write_same && io->op == Op::kWriteZeroes) {
      write_same_works_ = false;
      io->restart = true;
      status = absl::OkStatus();
    } else if (io->phase == Phase::kFlush && !info_.volatile_write_cache) {
      status = absl::OkStatus();  // There is no cache to flush.
    }
  }
  if (!status.ok() && io->status.ok()) {
    io->status =
        io->phase == Phase::kFlush
            ? std::move(status)
            : WithText(status, absl::StrCat(", in what starts at byte ",
                                            slot->part.offset));
  }
  // Stop handing out work.
  if ((!io->status.ok() || io->restart) && io->queued) {
    queue_.Remove(io);
    io->queued = false;
  }
  if (!io->queued) io->planned = WorkOf(*io);
  Advance(io);
  Pump();
}

bool DiskImpl::NeedsFlushAfter(const DiskIo& io) const {
  if (!io.fua || !info_.volatile_write_cache || io.phase == Phase::kFlush) {
    return false;
  }
  switch (io.op) {
    case Op::kWrite:
    case Op::kCompareAndWrite:
      return !info_.dpo_fua;
    case Op::kWriteZeroes:
      // WRITE SAME has no FUA.
      return io.phase == Phase::kTransfer || !info_.dpo_fua;
    default:
      return false;
  }
}

// Looks at what comes next when all commands of an I/O have ended.
void DiskImpl::Advance(DiskIo* io) {
  if (io->in_flight > 0 || io->planned < WorkOf(*io)) return;
  if (io->status.ok() && io->restart) {
    io->restart = false;
    return Enqueue(io, Phase::kZeroBuffers);
  }
  if (io->status.ok() && NeedsFlushAfter(*io)) {
    return Enqueue(io, Phase::kFlush);
  }
  Finish(io);
}

void DiskImpl::FinishLater(DiskIo* io, absl::Status status) {
  io->status = std::move(status);
  io->phase = Phase::kIdle;
  finished_.Push(io);
  environment_.reactor->ScheduleTurnEnd(this);
}

void DiskImpl::Finish(DiskIo* io) {
  io->phase = Phase::kIdle;
  io->done(io);
}

void DiskImpl::OnTurnEnd() {
  // What is submitted from `done` waits for the next call.
  IoList finished = std::exchange(finished_, IoList());
  while (!finished.empty()) Finish(finished.Pop());
}

void DiskImpl::Cancel(DiskIo* io) {
  if (io->phase == Phase::kIdle) return;
  if (io->queued) queue_.Remove(io);
  io->queued = false;
  if (io->status.ok()) io->status = absl::CancelledError("cancelled");
  io->planned = WorkOf(*io);
  ++io->in_flight;  // Stop() must not finish the I/O while it is looked at.
  for (Slot& slot : slots_) {
    if (slot.io == io) slot.command.Stop();
  }
  --io->in_flight;
  Advance(io);
}

void DiskImpl::Close() {
  if (closed_) return;
  closed_ = true;
  probe_.Stop();
  while (!queue_.empty()) Cancel(queue_.front());
  for (Slot& slot : slots_) {
    if (slot.io != nullptr) Cancel(slot.io);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Disk>> Disk::Create(CommandPort* port,
                                                   transport::Reactor* reactor,
                                                   const DiskOptions& options) {
  if (options.max_commands == 0 || options.max_commands > kMaxCommands) {
    return absl::InvalidArgumentError(absl::StrCat("max_commands must be 1 to ",
                                                   kMaxCommands, ", not ",
                                                   options.max_commands));
  }
  if (options.retry.max_retries < 0 || options.retry.max_timeouts < 0 ||
      options.retry.first_delay < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "max_retries, max_timeouts and first_delay must not be negative");
  }
  return std::make_unique<DiskImpl>(port, reactor, options);
}

}  // namespace skiff::scsi
