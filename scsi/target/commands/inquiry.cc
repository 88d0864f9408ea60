#include <algorithm>
#include <cstring>

#include "absl/strings/string_view.h"
#include "scsi/endian.h"
#include "scsi/target/commands/command_table.h"
#include "scsi/target/nexus_impl.h"

namespace skiff::scsi {
namespace {

constexpr uint8_t kEvpd = 0x01;

// PERIPHERAL QUALIFIER and PERIPHERAL DEVICE TYPE, SPC-4 section 6.6.2.
constexpr uint8_t kDirectAccessBlockDevice = 0x00;
constexpr uint8_t kWellKnownLogicalUnit = 0x1e;
constexpr uint8_t kNotCapable = 0x7f;

enum VpdPage : uint8_t {
  kSupportedVpdPages = 0x00,
  kUnitSerialNumber = 0x80,
  kDeviceIdentification = 0x83,
  kExtendedInquiryData = 0x86,
  kBlockLimits = 0xb0,
  kBlockDeviceCharacteristics = 0xb1,
  kLogicalBlockProvisioning = 0xb2,
};

uint8_t PeripheralDeviceType(const LuNexus& lu) {
  switch (lu.kind()) {
    case LuNexus::Kind::kBlockDevice:
      return kDirectAccessBlockDevice;
    case LuNexus::Kind::kReportLuns:
      return kWellKnownLogicalUnit;
    case LuNexus::Kind::kNone:
      break;
  }
  return kNotCapable;
}

// Left-aligned ASCII, padded with spaces.
void PutText(uint8_t* out, size_t length, absl::string_view text) {
  std::memset(out, ' ', length);
  std::memcpy(out, text.data(), std::min(length, text.size()));
}

constexpr size_t kStandardLength = 74;

// SPC-4 section 6.6.2.
size_t StandardData(const LuNexus& lu, uint8_t* out) {
  // SAM-5, iSCSI, SPC-4, SBC-3: each without claiming a version of the
  // document.
  static constexpr uint16_t kVersionDescriptors[] = {0x00a0, 0x0960, 0x0460,
                                                     0x04c0};
  const LogicalUnitOptions defaults;
  const LogicalUnitOptions& options =
      lu.kind() == LuNexus::Kind::kBlockDevice ? lu.lu().options() : defaults;
  std::memset(out, 0, kStandardLength);
  out[0] = PeripheralDeviceType(lu);
  out[2] = 0x06;                // VERSION: SPC-4.
  out[3] = 0x20 | 0x10 | 0x02;  // NORMACA, HISUP, RESPONSE DATA FORMAT.
  out[4] = kStandardLength - 5;
  out[7] = 0x02;  // CMDQUE.
  PutText(out + 8, 8, options.vendor);
  PutText(out + 16, 16, options.product);
  PutText(out + 32, 4, options.revision);
  uint8_t* p = out + 58;
  for (const uint16_t descriptor : kVersionDescriptors) {
    StoreBe16(p, descriptor);
    p += 2;
  }
  return kStandardLength;
}

// --- The vital product data pages. Each writes what follows the four bytes of
// the page's header, and returns how many bytes that is.

size_t UnitSerialNumber(const LuNexus& lu, uint8_t* out) {
  const std::string& serial = lu.lu().serial();
  std::memcpy(out, serial.data(), serial.size());
  return serial.size();
}

// Designation descriptors, SPC-4 section 7.8.6.
class Designators {
 public:
  enum Association : uint8_t { kLogicalUnit = 0, kTargetPort = 1, kTarget = 2 };
  enum Type : uint8_t {
    kT10VendorId = 1,
    kNaa = 3,
    kRelativeTargetPort = 4,
    kScsiName = 8,
  };
  enum CodeSet : uint8_t { kBinary = 1, kAscii = 2, kUtf8 = 3 };

  Designators(uint8_t* out, ProtocolIdentifier protocol)
      : begin_(out), p_(out), protocol_(protocol) {}

