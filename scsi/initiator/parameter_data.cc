#include "scsi/initiator/parameter_data.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "scsi/endian.h"
#include "scsi/initiator/parse_util.h"

namespace skiff::scsi {
namespace {

constexpr uint32_t kMinBlockSize = 256;
constexpr uint32_t kMaxBlockSize = 1u << 20;

absl::Status CheckCapacity(const Capacity& capacity) {
  if (!std::has_single_bit(capacity.block_size) ||
      capacity.block_size < kMinBlockSize ||
      capacity.block_size > kMaxBlockSize) {
    return absl::DataLossError(
        absl::StrCat("the device says that its blocks have ",
                     capacity.block_size, " bytes: not a power of two from ",
                     kMinBlockSize, " to ", kMaxBlockSize));
  }
  // Offsets in bytes are 64 bits wide.
  if (capacity.block_count > ~uint64_t{0} / capacity.block_size) {
    return absl::DataLossError(absl::StrCat(
        "the device says that it has ", capacity.block_count, " blocks of ",
        capacity.block_size, " bytes: more than 2^64 bytes"));
  }
  return absl::OkStatus();
}

// `pages` follows the header and the block descriptors.
absl::StatusOr<std::vector<uint8_t>> FindModePage(Bytes pages, uint8_t wanted) {
  while (pages.size() >= 2) {
    const bool subpage = (pages[0] & 0x40) != 0;
    const size_t header = subpage ? 4 : 2;
    if (pages.size() < header) break;
    const size_t length =
        header + (subpage ? size_t{LoadBe16(&pages[2])} : size_t{pages[1]});
    const bool found = !subpage && (pages[0] & 0x3f) == wanted;
    if (length > pages.size()) {
      if (!found) break;
      return absl::DataLossError(
          absl::StrCat("mode page ", absl::Hex(wanted, absl::kZeroPad2),
                       "h goes beyond the end of the data"));
    }
    if (found) return std::vector<uint8_t>(pages.data(), pages.data() + length);
    pages.remove_prefix(length);
  }
  return std::vector<uint8_t>();
}

// What both headers have in common.
absl::StatusOr<ModeData> ParseMode(Bytes data, size_t header,
                                   uint8_t device_specific,
                                   size_t block_descriptors, uint8_t page) {
  if (data.size() - header < block_descriptors) {
    return absl::DataLossError(
        absl::StrCat("the block descriptors of the mode data (",
                     block_descriptors, " bytes) go beyond their end"));
  }
  ModeData mode;
  mode.write_protected = (device_specific & 0x80) != 0;
  mode.dpo_fua = (device_specific & 0x10) != 0;
  absl::StatusOr<std::vector<uint8_t>> found =
      FindModePage(data.subspan(header + block_descriptors), page);
  if (!found.ok()) return found.status();
  mode.page = *std::move(found);
  return mode;
}

}  // namespace

absl::StatusOr<Capacity> ParseReadCapacity10(Bytes data) {
  constexpr size_t kLength = 8;
  if (data.size() < kLength) {
    return TooShort("READ CAPACITY (10) data", data, kLength);
  }
  Capacity capacity;
  capacity.block_count = uint64_t{LoadBe32(&data[0])} + 1;
  capacity.block_size = LoadBe32(&data[4]);
  if (auto status = CheckCapacity(capacity); !status.ok()) return status;
  return capacity;
}

absl::StatusOr<Capacity> ParseReadCapacity16(Bytes data) {
  constexpr size_t kLength = 12;
  constexpr size_t kLengthWithFlags = 16;
  if (data.size() < kLength) {
    return TooShort("READ CAPACITY (16) data", data, kLength);
  }
  Capacity capacity;
  const uint64_t last = LoadBe64(&data[0]);
  if (last == ~uint64_t{0}) {
    return absl::DataLossError(
        "the device says that its last block is 2^64 - 1");
  }
  capacity.block_count = last + 1;
  capacity.block_size = LoadBe32(&data[8]);
  if (auto status = CheckCapacity(capacity); !status.ok()) return status;
  if (data.size() >= kLengthWithFlags) {
    capacity.protection = (data[12] & 1) != 0;
    capacity.blocks_per_physical_block = 1u << (data[13] & 0x0f);
    capacity.provisioning = (data[14] & 0x80) != 0;
    capacity.unmapped_reads_zeroes = (data[14] & 0x40) != 0;
    capacity.lowest_aligned_lba = LoadBe16(&data[14]) & 0x3fff;
  }
  return capacity;
}

absl::StatusOr<LunList> ParseReportLuns(Bytes data) {
  constexpr size_t kHeader = 8;
  constexpr size_t kEntry = 8;
  if (data.size() < kHeader) return TooShort("REPORT LUNS data", data, kHeader);
  const uint32_t length = LoadBe32(&data[0]);
  if (length % kEntry != 0) {
    return absl::DataLossError(
        absl::StrCat("the length of the LUN list, ", length,
                     " bytes, is not a multiple of ", kEntry));
  }
  LunList list;
  list.needed_bytes = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{length} + kHeader, ~uint32_t{0}));
  data = Limit(data, kHeader, length);
  for (size_t at = kHeader; data.size() - at >= kEntry; at += kEntry) {
    list.luns.push_back(LoadBe64(&data[at]));
  }
  return list;
}

