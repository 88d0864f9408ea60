#include "scsi/initiator/cdb.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

std::string Hex(const Cdb& cdb) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(cdb.bytes.data()), cdb.length));
}

TEST(CdbTest, PrimaryCommands) {
  EXPECT_EQ(Hex(cdb::TestUnitReady()), "000000000000");
  EXPECT_EQ(Hex(cdb::RequestSense(252, true)), "03010000fc00");
  EXPECT_EQ(Hex(cdb::Inquiry(0x0124)), "120000012400");
  EXPECT_EQ(Hex(cdb::InquiryVpd(0x83, 255)), "12018300ff00");
  EXPECT_EQ(Hex(cdb::ReportLuns(0x01020304, 2)), "a00002000000010203040000");
  EXPECT_EQ(Hex(cdb::ModeSense6(0x08, 0, 255)), "1a000800ff00");
  EXPECT_EQ(Hex(cdb::ModeSense10(0x3f, 0xff, 0x1234)), "5a003fff000000123400");
  EXPECT_EQ(Hex(cdb::ModeSelect6(24, true)), "151100001800");
  EXPECT_EQ(Hex(cdb::ModeSelect10(0x0124, false)), "55100000000000012400");
  EXPECT_EQ(Hex(cdb::ReportSupportedOperationCodes(4096)),
            "a30c00000000000010000000");
  EXPECT_EQ(Hex(cdb::PersistentReserveIn(1, 8)), "5e010000000000000800");
  EXPECT_EQ(Hex(cdb::PersistentReserveOut(1, 0x05, 24)),
            "5f010500000000001800");
  EXPECT_EQ(Hex(cdb::SendDiagnostic()), "1d0400000000");
  EXPECT_EQ(Hex(cdb::PreventAllowMediumRemoval(true)), "1e0000000100");
}

TEST(CdbTest, BlockCommands) {
  EXPECT_EQ(Hex(cdb::StartStopUnit(true)), "1b0000000100");
  EXPECT_EQ(Hex(cdb::StartStopUnit(false, true, true)), "1b0100000200");
  EXPECT_EQ(Hex(cdb::ReadCapacity10()), "25000000000000000000");
  EXPECT_EQ(Hex(cdb::ReadCapacity16(32)), "9e100000000000000000000000200000");
  EXPECT_EQ(Hex(cdb::Verify(0x10, 4, 1)), "2f020000001000000400");
  EXPECT_EQ(Hex(cdb::SynchronizeCache()), "35000000000000000000");
  EXPECT_EQ(Hex(cdb::SynchronizeCache(uint64_t{1} << 32, 1, true)),
            "91020000000100000000000000010000");
  EXPECT_EQ(Hex(cdb::WriteSame(16, 8, {.unmap = true})),
            "41080000001000000800");
  EXPECT_EQ(Hex(cdb::WriteSame(16, 1u << 16)),
            "93000000000000000010000100000000");
  EXPECT_EQ(Hex(cdb::WriteSame(16, 8, {.anchor = true, .no_data_out = true})),
            "93110000000000000010000000080000");
  EXPECT_EQ(Hex(cdb::WriteSame(16, 8, {.unmap = true, .long_form = true})),
            "93080000000000000010000000080000");
  EXPECT_EQ(Hex(cdb::Unmap(24)), "42000000000000001800");
  EXPECT_EQ(Hex(cdb::GetLbaStatus(0x1122334455667788, 512)),
            "9e121122334455667788000002000000");
  EXPECT_EQ(Hex(cdb::CompareAndWrite(3, 2, true)),
            "89080000000000000003000000020000");
}

TEST(CdbTest, TransfersTakeTheShortestCommonForm) {
  EXPECT_EQ(Hex(cdb::Read(0xfffffffe, 0xffff)), "2800fffffffe00ffff00");
  EXPECT_EQ(Hex(cdb::Read(0, 0x10000)), "88000000000000000000000100000000");
  EXPECT_EQ(Hex(cdb::Write(uint64_t{1} << 32, 1, {.fua = true, .dpo = true})),
            "8a180000000100000000000000010000");
  EXPECT_EQ(Hex(cdb::Write(5, 1, {.fua = true})), "2a080000000500000100");
}

TEST(CdbTest, TransfersOfAChosenSize) {
  EXPECT_EQ(Hex(cdb::Read(0x1fffff, 256, {.size = cdb::Size::k6})),
            "081fffff0000");
  EXPECT_EQ(Hex(cdb::Write(1, 2, {.size = cdb::Size::k6})), "0a0000010200");
  EXPECT_EQ(Hex(cdb::Read(1, 0x10000, {.size = cdb::Size::k12})),
            "a80000000001000100000000");
  EXPECT_EQ(Hex(cdb::Write(1, 2, {.size = cdb::Size::k16})),
            "8a000000000000000001000000020000");

  EXPECT_FALSE(cdb::Fits(cdb::Size::k6, 1u << 21, 1, {}));
  EXPECT_FALSE(cdb::Fits(cdb::Size::k6, 0, 257, {}));
  EXPECT_FALSE(cdb::Fits(cdb::Size::k6, 0, 0, {})) << "0 would mean 256";
  EXPECT_FALSE(cdb::Fits(cdb::Size::k6, 0, 1, {.fua = true}));
  EXPECT_FALSE(cdb::Fits(cdb::Size::k10, 0, 0x10000, {}));
  EXPECT_FALSE(cdb::Fits(cdb::Size::k12, uint64_t{1} << 32, 1, {}));
  EXPECT_TRUE(cdb::Fits(cdb::Size::k16, ~uint64_t{0}, ~0u, {}));
}

TEST(CdbTest, UnmapList) {
  uint8_t list[kUnmapListLength];
  EncodeUnmapList(0x0102030405060708, 0x090a0b0c, list);
  EXPECT_EQ(absl::BytesToHexString(absl::string_view(
                reinterpret_cast<const char*>(list), sizeof(list))),
            "0016001000000000"
            "0102030405060708090a0b0c00000000");
}

TEST(CdbTest, Names) {
  EXPECT_EQ(CommandName(cdb::Read(0, 1)), "READ (10)");
  EXPECT_EQ(CommandName(cdb::ReadCapacity16(32)), "READ CAPACITY (16)");
  EXPECT_EQ(CommandName(cdb::GetLbaStatus(0, 1)), "GET LBA STATUS");
  EXPECT_EQ(CommandName(cdb::SendDiagnostic()), "SEND DIAGNOSTIC");
  EXPECT_EQ(CommandName(cdb::ReportSupportedOperationCodes(1)),
            "REPORT SUPPORTED OPERATION CODES");
  Cdb unknown;
  unknown.bytes[0] = 0xc1;
  EXPECT_EQ(CommandName(unknown), "operation code c1h");
  Command command;
  SetCdb(cdb::CompareAndWrite(1, 1), &command);
  EXPECT_EQ(command.cdb_length, 16);
  EXPECT_EQ(CommandName(command), "COMPARE AND WRITE");
}

}  // namespace
}  // namespace skiff::scsi
