#include "tools/skiff/vpd_facts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/skiff/base/exit_code.h"

namespace skiff::tools {
namespace {

using Section = FactsReport::Section;

uint64_t Number(uint64_t value) { return value; }

std::string AssociationName(scsi::Designator::Association association) {
  switch (association) {
    case scsi::Designator::Association::kLogicalUnit:
      return "logical unit";
    case scsi::Designator::Association::kTargetPort:
      return "target port";
    case scsi::Designator::Association::kTargetDevice:
      return "target device";
  }
  return "other";
}

Section SupportedPages(const std::vector<uint8_t>& pages) {
  std::vector<std::string> codes;
  for (const uint8_t page : pages) {
    codes.push_back(absl::StrFormat("%02xh", page));
  }
  return {"supported_pages",
          "Supported VPD pages (00h)",
          {{"pages", "pages", codes, ""}}};
}

Section Identification(const std::vector<scsi::Designator>& designators) {
  Section section = {
      "device_identification", "Device identification (83h)", {}};
  for (size_t i = 0; i < designators.size(); ++i) {
    section.facts.push_back({absl::StrCat("designator_", i),
                             AssociationName(designators[i].association),
                             designators[i].ToString(), ""});
  }
  return section;
}

Section Limits(const scsi::BlockLimits& limits) {
  return {
      "block_limits",
      "Block limits (b0h); 0 stands for what the unit does not say",
      {
          {"max_transfer_length", "maximum transfer length",
           Number(limits.max_transfer_length), "blocks"},
          {"optimal_transfer_length", "optimal transfer length",
           Number(limits.optimal_transfer_length), "blocks"},
          {"optimal_transfer_granularity", "optimal transfer granularity",
           Number(limits.optimal_transfer_granularity), "blocks"},
          {"max_compare_and_write_length", "maximum COMPARE AND WRITE length",
           Number(limits.max_compare_and_write_length), "blocks"},
          {"max_unmap_lba_count", "maximum UNMAP length",
           Number(limits.max_unmap_lba_count), "blocks"},
          {"max_unmap_descriptor_count", "maximum UNMAP descriptors",
           Number(limits.max_unmap_descriptor_count), ""},
          {"optimal_unmap_granularity", "optimal UNMAP granularity",
           Number(limits.optimal_unmap_granularity), "blocks"},
          {"max_write_same_length", "maximum WRITE SAME length",
           Number(limits.max_write_same_length), "blocks"},
          {"write_same_non_zero", "WRITE SAME needs a length",
           limits.write_same_non_zero, ""},
      }};
}

std::string RotationText(uint16_t rate) {
  if (rate == 0) return "not reported";
  if (rate == 1) return "does not rotate";
  return absl::StrCat(rate, " rpm");
}

Section Provisioning(const scsi::LogicalBlockProvisioning& provisioning) {
  std::string type = "not reported";
  if (provisioning.type == 1) type = "resource provisioned";
  if (provisioning.type == 2) type = "thin provisioned";
  return {"logical_block_provisioning",
          "Logical block provisioning (b2h)",
          {
              {"type", "type", type, ""},
              {"unmap", "UNMAP", provisioning.unmap, ""},
              {"write_same_16_unmap", "WRITE SAME (16) with UNMAP",
               provisioning.write_same_16, ""},
              {"write_same_10_unmap", "WRITE SAME (10) with UNMAP",
               provisioning.write_same_10, ""},
              {"unmapped_reads_zeroes", "unmapped blocks read as zeroes",
               provisioning.read_zeroes != 0, ""},
          }};
}

Section Undecoded(uint8_t page, absl::Span<const uint8_t> data) {
  const std::string hex = absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(data.data()), data.size()));
  return {absl::StrFormat("page_%02x", page),
          absl::StrFormat("VPD page %02xh", page),
          {{"hex", "bytes", hex, ""}}};
}

