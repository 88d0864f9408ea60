#include "tools/library/pending.h"

#include <algorithm>
#include <cstring>

#include "scsi/initiator/command.h"
#include "tools/library/disk.h"

namespace skiff::library {
namespace {

// SAM-5 section 5.3.1.
constexpr uint8_t kGood = 0x00;
constexpr uint8_t kCheckCondition = 0x02;
constexpr uint8_t kConditionMet = 0x04;

// It was looked at before, and fits.
uint32_t TotalLength(const std::vector<iovec>& iov) {
  uint64_t bytes = 0;
  for (const iovec& piece : iov) bytes += piece.iov_len;
  return static_cast<uint32_t>(bytes);
}

}  // namespace

void Io::CopyIov(const iovec* iov, uint32_t count) {
  iovec* to = few.data();
  if (count > few.size()) {
    many.resize(count);
    to = many.data();
  }
  std::copy_n(iov, count, to);
  io.iov = to;
  io.iov_count = static_cast<int>(count);
}

IoPool::~IoPool() {
  while (first_ != nullptr) {
    const std::unique_ptr<Io> io(first_);
    first_ = io->next_free;
  }
}

Io* IoPool::Get() {
  if (first_ == nullptr) return new Io;
  Io* const io = first_;
  first_ = io->next_free;
  --count_;
  return io;
}

void IoPool::Put(Io* io) {
  if (count_ == kMaxKept) {
    delete io;
    return;
  }
  io->many.clear();
  io->next_free = first_;
  first_ = io;
  ++count_;
}

RawCommand::RawCommand(Disk* disk,
                       const scsi::RetryingCommand::Environment* environment)
    : Pending(What::kRawCommand),
      disk_(disk),
      command_(environment, OnDone, this) {}

void RawCommand::Fill(const scsi::RetryingCommand::Environment* environment,
                      const skiff_command& given,
                      skiff_command_result* result) {
  out_.assign(given.data_out, given.data_out + given.data_out_count);
  in_.assign(given.data_in, given.data_in + given.data_in_count);
  result_ = result;
  command_.SetEnvironment(environment);
  command_.Prepare();
  command_.set_idempotent((given.flags & SKIFF_COMMAND_ONCE) == 0);
  scsi::Command& command = *command_.command();
  command.cdb_length = static_cast<uint8_t>(given.cdb_length);
  std::memcpy(command.cdb.data(), given.cdb, given.cdb_length);
  command.data_out = out_.data();
  command.data_out_count = static_cast<int>(out_.size());
  command.data_out_length = TotalLength(out_);
  command.data_in = in_.data();
  command.data_in_count = static_cast<int>(in_.size());
  command.data_in_length = TotalLength(in_);
}

void RawCommand::OnDone(scsi::RetryingCommand* command) {
  auto* const self = static_cast<RawCommand*>(command->context());
  self->disk_->OnRawCommandDone(self);
}

void RawCommand::FillResult() const {
  if (result_ == nullptr) return;
  const scsi::Command& command = command_.result();
  skiff_command_result known = {};
  known.answered = command.outcome == scsi::Command::Outcome::kCompleted;
  if (known.answered != 0) {
    known.status = command.status;
    known.sense_length = command.sense_length;
    std::memcpy(known.sense, command.sense.data(), command.sense_length);
    known.residual = command.residual;
    known.overflow = command.overflow ? 1 : 0;
    // No other status comes with data, whatever the residual says.
    const bool data = command.status == kGood ||
                      command.status == kCheckCondition ||
                      command.status == kConditionMet;
    known.data_in_length = data ? command_.received() : 0;
  }
  // Its size was looked at before.
  const size_t size = std::min(result_->struct_size, sizeof(known));
  known.struct_size = result_->struct_size;
  std::memcpy(result_, &known, size);
}

}  // namespace skiff::library