absl::StatusOr<ModeData> ParseModeSense6(Bytes data, uint8_t page) {
  constexpr size_t kHeader = 4;
  if (data.size() < kHeader) return TooShort("mode data", data, kHeader);
  data = Limit(data, 1, data[0]);
  if (data.size() < kHeader) return TooShort("mode data", data, kHeader);
  return ParseMode(data, kHeader, data[2], data[3], page);
}

absl::StatusOr<ModeData> ParseModeSense10(Bytes data, uint8_t page) {
  constexpr size_t kHeader = 8;
  if (data.size() < kHeader) return TooShort("mode data", data, kHeader);
  data = Limit(data, 2, LoadBe16(&data[0]));
  if (data.size() < kHeader) return TooShort("mode data", data, kHeader);
  return ParseMode(data, kHeader, data[3], LoadBe16(&data[6]), page);
}

bool WriteCacheEnabled(const ModeData& data) {
  if (data.page.size() < 3 || (data.page[0] & 0x3f) != kCachingModePage) {
    return true;
  }
  return (data.page[2] & 0x04) != 0;
}

absl::StatusOr<std::vector<LbaStatus>> ParseGetLbaStatus(Bytes data) {
  constexpr size_t kHeader = 8;
  constexpr size_t kEntry = 16;
  if (data.size() < kHeader) {
    return TooShort("GET LBA STATUS data", data, kHeader);
  }
  // The length counts from byte 4 on.
  data = Limit(data, 4, LoadBe32(&data[0]));
  std::vector<LbaStatus> result;
  for (size_t at = kHeader; at + kEntry <= data.size(); at += kEntry) {
    LbaStatus status;
    status.lba = LoadBe64(&data[at]);
    status.blocks = LoadBe32(&data[at + 8]);
    status.provisioning = data[at + 12] & 0x0f;
    // Whoever walks the extents must get ahead.
    if (status.blocks == 0 || status.lba + status.blocks < status.lba) {
      return absl::DataLossError(absl::StrCat(
          "LBA status descriptor ", result.size() + 1, " has ", status.blocks,
          " blocks from ", status.lba, " on, which cannot be"));
    }
    result.push_back(status);
  }
  return result;
}

absl::StatusOr<std::vector<SupportedCommand>> ParseSupportedOperationCodes(
    Bytes data) {
  constexpr size_t kHeader = 4;
  constexpr size_t kEntry = 8;
  constexpr size_t kTimeouts = 12;
  if (data.size() < kHeader) {
    return TooShort("the list of supported commands", data, kHeader);
  }
  Bytes rest = Limit(data, kHeader, LoadBe32(&data[0])).subspan(kHeader);
  std::vector<SupportedCommand> commands;
  while (rest.size() >= kEntry) {
    SupportedCommand command;
    command.operation_code = rest[0];
    command.service_action = LoadBe16(&rest[2]);
    command.has_service_action = (rest[5] & 0x01) != 0;
    command.cdb_length = LoadBe16(&rest[6]);
    const size_t size = kEntry + ((rest[5] & 0x02) != 0 ? kTimeouts : 0);
    commands.push_back(command);
    if (rest.size() < size) break;
    rest.remove_prefix(size);
  }
  return commands;
}

}  // namespace skiff::scsi
