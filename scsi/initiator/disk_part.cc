#include "scsi/initiator/disk_part.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scsi/iovec_cursor.h"

namespace skiff::scsi {
namespace {

using Op = DiskIo::Op;
using Phase = DiskIo::Phase;

constexpr uint64_t kZeroBytes = 64u << 10;
alignas(4096) constexpr uint8_t kZeroes[kZeroBytes] = {};
// For disks that name no limit: short enough for their time limits.
constexpr uint64_t kDefaultWriteSameBytes = 32u << 20;

// What a 32-bit number of blocks can say.
uint64_t MaxBytes(const DiskInfo& info) {
  return uint64_t{std::numeric_limits<uint32_t>::max()} * info.block_size;
}

class PartBuilder {
 public:
  PartBuilder(const DiskIo& io, const DiskInfo& info,
              uint64_t max_transfer_bytes, DiskPart* part,
              RetryingCommand* command)
      : io_(io),
        info_(info),
        max_transfer_(max_transfer_bytes),
        part_(part),
        retrying_(command),
        command_(command->command()),
        length_(WorkOf(io) - io.planned) {
    command->Prepare();
    part->offset = io.offset + io.planned;
    part->write_same = false;
    part->transfers = false;
  }

  absl::StatusOr<uint64_t> Build() {
    absl::Status status;
    if (io_.phase == Phase::kFlush) {
      SetCdb(cdb::SynchronizeCache(), command_);
    } else if (io_.op == Op::kUnmap && info_.unmap_command) {
      Unmap();
    } else if (io_.op == Op::kUnmap ||
               (io_.op == Op::kWriteZeroes && io_.phase == Phase::kTransfer)) {
      WriteSame();
    } else {
      part_->transfers = true;
      status = Transfer();
    }
    if (!status.ok()) return status;
    return length_;
  }

 private:
  uint64_t lba() const { return part_->offset / info_.block_size; }
  uint32_t blocks() const {
    return static_cast<uint32_t>(length_ / info_.block_size);
  }
  void SendOut(const iovec* iov, int count, uint64_t bytes) {
    command_->data_out = iov;
    command_->data_out_count = count;
    command_->data_out_length = static_cast<uint32_t>(bytes);
  }

  absl::Status Transfer();
  // Up to `bytes` of the caller's memory from `skip` on. Returns how many; less
  // only when there are too many elements.
  uint64_t UseCallersMemory(uint64_t skip, uint64_t bytes);
  void SendZeroes(uint64_t bytes);
  void Unmap();
  void WriteSame();

