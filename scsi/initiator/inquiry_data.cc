#include "scsi/initiator/inquiry_data.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "scsi/endian.h"
#include "scsi/initiator/parse_util.h"

namespace skiff::scsi {
namespace {

constexpr size_t kStandardInquiryLength = 36;
constexpr size_t kVpdHeader = 4;

// Fields are padded with spaces; some devices pad with NUL.
std::string Text(Bytes bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const uint8_t byte : bytes) {
    const bool printable = byte >= 0x20 && byte < 0x7f;
    text.push_back(byte == 0 ? ' ' : printable ? static_cast<char>(byte) : '?');
  }
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::string HexText(Bytes bytes) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// Checks a page's header. Returns the page, header included, as far as its
// length field and what arrived allow.
absl::StatusOr<Bytes> VpdPage(Bytes data, uint8_t page, absl::string_view name,
                              size_t min_length) {
  if (data.size() < kVpdHeader) return TooShort(name, data, min_length);
  if (data[1] != page) {
    return absl::DataLossError(absl::StrCat(
        "the device returned VPD page ", absl::Hex(data[1], absl::kZeroPad2),
        "h instead of ", absl::Hex(page, absl::kZeroPad2), "h (", name, ")"));
  }
  const Bytes whole = Limit(data, kVpdHeader, LoadBe16(&data[2]));
  if (whole.size() < min_length) return TooShort(name, whole, min_length);
  return whole;
}

}  // namespace

absl::StatusOr<InquiryData> ParseInquiry(Bytes data) {
  constexpr absl::string_view kName = "standard INQUIRY data";
  if (data.size() < 5) return TooShort(kName, data, kStandardInquiryLength);
  data = Limit(data, 5, data[4]);
  if (data.size() < kStandardInquiryLength) {
    return TooShort(kName, data, kStandardInquiryLength);
  }
  InquiryData inquiry;
  inquiry.peripheral_qualifier = data[0] >> 5;
  inquiry.device_type = data[0] & 0x1f;
  inquiry.removable = (data[1] & 0x80) != 0;
  inquiry.version = data[2];
  inquiry.target_port_group_support = (data[5] >> 4) & 3;
  inquiry.third_party_copy = (data[5] & 0x08) != 0;
  inquiry.command_queuing = (data[7] & 0x02) != 0;
  inquiry.vendor = Text(data.subspan(8, 8));
  inquiry.product = Text(data.subspan(16, 16));
  inquiry.revision = Text(data.subspan(32, 4));
  return inquiry;
}

absl::StatusOr<std::vector<uint8_t>> ParseSupportedVpdPages(Bytes data) {
  const absl::StatusOr<Bytes> page =
      VpdPage(data, kVpdSupportedPages, "the list of VPD pages", kVpdHeader);
  if (!page.ok()) return page.status();
  return std::vector<uint8_t>(page->begin() + kVpdHeader, page->end());
}

absl::StatusOr<std::string> ParseUnitSerialNumber(Bytes data) {
  const absl::StatusOr<Bytes> page =
      VpdPage(data, kVpdUnitSerialNumber, "the serial number", kVpdHeader);
  if (!page.ok()) return page.status();
  return Text(page->subspan(kVpdHeader));
}

absl::StatusOr<std::vector<Designator>> ParseDeviceIdentification(Bytes data) {
  constexpr size_t kDescriptorHeader = 4;
  const absl::StatusOr<Bytes> page = VpdPage(
      data, kVpdDeviceIdentification, "the device identification", kVpdHeader);
  if (!page.ok()) return page.status();
  // Cut by the allocation length: the last designator may be incomplete.
  const bool truncated = page->size() < kVpdHeader + size_t{LoadBe16(&data[2])};
  std::vector<Designator> designators;
  Bytes rest = page->subspan(kVpdHeader);
  while (!rest.empty()) {
    if (rest.size() < kDescriptorHeader ||
        rest.size() - kDescriptorHeader < rest[3]) {
      if (truncated) break;
      return absl::DataLossError(absl::StrCat(
          "designator ", designators.size() + 1,
          " of the device identification goes beyond the end of its page"));
    }
    Designator designator;
    designator.code_set = rest[0] & 0x0f;
    designator.type = rest[1] & 0x0f;
    const uint8_t association = (rest[1] >> 4) & 3;
    const Bytes value = rest.subspan(kDescriptorHeader, rest[3]);
    designator.value.assign(value.begin(), value.end());
    rest.remove_prefix(kDescriptorHeader + value.size());
    if (association > 2) continue;  // Reserved.
    designator.association = static_cast<Designator::Association>(association);
    designators.push_back(std::move(designator));
  }
  return designators;
}

std::string Designator::ToString() const {
  switch (type) {
    case 1:
      return absl::StrCat("t10.", Text(value));
    case 2:
      return absl::StrCat("eui.", HexText(value));
    case 3:
      return absl::StrCat("naa.", HexText(value));
    case 8:
      return Text(value);
    default:
      return absl::StrCat("type ", type, ": ", HexText(value));
  }
}

const Designator* BestLogicalUnitDesignator(
    absl::Span<const Designator> designators) {
  for (const uint8_t type : {3, 2, 8, 1}) {
    for (const Designator& designator : designators) {
      if (designator.type == type && !designator.value.empty() &&
          designator.association == Designator::Association::kLogicalUnit) {
        return &designator;
      }
    }
  }
  return nullptr;
}

absl::StatusOr<BlockLimits> ParseBlockLimits(Bytes data) {
  // SBC-2's page ends after the transfer lengths.
  constexpr size_t kShortLength = 16;
  constexpr size_t kLengthWithUnmap = 36;
  constexpr size_t kLengthWithWriteSame = 44;
  const absl::StatusOr<Bytes> found =
      VpdPage(data, kVpdBlockLimits, "the block limits", kShortLength);
  if (!found.ok()) return found.status();
  const Bytes page = *found;
  BlockLimits limits;
  limits.write_same_non_zero = (page[4] & 1) != 0;
  limits.max_compare_and_write_length = page[5];
  limits.optimal_transfer_granularity = LoadBe16(&page[6]);
  limits.max_transfer_length = LoadBe32(&page[8]);
  limits.optimal_transfer_length = LoadBe32(&page[12]);
  if (page.size() >= kLengthWithUnmap) {
    limits.max_unmap_lba_count = LoadBe32(&page[20]);
    limits.max_unmap_descriptor_count = LoadBe32(&page[24]);
    limits.optimal_unmap_granularity = LoadBe32(&page[28]);
    // Bit 31 says whether the alignment is valid.
    const uint32_t alignment = LoadBe32(&page[32]);
    if ((alignment >> 31) != 0) {
      limits.unmap_granularity_alignment = alignment & 0x7fffffff;
    }
  }
  if (page.size() >= kLengthWithWriteSame) {
    limits.max_write_same_length = LoadBe64(&page[36]);
  }
  return limits;
}

absl::StatusOr<BlockDeviceCharacteristics> ParseBlockDeviceCharacteristics(
    Bytes data) {
  const absl::StatusOr<Bytes> page =
      VpdPage(data, kVpdBlockDeviceCharacteristics,
              "the block device characteristics", 6);
  if (!page.ok()) return page.status();
  return BlockDeviceCharacteristics{LoadBe16(&(*page)[4])};
}

absl::StatusOr<LogicalBlockProvisioning> ParseLogicalBlockProvisioning(
    Bytes data) {
  const absl::StatusOr<Bytes> page =
      VpdPage(data, kVpdLogicalBlockProvisioning,
              "the logical block provisioning page", 7);
  if (!page.ok()) return page.status();
  const uint8_t flags = (*page)[5];
  LogicalBlockProvisioning provisioning;
  provisioning.unmap = (flags & 0x80) != 0;
  provisioning.write_same_16 = (flags & 0x40) != 0;
  provisioning.write_same_10 = (flags & 0x20) != 0;
  provisioning.read_zeroes = (flags >> 2) & 7;
  provisioning.type = (*page)[6] & 7;
  return provisioning;
}

}  // namespace skiff::scsi
