#include "scsi/initiator/cdb.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "absl/strings/str_cat.h"
#include "scsi/endian.h"

namespace skiff::scsi {
namespace {

// Operation codes (SPC-4 annex E) that are not shared by service actions.
enum Opcode : uint8_t {
  kTestUnitReady = 0x00,
  kRequestSense = 0x03,
  kRead6 = 0x08,
  kWrite6 = 0x0a,
  kInquiry = 0x12,
  kModeSelect6 = 0x15,
  kModeSense6 = 0x1a,
  kStartStopUnit = 0x1b,
  kSendDiagnostic = 0x1d,
  kPreventAllowMediumRemoval = 0x1e,
  kReadCapacity10 = 0x25,
  kRead10 = 0x28,
  kWrite10 = 0x2a,
  kVerify10 = 0x2f,
  kSynchronizeCache10 = 0x35,
  kWriteSame10 = 0x41,
  kUnmap = 0x42,
  kModeSelect10 = 0x55,
  kModeSense10 = 0x5a,
  kPersistentReserveIn = 0x5e,
  kPersistentReserveOut = 0x5f,
  kRead16 = 0x88,
  kCompareAndWrite = 0x89,
  kWrite16 = 0x8a,
  kVerify16 = 0x8f,
  kSynchronizeCache16 = 0x91,
  kWriteSame16 = 0x93,
  kServiceActionIn16 = 0x9e,
  kReportLuns = 0xa0,
  kMaintenanceIn = 0xa3,
  kRead12 = 0xa8,
  kWrite12 = 0xaa,
};
constexpr uint8_t kReadCapacity16Action = 0x10;
constexpr uint8_t kGetLbaStatusAction = 0x12;
constexpr uint8_t kReportSupportedOpcodesAction = 0x0c;

constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kMax16 = std::numeric_limits<uint16_t>::max();

struct NamedOpcode {
  uint8_t opcode;
  const char* name;
};
constexpr NamedOpcode kNames[] = {
    {kTestUnitReady, "TEST UNIT READY"},
    {kRequestSense, "REQUEST SENSE"},
    {kRead6, "READ (6)"},
    {kWrite6, "WRITE (6)"},
    {kInquiry, "INQUIRY"},
    {kModeSelect6, "MODE SELECT (6)"},
    {kModeSense6, "MODE SENSE (6)"},
    {kStartStopUnit, "START STOP UNIT"},
    {kSendDiagnostic, "SEND DIAGNOSTIC"},
    {kPreventAllowMediumRemoval, "PREVENT ALLOW MEDIUM REMOVAL"},
    {kReadCapacity10, "READ CAPACITY (10)"},
    {kRead10, "READ (10)"},
    {kWrite10, "WRITE (10)"},
    {kVerify10, "VERIFY (10)"},
    {kSynchronizeCache10, "SYNCHRONIZE CACHE (10)"},
    {kWriteSame10, "WRITE SAME (10)"},
    {kUnmap, "UNMAP"},
    {kModeSelect10, "MODE SELECT (10)"},
    {kModeSense10, "MODE SENSE (10)"},
    {kPersistentReserveIn, "PERSISTENT RESERVE IN"},
    {kPersistentReserveOut, "PERSISTENT RESERVE OUT"},
    {kRead16, "READ (16)"},
    {kCompareAndWrite, "COMPARE AND WRITE"},
    {kWrite16, "WRITE (16)"},
    {kVerify16, "VERIFY (16)"},
    {kSynchronizeCache16, "SYNCHRONIZE CACHE (16)"},
    {kWriteSame16, "WRITE SAME (16)"},
    {kReportLuns, "REPORT LUNS"},
    {kRead12, "READ (12)"},
    {kWrite12, "WRITE (12)"},
};

std::string NameOf(const uint8_t* bytes) {
  const uint8_t opcode = bytes[0];
  const uint8_t action = bytes[1] & 0x1f;
  if (opcode == kServiceActionIn16 && action == kReadCapacity16Action) {
    return "READ CAPACITY (16)";
  }
  if (opcode == kServiceActionIn16 && action == kGetLbaStatusAction) {
    return "GET LBA STATUS";
  }
  if (opcode == kMaintenanceIn && action == kReportSupportedOpcodesAction) {
    return "REPORT SUPPORTED OPERATION CODES";
  }
  for (const NamedOpcode& named : kNames) {
    if (named.opcode == opcode) return named.name;
  }
  return absl::StrCat("operation code ", absl::Hex(opcode, absl::kZeroPad2),
                      "h");
}

Cdb Make(uint8_t length, uint8_t opcode) {
  Cdb cdb;
  cdb.length = length;
  cdb.bytes[0] = opcode;
  return cdb;
}

uint8_t Bit(bool value, int position) {
  return static_cast<uint8_t>(uint8_t{value} << position);
}

bool FitsIn10(uint64_t lba, uint32_t blocks) {
  return lba <= kMax32 && blocks <= kMax16;
}

// The layouts that the commands on a range of blocks share: options in byte 1,
// then the address, then the number of blocks.
Cdb Range10(uint8_t opcode, uint8_t options, uint64_t lba, uint32_t blocks) {
  assert(FitsIn10(lba, blocks));
  Cdb cdb = Make(10, opcode);
  cdb.bytes[1] = options;
  StoreBe32(&cdb.bytes[2], static_cast<uint32_t>(lba));
  StoreBe16(&cdb.bytes[7], static_cast<uint16_t>(blocks));
  return cdb;
}

Cdb Range12(uint8_t opcode, uint8_t options, uint64_t lba, uint32_t blocks) {
  assert(lba <= kMax32);
  Cdb cdb = Make(12, opcode);
  cdb.bytes[1] = options;
  StoreBe32(&cdb.bytes[2], static_cast<uint32_t>(lba));
  StoreBe32(&cdb.bytes[6], blocks);
  return cdb;
}

Cdb Range16(uint8_t opcode, uint8_t options, uint64_t lba, uint32_t blocks) {
  Cdb cdb = Make(16, opcode);
  cdb.bytes[1] = options;
  StoreBe64(&cdb.bytes[2], lba);
  StoreBe32(&cdb.bytes[10], blocks);
  return cdb;
}

// 10 bytes where they suffice: that is what every device understands.
Cdb Range(uint8_t opcode10, uint8_t opcode16, uint8_t options, uint64_t lba,
          uint32_t blocks) {
  return FitsIn10(lba, blocks) ? Range10(opcode10, options, lba, blocks)
                               : Range16(opcode16, options, lba, blocks);
}

struct TransferOpcodes {
  uint8_t cdb6, cdb10, cdb12, cdb16;
};

Cdb Transfer(const TransferOpcodes& opcodes, uint64_t lba, uint32_t blocks,
             const cdb::TransferOptions& options) {
  using cdb::Size;
  assert(cdb::Fits(options.size, lba, blocks, options));
  const uint8_t flags = Bit(options.dpo, 4) | Bit(options.fua, 3);
  switch (options.size) {
    case Size::kAuto:
      return Range(opcodes.cdb10, opcodes.cdb16, flags, lba, blocks);
    case Size::k6: {
      Cdb cdb = Make(6, opcodes.cdb6);
      StoreBe24(&cdb.bytes[1], static_cast<uint32_t>(lba));
      cdb.bytes[4] = static_cast<uint8_t>(blocks);  // 256 is coded as 0.
      return cdb;
    }
    case Size::k10:
      return Range10(opcodes.cdb10, flags, lba, blocks);
    case Size::k12:
      return Range12(opcodes.cdb12, flags, lba, blocks);
    case Size::k16:
      break;
  }
  return Range16(opcodes.cdb16, flags, lba, blocks);
}

}  // namespace

void SetCdb(const Cdb& cdb, Command* command) {
  command->cdb_length = cdb.length;
  std::copy_n(cdb.bytes.begin(), cdb.length, command->cdb.begin());
}

std::string CommandName(const Cdb& cdb) { return NameOf(cdb.bytes.data()); }

std::string CommandName(const Command& command) {
  return NameOf(command.cdb.data());
}

void EncodeUnmapList(uint64_t lba, uint32_t blocks,
                     uint8_t (&out)[kUnmapListLength]) {
  StoreBe16(&out[0], kUnmapListLength - 2);
  StoreBe16(&out[2], kUnmapListLength - 8);
  StoreBe32(&out[4], 0);
  StoreBe64(&out[8], lba);
  StoreBe32(&out[16], blocks);
  StoreBe32(&out[20], 0);
}

namespace cdb {

Cdb TestUnitReady() { return Make(6, kTestUnitReady); }

Cdb RequestSense(uint8_t allocation_length, bool descriptor_format) {
  Cdb cdb = Make(6, kRequestSense);
  cdb.bytes[1] = Bit(descriptor_format, 0);
  cdb.bytes[4] = allocation_length;
  return cdb;
}

Cdb Inquiry(uint16_t allocation_length) {
  Cdb cdb = Make(6, kInquiry);
  StoreBe16(&cdb.bytes[3], allocation_length);
  return cdb;
}

Cdb InquiryVpd(uint8_t page, uint16_t allocation_length) {
  Cdb cdb = Inquiry(allocation_length);
  cdb.bytes[1] = 1;  // EVPD.
  cdb.bytes[2] = page;
  return cdb;
}

Cdb ReportLuns(uint32_t allocation_length, uint8_t select_report) {
  Cdb cdb = Make(12, kReportLuns);
  cdb.bytes[2] = select_report;
  StoreBe32(&cdb.bytes[6], allocation_length);
  return cdb;
}

Cdb ModeSense6(uint8_t page, uint8_t subpage, uint8_t allocation_length) {
  Cdb cdb = Make(6, kModeSense6);
  cdb.bytes[2] = page;  // PC = 0: current values.
  cdb.bytes[3] = subpage;
  cdb.bytes[4] = allocation_length;
  return cdb;
}

Cdb ModeSense10(uint8_t page, uint8_t subpage, uint16_t allocation_length) {
  Cdb cdb = Make(10, kModeSense10);
  cdb.bytes[2] = page;
  cdb.bytes[3] = subpage;
  StoreBe16(&cdb.bytes[7], allocation_length);
  return cdb;
}

Cdb ModeSelect6(uint8_t parameter_list_length, bool save_pages) {
  Cdb cdb = Make(6, kModeSelect6);
  cdb.bytes[1] = Bit(true, 4) | Bit(save_pages, 0);  // PF: page format.
  cdb.bytes[4] = parameter_list_length;
  return cdb;
}

Cdb ModeSelect10(uint16_t parameter_list_length, bool save_pages) {
  Cdb cdb = Make(10, kModeSelect10);
  cdb.bytes[1] = Bit(true, 4) | Bit(save_pages, 0);
  StoreBe16(&cdb.bytes[7], parameter_list_length);
  return cdb;
}

Cdb ReportSupportedOperationCodes(uint32_t allocation_length) {
  Cdb cdb = Make(12, kMaintenanceIn);
  cdb.bytes[1] = kReportSupportedOpcodesAction;
  StoreBe32(&cdb.bytes[6], allocation_length);
  return cdb;
}

Cdb PersistentReserveIn(uint8_t service_action, uint16_t allocation_length) {
  Cdb cdb = Make(10, kPersistentReserveIn);
  cdb.bytes[1] = service_action;
  StoreBe16(&cdb.bytes[7], allocation_length);
  return cdb;
}

Cdb PersistentReserveOut(uint8_t service_action, uint8_t scope_and_type,
                         uint32_t parameter_list_length) {
  Cdb cdb = Make(10, kPersistentReserveOut);
  cdb.bytes[1] = service_action;
  cdb.bytes[2] = scope_and_type;
  StoreBe32(&cdb.bytes[5], parameter_list_length);
  return cdb;
}

Cdb SendDiagnostic() {
  Cdb cdb = Make(6, kSendDiagnostic);
  cdb.bytes[1] = Bit(true, 2);  // SELFTEST.
  return cdb;
}

Cdb PreventAllowMediumRemoval(bool prevent) {
  Cdb cdb = Make(6, kPreventAllowMediumRemoval);
  cdb.bytes[4] = Bit(prevent, 0);
  return cdb;
}

Cdb StartStopUnit(bool start, bool load_eject, bool immediate) {
  Cdb cdb = Make(6, kStartStopUnit);
  cdb.bytes[1] = Bit(immediate, 0);
  cdb.bytes[4] = Bit(load_eject, 1) | Bit(start, 0);
  return cdb;
}

Cdb ReadCapacity10() { return Make(10, kReadCapacity10); }

Cdb ReadCapacity16(uint32_t allocation_length) {
  Cdb cdb = Make(16, kServiceActionIn16);
  cdb.bytes[1] = kReadCapacity16Action;
  StoreBe32(&cdb.bytes[10], allocation_length);
  return cdb;
}

bool Fits(Size size, uint64_t lba, uint32_t blocks,
          const TransferOptions& options) {
  switch (size) {
    case Size::k6:
      return lba < (1u << 21) && blocks >= 1 && blocks <= 256 && !options.fua &&
             !options.dpo;
    case Size::k10:
      return FitsIn10(lba, blocks);
    case Size::k12:
      return lba <= kMax32;
    case Size::kAuto:
    case Size::k16:
      break;
  }
  return true;
}

Cdb Read(uint64_t lba, uint32_t blocks, const TransferOptions& options) {
  return Transfer({kRead6, kRead10, kRead12, kRead16}, lba, blocks, options);
}

Cdb Write(uint64_t lba, uint32_t blocks, const TransferOptions& options) {
  return Transfer({kWrite6, kWrite10, kWrite12, kWrite16}, lba, blocks,
                  options);
}

Cdb Verify(uint64_t lba, uint32_t blocks, uint8_t byte_check) {
  assert(byte_check <= 3);
  return Range(kVerify10, kVerify16, static_cast<uint8_t>(byte_check << 1), lba,
               blocks);
}

Cdb SynchronizeCache(uint64_t lba, uint32_t blocks, bool immediate) {
  return Range(kSynchronizeCache10, kSynchronizeCache16, Bit(immediate, 1), lba,
               blocks);
}

Cdb WriteSame(uint64_t lba, uint32_t blocks, const WriteSameOptions& options) {
  const uint8_t flags = Bit(options.anchor, 4) | Bit(options.unmap, 3);
  // Only the long form has NDOB.
  if (options.no_data_out || options.long_form) {
    return Range16(kWriteSame16, flags | Bit(options.no_data_out, 0), lba,
                   blocks);
  }
  return Range(kWriteSame10, kWriteSame16, flags, lba, blocks);
}

Cdb Unmap(uint16_t parameter_list_length, bool anchor) {
  Cdb cdb = Make(10, kUnmap);
  cdb.bytes[1] = Bit(anchor, 0);
  StoreBe16(&cdb.bytes[7], parameter_list_length);
  return cdb;
}

Cdb GetLbaStatus(uint64_t lba, uint32_t allocation_length) {
  return Range16(kServiceActionIn16, kGetLbaStatusAction, lba,
                 allocation_length);
}

Cdb CompareAndWrite(uint64_t lba, uint8_t blocks, bool fua) {
  Cdb cdb = Make(16, scsi::kCompareAndWrite);
  cdb.bytes[1] = Bit(fua, 3);
  StoreBe64(&cdb.bytes[2], lba);
  cdb.bytes[13] = blocks;
  return cdb;
}

}  // namespace cdb
}  // namespace skiff::scsi