  // Room for the designator itself, which the caller fills.
  uint8_t* Add(Association association, Type type, CodeSet code_set,
               size_t length) {
    constexpr uint8_t kPiv = 0x80;
    p_[0] = code_set;
    p_[1] = static_cast<uint8_t>(association << 4 | type);
    if (association != kLogicalUnit) {
      p_[0] |= static_cast<uint8_t>(static_cast<uint8_t>(protocol_) << 4);
      p_[1] |= kPiv;
    }
    p_[2] = 0;
    p_[3] = static_cast<uint8_t>(length);
    uint8_t* designator = p_ + 4;
    p_ = designator + length;
    return designator;
  }
  // Null-terminated and padded to a multiple of four (SPC-4 section 7.8.6.11).
  void AddName(Association association, absl::string_view name) {
    const size_t length = (name.size() + 4) / 4 * 4;
    if (length > UINT8_MAX) return;  // No iSCSI name is that long.
    uint8_t* out = Add(association, kScsiName, kUtf8, length);
    std::memset(out, 0, length);
    std::memcpy(out, name.data(), name.size());
  }
  size_t size() const { return static_cast<size_t>(p_ - begin_); }

 private:
  uint8_t* const begin_;
  uint8_t* p_;
  const ProtocolIdentifier protocol_;  // Of the target's ports.
};

size_t DeviceIdentification(const LuNexus& lu, uint8_t* out) {
  const NexusImpl& nexus = lu.nexus();
  const NexusIdentity& identity = nexus.identity();
  Designators designators(out, identity.protocol);
  using D = Designators;
  if (lu.kind() == LuNexus::Kind::kBlockDevice) {
    const std::string& serial = lu.lu().serial();
    uint8_t* p = designators.Add(D::kLogicalUnit, D::kNaa, D::kBinary, 8);
    StoreBe64(p, lu.lu().naa());
    p = designators.Add(D::kLogicalUnit, D::kT10VendorId, D::kAscii,
                        8 + serial.size());
    PutText(p, 8, lu.lu().options().vendor);
    std::memcpy(p + 8, serial.data(), serial.size());
  }
  uint8_t* p =
      designators.Add(D::kTargetPort, D::kRelativeTargetPort, D::kBinary, 4);
  StoreBe16(p, 0);
  StoreBe16(p + 2, identity.relative_target_port);
  designators.AddName(D::kTargetPort, identity.target_port);
  designators.AddName(D::kTarget, nexus.target().name());
  return designators.size();
}

// SPC-4 section 7.8.7.
size_t ExtendedInquiryData(const LuNexus& lu, uint8_t* out) {
  constexpr size_t kLength = 60;
  std::memset(out, 0, kLength);
  out[1] = 0x07;  // HEADSUP, ORDSUP, SIMPSUP.
  if (lu.lu().volatile_write_cache()) out[2] = 0x01;  // V_SUP.
  out[3] = 0x01;  // LUICLR: unit attentions are cleared per I_T nexus.
  return kLength;
}

// SBC-3 section 6.6.3.
size_t BlockLimits(const LuNexus& lu, uint8_t* out) {
  constexpr size_t kLength = 60;
  constexpr uint8_t kWsnz = 0x01;
  const LogicalUnit& unit = lu.lu();
  std::memset(out, 0, kLength);
  out[0] = kWsnz;
  out[1] = static_cast<uint8_t>(unit.max_compare_and_write_blocks());
  StoreBe16(out + 2,
            static_cast<uint16_t>(1u << unit.physical_block_exponent()));
  StoreBe32(out + 4, unit.max_transfer_blocks());
  if (unit.thin()) {
    const uint32_t granularity =
        std::max(unit.info().unmap_granularity_bytes >> unit.block_shift(), 1u);
    constexpr uint8_t kUgavalid = 0x80;
    StoreBe32(out + 16, LogicalUnit::kMaxUnmapBlocks);
    StoreBe32(out + 20, LogicalUnit::kMaxUnmapDescriptors);
    StoreBe32(out + 24, granularity);
    out[28] = kUgavalid;  // Aligned at LBA zero.
  }
  StoreBe64(out + 32, unit.max_transfer_blocks());  // WRITE SAME.
  return kLength;
}

// SBC-3 section 6.6.2.
size_t BlockDeviceCharacteristics(const LuNexus& lu, uint8_t* out) {
  constexpr size_t kLength = 60;
  std::memset(out, 0, kLength);
  // MEDIUM ROTATION RATE: not reported, or no rotation.
  StoreBe16(out, lu.lu().info().rotational ? 0 : 1);
  return kLength;
}

// SBC-3 section 6.6.4.
size_t LogicalBlockProvisioning(const LuNexus& lu, uint8_t* out) {
  constexpr size_t kLength = 4;
  std::memset(out, 0, kLength);
  if (lu.lu().thin()) {
    out[1] = 0x80 | 0x40 | 0x20 | 0x04;  // LBPU, LBPWS, LBPWS10, LBPRZ.
    out[2] = 0x02;                       // PROVISIONING TYPE: thin.
  }
  return kLength;
}

struct VpdPageInfo {
  uint8_t code;
  bool well_known;  // The REPORT LUNS well-known logical unit has it too.
  size_t (*write)(const LuNexus& lu, uint8_t* out);
};

size_t SupportedVpdPages(const LuNexus& lu, uint8_t* out);

constexpr VpdPageInfo kVpdPages[] = {
    {kSupportedVpdPages, true, &SupportedVpdPages},
    {kUnitSerialNumber, false, &UnitSerialNumber},
    {kDeviceIdentification, true, &DeviceIdentification},
    {kExtendedInquiryData, false, &ExtendedInquiryData},
    {kBlockLimits, false, &BlockLimits},
    {kBlockDeviceCharacteristics, false, &BlockDeviceCharacteristics},
    {kLogicalBlockProvisioning, false, &LogicalBlockProvisioning},
};

bool HasPage(const LuNexus& lu, const VpdPageInfo& page) {
  switch (lu.kind()) {
    case LuNexus::Kind::kBlockDevice:
      return true;
    case LuNexus::Kind::kReportLuns:
      return page.well_known;
    case LuNexus::Kind::kNone:
      return page.code == kSupportedVpdPages;
  }
  return false;
}

size_t SupportedVpdPages(const LuNexus& lu, uint8_t* out) {
  size_t count = 0;
  for (const VpdPageInfo& page : kVpdPages) {
    if (HasPage(lu, page)) out[count++] = page.code;
  }
  return count;
}

const VpdPageInfo* FindPage(const LuNexus& lu, uint8_t code) {
  for (const VpdPageInfo& page : kVpdPages) {
    if (page.code == code && HasPage(lu, page)) return &page;
  }
  return nullptr;
}

// Longer than any of the data.
constexpr size_t kMaxInquiryData = 1024;

void SendInquiryData(Task* task) {
  LuNexus& lu = *task->lu_nexus;
  uint8_t* out = task->buffer->data;
  size_t length = 0;
  if ((task->cdb[1] & kEvpd) == 0) {
    length = StandardData(lu, out);
  } else {
    out[0] = PeripheralDeviceType(lu);
    out[1] = task->cdb[2];
    const size_t page_length = FindPage(lu, task->cdb[2])->write(lu, out + 4);
    StoreBe16(out + 2, static_cast<uint16_t>(page_length));
    length = 4 + page_length;
  }
  lu.GoodWithData(task, out,
                  std::min<uint64_t>(length, LoadBe16(&task->cdb[3])));
}

}  // namespace

// SPC-4 section 6.6.
void Inquiry(LuNexus& lu, Task* task) {
  const bool evpd = (task->cdb[1] & kEvpd) != 0;
  if (!evpd && task->cdb[2] != 0) return lu.InvalidCdbField(task, 2);
  if (evpd && FindPage(lu, task->cdb[2]) == nullptr) {
    return lu.InvalidCdbField(task, 2);
  }
  if (lu.AcquireBuffer(task, kMaxInquiryData, &SendInquiryData)) {
    SendInquiryData(task);
  }
}

}  // namespace skiff::scsi
