#include "bench/protocol/command_batch.h"

#include <cassert>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "scsi/backend/ram_backend.h"
#include "scsi/initiator/cdb.h"

namespace skiff::protocol {
namespace {

constexpr uint32_t kBlock = 512;

}  // namespace

std::shared_ptr<scsi::Target> MakeDisk(uint64_t bytes) {
  scsi::RamBackendOptions ram;
  ram.size_bytes = bytes;
  ram.block_size = kBlock;
  ram.thin = false;
  std::shared_ptr<scsi::Target> disk = scsi::Target::Create(kDiskName);
  const absl::Status added = disk->AddLogicalUnit(
      scsi::MakeRamBackend(ram).value(), scsi::LogicalUnitOptions());
  assert(added.ok());
  static_cast<void>(added);  // Its first one, and no name is taken.
  return disk;
}

CommandBatch::CommandBatch(uint32_t depth, uint32_t bytes_of_each)
    : bytes_(bytes_of_each),
      memory_(
          std::make_shared<std::vector<char>>(size_t{depth} * bytes_of_each)) {
  for (uint32_t i = 0; i < depth; ++i) {
    const absl::Span<char> data = Data(i);
    Slot& slot = slots_.emplace_back();
    slot.batch = this;
    slot.iov = {data.data(), data.size()};
    slot.command.context = &slot;
    slot.command.done = &OnDone;
  }
}

absl::Span<char> CommandBatch::Data(uint32_t command) {
  return absl::MakeSpan(*memory_).subspan(size_t{command} * bytes_, bytes_);
}

void CommandBatch::Fill(uint8_t seed) {
  size_t at = 0;
  for (char& byte : *memory_) {
    byte = static_cast<char>(seed + at + 7 * (at / kBlock));
    ++at;
  }
}

void CommandBatch::OnDone(scsi::Command* command) {
  CommandBatch* const batch = static_cast<Slot*>(command->context)->batch;
  ++batch->finished_;
  if (command->outcome == scsi::Command::Outcome::kCompleted &&
      command->status == 0) {
    return;
  }
  batch->failure_ = absl::StrCat("status ", command->status, ", outcome ",
                                 static_cast<int>(command->outcome));
}

void CommandBatch::Prepare(bool write) {
  finished_ = 0;
  failure_.clear();
  const uint32_t blocks = bytes_ / kBlock;
  uint64_t lba = 0;
  for (Slot& slot : slots_) {
    scsi::Command& command = slot.command;
    SetCdb(write ? scsi::cdb::Write(lba, blocks) : scsi::cdb::Read(lba, blocks),
           &command);
    lba += blocks;
    command.data_out = write ? &slot.iov : nullptr;
    command.data_out_count = write ? 1 : 0;
    command.data_out_length = write ? bytes_ : 0;
    command.data_in = write ? nullptr : &slot.iov;
    command.data_in_count = write ? 0 : 1;
    command.data_in_length = write ? 0 : bytes_;
  }
}

void CommandBatch::PrepareGreeting() {
  finished_ = 0;
  SetCdb(scsi::cdb::TestUnitReady(), &slots_.front().command);
}

}  // namespace skiff::protocol