  const DiskIo& io_;
  const DiskInfo& info_;
  const uint64_t max_transfer_;
  DiskPart* const part_;
  RetryingCommand* const retrying_;
  Command* const command_;
  uint64_t length_;  // The part's: first all that is left, then cut.
  const iovec* iov_ = nullptr;
  int iov_count_ = 0;
};

uint64_t PartBuilder::UseCallersMemory(uint64_t skip, uint64_t bytes) {
  if (skip == 0 && TotalLength(io_.iov, io_.iov_count) == bytes) {
    iov_ = io_.iov;
    iov_count_ = io_.iov_count;
    return bytes;
  }
  IovecCursor cursor(io_.iov, io_.iov_count);
  cursor.Skip(skip);
  uint64_t covered = 0;
  iov_ = part_->iov.data();
  iov_count_ =
      cursor.Describe(bytes, part_->iov.data(), DiskPart::kMaxIov, &covered);
  return covered;
}

// READ, WRITE (of the caller's bytes or of zeroes) and COMPARE AND WRITE.
absl::Status PartBuilder::Transfer() {
  const bool fua = io_.fua && info_.dpo_fua;
  const bool compare = io_.op == Op::kCompareAndWrite;
  if (io_.phase == Phase::kZeroBuffers) {
    length_ =
        std::min({length_, max_transfer_, DiskPart::kMaxIov * kZeroBytes});
    SendZeroes(length_);
    SetCdb(cdb::Write(lba(), blocks(), {.fua = fua}), command_);
    return absl::OkStatus();
  }
  // A compare-and-write is never split.
  const uint64_t wanted =
      compare ? 2 * length_ : std::min(length_, max_transfer_);
  uint64_t bytes = UseCallersMemory(io_.planned, wanted);
  if (bytes < wanted) {
    // Ends with the last whole block.
    bytes = compare ? 0 : bytes - bytes % info_.block_size;
    if (bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the memory for byte ", part_->offset,
                       " and the following is scattered over more than ",
                       DiskPart::kMaxIov, " pieces: merge some"));
    }
    UseCallersMemory(io_.planned, bytes);
  }
  length_ = compare ? length_ : bytes;
  if (io_.op == Op::kRead) {
    SetCdb(cdb::Read(lba(), blocks(), {.fua = fua}), command_);
    command_->data_in = iov_;
    command_->data_in_count = iov_count_;
    command_->data_in_length = static_cast<uint32_t>(bytes);
    return absl::OkStatus();
  }
  if (compare) {
    SetCdb(cdb::CompareAndWrite(lba(), static_cast<uint8_t>(blocks()), fua),
           command_);
    retrying_->set_idempotent(false);
  } else {
    SetCdb(cdb::Write(lba(), blocks(), {.fua = fua}), command_);
  }
  SendOut(iov_, iov_count_, bytes);
  return absl::OkStatus();
}

void PartBuilder::SendZeroes(uint64_t bytes) {
  int count = 0;
  for (uint64_t left = bytes; left > 0;) {
    const uint64_t step = std::min(left, kZeroBytes);
    // Only read from.
    part_->iov[count++] = {const_cast<uint8_t*>(kZeroes), step};
    left -= step;
  }
  SendOut(part_->iov.data(), count, bytes);
}

void PartBuilder::Unmap() {
  const uint64_t limit = std::min(info_.max_unmap_bytes, MaxBytes(info_));
  if (length_ > limit) {
    length_ = limit;
    // Cut between granules: the disk may ignore parts of one.
    const uint64_t granule = info_.unmap_granularity_bytes;
    const uint64_t end = part_->offset + limit;
    if (granule > 0 && end > info_.unmap_alignment_bytes) {
      const uint64_t beyond = (end - info_.unmap_alignment_bytes) % granule;
      if (beyond < limit) length_ -= beyond;
    }
  }
  EncodeUnmapList(lba(), blocks(), part_->unmap_list);
  SetCdb(cdb::Unmap(kUnmapListLength), command_);
  part_->iov[0] = {part_->unmap_list, kUnmapListLength};
  SendOut(part_->iov.data(), 1, kUnmapListLength);
}

void PartBuilder::WriteSame() {
  const uint64_t limit = info_.max_write_same_bytes != 0
                             ? info_.max_write_same_bytes
                             : kDefaultWriteSameBytes;
  length_ = std::min(
      {length_, std::max<uint64_t>(limit, info_.block_size), MaxBytes(info_)});
  length_ -= length_ % info_.block_size;
  cdb::WriteSameOptions options;
  options.long_form = true;  // The only one that must know UNMAP.
  options.unmap =
      io_.op == Op::kUnmap ||
      (io_.may_unmap && info_.write_same_unmap && info_.unmapped_reads_zeroes);
  SetCdb(cdb::WriteSame(lba(), blocks(), options), command_);
  SendZeroes(info_.block_size);
  part_->write_same = true;
}

}  // namespace

absl::StatusOr<uint64_t> PrepareDiskPart(const DiskIo& io, const DiskInfo& info,
                                         uint64_t max_transfer_bytes,
                                         DiskPart* part,
                                         RetryingCommand* command) {
  return PartBuilder(io, info, max_transfer_bytes, part, command).Build();
}

}  // namespace skiff::scsi