// The section of a parsed page, or why it could not be parsed.
template <typename T, typename Make>
absl::StatusOr<Section> Decode(const absl::StatusOr<T>& parsed, Make make) {
  if (!parsed.ok()) return parsed.status();
  return make(*parsed);
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> ParseVpdPages(
    const std::vector<std::string>& pages) {
  std::vector<uint8_t> codes;
  for (const std::string& page : pages) {
    if (page == "all") return std::vector<uint8_t>();
    absl::string_view digits = page;
    absl::ConsumePrefix(&digits, "0x");
    absl::ConsumeSuffix(&digits, "h");
    uint32_t code = 0;
    if (!absl::SimpleHexAtoi(digits, &code) || code > 0xff) {
      return UsageError(absl::StrCat(
          "--vpd: '", page,
          "' is no page code; write two hexadecimal digits such as 83, or "
          "all"));
    }
    codes.push_back(static_cast<uint8_t>(code));
  }
  return codes;
}

Section InquirySection(const scsi::InquiryData& inquiry) {
  return {
      "inquiry",
      "",
      {
          {"vendor", "vendor", inquiry.vendor, ""},
          {"product", "product", inquiry.product, ""},
          {"revision", "revision", inquiry.revision, ""},
          {"device_type", "device type", Number(inquiry.device_type), ""},
          {"version", "SPC version", Number(inquiry.version), ""},
          {"removable", "removable", inquiry.removable, ""},
          {"command_queuing", "command queuing", inquiry.command_queuing, ""},
          {"target_port_group_support", "target port group support",
           Number(inquiry.target_port_group_support), ""},
          {"third_party_copy", "third-party copy", inquiry.third_party_copy,
           ""},
      }};
}

absl::StatusOr<Section> VpdSection(uint8_t page,
                                   absl::Span<const uint8_t> data) {
  switch (page) {
    case scsi::kVpdSupportedPages:
      return Decode(scsi::ParseSupportedVpdPages(data), SupportedPages);
    case scsi::kVpdUnitSerialNumber:
      return Decode(scsi::ParseUnitSerialNumber(data),
                    [](const std::string& serial) {
                      return Section{"unit_serial_number",
                                     "Unit serial number (80h)",
                                     {{"serial", "serial", serial, ""}}};
                    });
    case scsi::kVpdDeviceIdentification:
      return Decode(scsi::ParseDeviceIdentification(data), Identification);
    case scsi::kVpdBlockLimits:
      return Decode(scsi::ParseBlockLimits(data), Limits);
    case scsi::kVpdBlockDeviceCharacteristics:
      return Decode(
          scsi::ParseBlockDeviceCharacteristics(data),
          [](const scsi::BlockDeviceCharacteristics& characteristics) {
            return Section{"block_device_characteristics",
                           "Block device characteristics (b1h)",
                           {{"rotation", "rotation",
                             RotationText(characteristics.rotation_rate), ""}}};
          });
    case scsi::kVpdLogicalBlockProvisioning:
      return Decode(scsi::ParseLogicalBlockProvisioning(data), Provisioning);
    default:
      return Undecoded(page, data);
  }
}

Section CapacitySection(const scsi::DiskInfo& info) {
  return {"capacity",
          "",
          {
              {"size", "size", info.size_bytes, "B"},
              {"blocks", "blocks", info.size_bytes / info.block_size, ""},
              {"block_size", "block size", Number(info.block_size), "bytes"},
              {"physical_block_size", "physical block size",
               Number(info.physical_block_size), "bytes"},
              {"read_only", "read-only", info.read_only, ""},
              {"volatile_write_cache", "volatile write cache",
               info.volatile_write_cache, ""},
              {"unmap", "can be unmapped", info.unmap, ""},
              {"unmapped_reads_zeroes", "unmapped blocks read as zeroes",
               info.unmapped_reads_zeroes, ""},
              {"identifier", "identifier", info.identifier, ""},
          }};
}

}  // namespace skiff::tools
