#ifndef SKIFF_SCSI_INITIATOR_CDB_H_
#define SKIFF_SCSI_INITIATOR_CDB_H_

#include <array>
#include <cstdint>
#include <string>

#include "scsi/initiator/command.h"

namespace skiff::scsi {

// A command descriptor block.
struct Cdb {
  uint8_t length = 0;
  std::array<uint8_t, 32> bytes = {};
};

void SetCdb(const Cdb& cdb, Command* command);

// "READ (10)"; "operation code C1h" for what is not known here.
std::string CommandName(const Cdb& cdb);
std::string CommandName(const Command& command);

// Builders, by the names of SPC-4 and SBC-3. Lengths of buffers are in bytes,
// `blocks` in logical blocks. What does not fit its field is the caller's
// mistake and asserted.
namespace cdb {

// --- SPC-4.
Cdb TestUnitReady();
Cdb RequestSense(uint8_t allocation_length, bool descriptor_format = false);
Cdb Inquiry(uint16_t allocation_length);
Cdb InquiryVpd(uint8_t page, uint16_t allocation_length);
Cdb ReportLuns(uint32_t allocation_length, uint8_t select_report = 0);
Cdb ModeSense6(uint8_t page, uint8_t subpage, uint8_t allocation_length);
Cdb ModeSense10(uint8_t page, uint8_t subpage, uint16_t allocation_length);
Cdb ModeSelect6(uint8_t parameter_list_length, bool save_pages);
Cdb ModeSelect10(uint16_t parameter_list_length, bool save_pages);
// All supported commands, each without its timeouts descriptor.
Cdb ReportSupportedOperationCodes(uint32_t allocation_length);
Cdb PersistentReserveIn(uint8_t service_action, uint16_t allocation_length);
Cdb PersistentReserveOut(uint8_t service_action, uint8_t scope_and_type,
                         uint32_t parameter_list_length);
// The default self-test.
Cdb SendDiagnostic();
Cdb PreventAllowMediumRemoval(bool prevent);

// --- SBC-3.
Cdb StartStopUnit(bool start, bool load_eject = false, bool immediate = false);
Cdb ReadCapacity10();
Cdb ReadCapacity16(uint32_t allocation_length);

enum class Size : uint8_t {
  kAuto,  // 10 bytes where the address and the length fit, else 16.
  k6,     // 21-bit address, 1 to 256 blocks, no options.
  k10,    // 32-bit address, 16-bit length.
  k12,    // 32-bit address, 32-bit length.
  k16,    // 64-bit address, 32-bit length.
};
struct TransferOptions {
  bool fua = false;  // Force unit access.
  bool dpo = false;  // Disable page out.
  Size size = Size::kAuto;
};
// Whether a READ or WRITE of this size can say this.
bool Fits(Size size, uint64_t lba, uint32_t blocks,
          const TransferOptions& options);
Cdb Read(uint64_t lba, uint32_t blocks, const TransferOptions& options = {});
Cdb Write(uint64_t lba, uint32_t blocks, const TransferOptions& options = {});

// `byte_check`: 0 verifies the medium; 1 compares with data-out; 3 compares
// each block with the only one in data-out.
Cdb Verify(uint64_t lba, uint32_t blocks, uint8_t byte_check = 0);
// 0 blocks: to the end of the medium.
Cdb SynchronizeCache(uint64_t lba = 0, uint32_t blocks = 0,
                     bool immediate = false);
struct WriteSameOptions {
  bool unmap = false;
  bool anchor = false;
  bool no_data_out = false;  // NDOB: zeroes, without a data-out buffer.
  bool long_form = false;    // WRITE SAME (16) also where (10) would do.
};
// 0 blocks: to the end of the medium, where the device allows it (WSNZ).
Cdb WriteSame(uint64_t lba, uint32_t blocks,
              const WriteSameOptions& options = {});
Cdb Unmap(uint16_t parameter_list_length, bool anchor = false);
Cdb GetLbaStatus(uint64_t lba, uint32_t allocation_length);
// The data-out buffer holds the compare data, then the write data.
Cdb CompareAndWrite(uint64_t lba, uint8_t blocks, bool fua = false);

}  // namespace cdb

// The UNMAP parameter list with one block descriptor (SBC-3 section 5.28.2).
inline constexpr uint16_t kUnmapListLength = 24;
void EncodeUnmapList(uint64_t lba, uint32_t blocks,
                     uint8_t (&out)[kUnmapListLength]);

}  // namespace skiff::scsi

#endif  // SKIFF_SCSI_INITIATOR_CDB_H_
