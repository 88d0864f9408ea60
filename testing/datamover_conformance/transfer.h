#ifndef SKIFF_TESTING_DATAMOVER_CONFORMANCE_TRANSFER_H_
#define SKIFF_TESTING_DATAMOVER_CONFORMANCE_TRANSFER_H_

#include <sys/uio.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "protocol/codec/pdu.h"
#include "scsi/initiator/cdb.h"
#include "scsi/initiator/command.h"
#include "testing/stack/stack_test_util.h"

namespace skiff::protocol {

// A read, or a write of 'w', on a place of the disk of its own. Its memory is
// given another use when it has ended.
struct Transfer {
  Transfer(uint32_t index, uint32_t block_count, bool is_write)
      : write(is_write),
        lba(uint64_t{index} * block_count),
        blocks(block_count),
        buffer(size_t{blocks} * kBlock, is_write ? 'w' : 'r') {
    iov = {buffer.data(), buffer.size()};
    SetCdb(write ? scsi::cdb::Write(lba, blocks) : scsi::cdb::Read(lba, blocks),
           &command);
    const auto length = static_cast<uint32_t>(buffer.size());
    (write ? command.data_out : command.data_in) = &iov;
    (write ? command.data_out_count : command.data_in_count) = 1;
    (write ? command.data_out_length : command.data_in_length) = length;
    command.context = this;
    command.done = [](scsi::Command* done) {
      auto* self = static_cast<Transfer*>(done->context);
      self->finished = true;
      std::memset(self->buffer.data(), kGone, self->buffer.size());
    };
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // For one that has ended.
  bool left_alone() const {
    return buffer == std::string(buffer.size(), kGone);
  }

  static constexpr char kGone = '\x99';
  const bool write;
  const uint64_t lba;
  const uint32_t blocks;
  std::string buffer;
  iovec iov;
  scsi::Command command;
  bool finished = false;
};

// Functions that end every command of a logical unit, or more.
inline constexpr TaskManagementFunction kEndAllTasks[] = {
    TaskManagementFunction::kAbortTaskSet,
    TaskManagementFunction::kClearTaskSet,
    TaskManagementFunction::kLogicalUnitReset,
    TaskManagementFunction::kTargetWarmReset};

// What is on the disk there was there before, or is the write's; never what the
// memory held afterwards.
inline void ExpectNothingForeign(Stack* stack, const Transfer& transfer) {
  TestCommand read(scsi::cdb::Read(transfer.lba, transfer.blocks),
                   transfer.blocks * kBlock);
  stack->RunToGood(&read);
  EXPECT_EQ(read.buffer.find_first_not_of(std::string("\0w", 2)),
            std::string::npos);
}

// The beginning of the disk, all of which holds the same byte.
inline constexpr uint32_t kFilledBytes = 1 << 20;
inline void FillDisk(Stack* stack, char with) {
  TestCommand write(scsi::cdb::Write(0, kFilledBytes / kBlock), 0,
                    std::string(kFilledBytes, with));
  stack->RunToGood(&write);
}
inline char DiskIsFullOf(Stack* stack) {
  TestCommand read(scsi::cdb::Read(0, kFilledBytes / kBlock), kFilledBytes);
  stack->RunToGood(&read);
  EXPECT_TRUE(read.buffer == std::string(kFilledBytes, read.buffer[0]));
  return read.buffer[0];
}

}  // namespace skiff::protocol

#endif  // SKIFF_TESTING_DATAMOVER_CONFORMANCE_TRANSFER_H_
