// The commands that say what a logical unit is, and those for LUNs without one.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "scsi/endian.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Outcome;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestTarget;
using testing::ThinInfo;

constexpr uint64_t kBlocks = 1000;
constexpr uint64_t kWellKnown = 0xc101000000000000;
constexpr uint64_t kNowhere = uint64_t{7} << 48;

class PrimaryCommandsTest : public ::testing::Test {
 protected:
  PrimaryCommandsTest()
      : backend_(std::make_shared<TestBackend>(ThinInfo(kBlocks))),
        target_(backend_, Options()) {}

  static LogicalUnitOptions Options() {
    LogicalUnitOptions options;
    options.serial = "serial-1";
    return options;
  }
  std::unique_ptr<TestCommand> Run(const Bytes& cdb, uint32_t room = 4096,
                                   uint64_t lun = 0) {
    auto command = std::make_unique<TestCommand>(cdb, Bytes(), room, lun);
    target_.nexus().Run(command.get());
    return command;
  }
  Bytes Get(const Bytes& cdb, uint64_t lun = 0) {
    const auto command = Run(cdb, 65536, lun);
    EXPECT_EQ(Outcome(*command), "GOOD");
    return command->received();
  }

  std::shared_ptr<TestBackend> backend_;
  TestTarget target_;
};

Bytes Inquiry(int vpd_page = -1, uint16_t room = 1024) {
  Bytes cdb = {0x12, 0, 0, 0, 0, 0};
  if (vpd_page >= 0) {
    cdb[1] = 1;
    cdb[2] = static_cast<uint8_t>(vpd_page);
  }
  StoreBe16(&cdb[3], room);
  return cdb;
}

Bytes ReportLuns(uint8_t select = 0, uint32_t room = 4096) {
  Bytes cdb(12);
  cdb[0] = 0xa0;
  cdb[2] = select;
  StoreBe32(&cdb[6], room);
  return cdb;
}

std::string Text(const Bytes& bytes, size_t at, size_t length) {
  return std::string(bytes.begin() + at, bytes.begin() + at + length);
}

TEST_F(PrimaryCommandsTest, StandardInquiryData) {
  const Bytes data = Get(Inquiry());
  ASSERT_EQ(data.size(), 74u);
  EXPECT_EQ(data[0], 0x00) << "a connected direct access block device";
  EXPECT_EQ(data[1], 0x00) << "not removable";
  EXPECT_EQ(data[2], 0x06);
  EXPECT_EQ(data[3], 0x32) << "NORMACA, HISUP, format 2";
  EXPECT_EQ(data[4], 69) << "ADDITIONAL LENGTH";
  EXPECT_EQ(data[7], 0x02) << "CMDQUE";
  EXPECT_EQ(Text(data, 8, 28), "SKIFF   SKIFF DISK      1.0 ");
  std::set<uint16_t> versions;
  for (size_t at = 58; at < 74; at += 2) versions.insert(LoadBe16(&data[at]));
  EXPECT_EQ(versions, (std::set<uint16_t>{0, 0x00a0, 0x0460, 0x04c0, 0x0960}));
}

TEST_F(PrimaryCommandsTest, InquiryDataEndAtTheAllocationLength) {
  for (const uint16_t room : {0, 1, 5, 36, 73, 74, 75, 255}) {
    const auto command = Run(Inquiry(-1, room));
    EXPECT_EQ(Outcome(*command), "GOOD");
    EXPECT_EQ(command->task.data_in_wanted, std::min<uint16_t>(room, 74));
  }
  // The initiator's buffer is smaller than the allocation length.
  const auto command = Run(Inquiry(-1, 74), 10);
  EXPECT_EQ(command->task.data_in_wanted, 74u);
  EXPECT_EQ(Text(command->data_in, 8, 2), "SK");
}

TEST_F(PrimaryCommandsTest, EverySupportedVpdPageAnswers) {
  const Bytes pages = Get(Inquiry(0));
  EXPECT_EQ(Bytes(pages.begin() + 4, pages.end()),
            (Bytes{0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2}));
  for (size_t i = 4; i < pages.size(); ++i) {
    const Bytes page = Get(Inquiry(pages[i]));
    EXPECT_EQ(page[0], 0x00);
    EXPECT_EQ(page[1], pages[i]);
    EXPECT_EQ(page.size(), size_t{LoadBe16(&page[2])} + 4);
  }
  for (const int missing : {0x01, 0x81, 0xb3, 0xff}) {
    const auto command = Run(Inquiry(missing));
    EXPECT_EQ(Outcome(*command),
              "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 2");
  }
  Bytes page_without_evpd = Inquiry();
  page_without_evpd[2] = 0x80;
  EXPECT_EQ(Run(page_without_evpd)->sense()->field_pointer->byte, 2);
}

TEST_F(PrimaryCommandsTest, SerialNumberAndDesignators) {
  const Bytes serial = Get(Inquiry(0x80));
  EXPECT_EQ(Text(serial, 4, serial.size() - 4), "serial-1");

  const Bytes page = Get(Inquiry(0x83));
  std::set<std::string> found;
  for (size_t at = 4; at < page.size(); at += size_t{page[at + 3]} + 4) {
    const uint8_t association = page[at + 1] >> 4 & 3;
    const uint8_t type = page[at + 1] & 0x0f;
    const std::string designator = Text(page, at + 4, page[at + 3]);
    if (association != 0) {
      EXPECT_EQ(page[at] >> 4, 5) << "iSCSI";
      EXPECT_EQ(page[at + 1] & 0x80, 0x80) << "PIV";
    }
    if (type == 3) {
      EXPECT_EQ(page[at + 3], 8);
      EXPECT_EQ(page[at + 4] >> 4, 3) << "locally assigned";
    }
    found.insert(std::to_string(association) + ":" + std::to_string(type) +
                 (type == 3 || type == 4 ? "" : ":" + designator));
  }
  const std::string port_name = "iqn.2026-01.example:t,t,0x1";
  const std::string name = "iqn.2026-01.example:t";
  EXPECT_EQ(found,
            (std::set<std::string>{"0:3", "0:1:SKIFF   serial-1", "1:4",
                                   "1:8:" + port_name + std::string(1, '\0'),
                                   "2:8:" + name + std::string(3, '\0')}));
}

// A front end of another protocol has ports with names of its own.
TEST_F(PrimaryCommandsTest, DesignatorsOfPortsAreThoseOfTheNexus) {
  NexusIdentity identity = testing::IdentityOf("another");
  identity.protocol = ProtocolIdentifier::kNoSpecific;
  identity.target_port = "port 7";
  identity.relative_target_port = 7;
  testing::TestNexus nexus(target_.target(), &target_.reactor(), identity);
  testing::TestCommand inquiry(Inquiry(0x83), {}, 1024);
  nexus.Run(&inquiry);
  const Bytes page = inquiry.received();
  bool relative = false;
  bool name = false;
  for (size_t at = 4; at < page.size(); at += size_t{page[at + 3]} + 4) {
    if ((page[at + 1] >> 4 & 3) == 0) continue;
    EXPECT_EQ(page[at] >> 4, 0xf);
    relative |= (page[at + 1] & 0x0f) == 4 && page[at + 7] == 7;
    name |= Text(page, at + 4, 6) == "port 7";
  }
  EXPECT_TRUE(relative);
  EXPECT_TRUE(name);
}

TEST_F(PrimaryCommandsTest, BlockLimitsAreWhatCommandsEnforce) {
  const Bytes limits = Get(Inquiry(0xb0));
  ASSERT_EQ(limits.size(), 64u);
  EXPECT_EQ(limits[4], 0x01) << "WSNZ";
  EXPECT_EQ(limits[5], 128) << "COMPARE AND WRITE";
  EXPECT_EQ(LoadBe32(&limits[8]), 32768u) << "16 MiB";
  EXPECT_EQ(LoadBe32(&limits[20]), 1u << 20);
  EXPECT_EQ(LoadBe32(&limits[24]), 256u);
  EXPECT_EQ(LoadBe32(&limits[28]), 1u) << "granularity";
  EXPECT_EQ(LoadBe64(&limits[36]), 32768u) << "WRITE SAME";
  EXPECT_EQ(LoadBe16(&Get(Inquiry(0xb1))[4]), 1) << "does not rotate";
  const Bytes provisioning = Get(Inquiry(0xb2));
  EXPECT_EQ(provisioning[5], 0xe4);
  EXPECT_EQ(provisioning[6], 0x02);
}

TEST_F(PrimaryCommandsTest, ReadCapacity) {
  const Bytes short_data = Get({0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  ASSERT_EQ(short_data.size(), 8u);
  EXPECT_EQ(LoadBe32(&short_data[0]), kBlocks - 1);
  EXPECT_EQ(LoadBe32(&short_data[4]), 512u);
  Bytes cdb(16);
  cdb[0] = 0x9e;
  cdb[1] = 0x10;
  StoreBe32(&cdb[10], 32);
  const Bytes long_data = Get(cdb);
  ASSERT_EQ(long_data.size(), 32u);
  EXPECT_EQ(LoadBe64(&long_data[0]), kBlocks - 1);
  EXPECT_EQ(LoadBe32(&long_data[8]), 512u);
  EXPECT_EQ(long_data[14], 0xc0) << "LBPME, LBPRZ";
  cdb[13] = 12;
  EXPECT_EQ(Get(cdb).size(), 12u);
}

TEST_F(PrimaryCommandsTest, AFreshNexusMeetsAUnitAttentionEachPlace) {
  TestNexus fresh(target_.target(), &target_.reactor());
  const auto run = [&](const Bytes& cdb, uint64_t lun) {
    TestCommand command(cdb, {}, 4096, lun);
    fresh.Run(&command);
    return Outcome(command);
  };
  // These neither report it nor clear it.
  EXPECT_EQ(run(Inquiry(), 0), "GOOD");
  EXPECT_EQ(run(ReportLuns(), 0), "GOOD");
  const std::string power_on =
      "UNIT ATTENTION, POWER ON, RESET, OR BUS DEVICE RESET OCCURRED "
      "(29h/00h)";
  EXPECT_EQ(run(Bytes(6), 0), power_on);
  EXPECT_EQ(run(Bytes(6), 0), "GOOD");
  EXPECT_EQ(run(Bytes(6), kWellKnown), power_on);
  EXPECT_EQ(run(Bytes(6), kWellKnown), "GOOD");
}

TEST_F(PrimaryCommandsTest, RequestSenseTellsAndClearsAUnitAttention) {
  TestNexus fresh(target_.target(), &target_.reactor());
  for (const uint8_t desc : {0, 1}) {
    TestCommand command({0x03, desc, 0, 0, 252, 0}, {}, 252);
    fresh.Run(&command);
    ASSERT_EQ(Outcome(command), "GOOD");
    EXPECT_EQ(command.data_in[0], desc == 0 ? 0x70 : 0x72);
    const auto sense = DecodeSense(command.received());
    ASSERT_TRUE(sense.has_value());
    EXPECT_EQ(sense->key,
              desc == 0 ? SenseKey::kUnitAttention : SenseKey::kNoSense)
        << "the second finds nothing";
  }
}

TEST_F(PrimaryCommandsTest, ReportLunsListsWhatThereIs) {
  for (const uint64_t lun : {uint64_t{1}, uint64_t{255}, uint64_t{256}}) {
    LogicalUnitOptions options;
    options.lun = lun;
    ASSERT_TRUE(target_.target()->AddLogicalUnit(backend_, options).ok());
  }
  target_.nexus().Settle();
  const auto luns = [&](uint8_t select, uint64_t lun) {
    const Bytes data = Get(ReportLuns(select), lun);
    EXPECT_EQ(LoadBe32(&data[0]), data.size() - 8);
    std::vector<uint64_t> list;
    for (size_t at = 8; at < data.size(); at += 8) {
      list.push_back(LoadBe64(&data[at]));
    }
    return list;
  };
  const std::vector<uint64_t> units = {
      0, uint64_t{1} << 48, uint64_t{255} << 48, uint64_t{0x4100} << 48};
  std::vector<uint64_t> all = units;
  all.push_back(kWellKnown);
  for (const uint64_t lun : {uint64_t{0}, kNowhere, kWellKnown}) {
    EXPECT_EQ(luns(0, lun), units);
    EXPECT_EQ(luns(1, lun), std::vector<uint64_t>{kWellKnown});
    EXPECT_EQ(luns(2, lun), all);
  }
  // As libiscsi and QEMU write 256, and as the list has it.
  for (const uint64_t first_level : {0x0100, 0x4100}) {
    EXPECT_EQ(Get(Inquiry(), first_level << 48)[0], 0x00);
  }
  EXPECT_EQ(Run(ReportLuns(3))->sense()->field_pointer->byte, 2);
  const auto truncated = Run(ReportLuns(0, 17));
  EXPECT_EQ(truncated->task.data_in_wanted, 17u);
  EXPECT_EQ(LoadBe32(&truncated->data_in[0]), 32u) << "LUN LIST LENGTH";
}

TEST_F(PrimaryCommandsTest, LunsWithoutALogicalUnit) {
  // A LUN that is not used, one with a second level, one of logical unit
  // addressing, well-known ones and others of extended addressing.
  for (const uint64_t lun :
       {kNowhere, uint64_t{0x8000} << 48, uint64_t{0xbfff} << 48,
        uint64_t{0xc102} << 48, uint64_t{0xd200} << 48, uint64_t{0xffff} << 48,
        uint64_t{0x0000000100000000}, ~uint64_t{0}}) {
    EXPECT_EQ(Get(Inquiry(), lun)[0], 0x7f) << "not capable of one";
    EXPECT_EQ(Get(Inquiry(0), lun), (Bytes{0x7f, 0, 0, 1, 0}));
    const Bytes sense = Get({0x03, 0, 0, 0, 252, 0}, lun);
    EXPECT_EQ(DecodeSense(sense)->code,
              AdditionalSense::kLogicalUnitNotSupported);
    for (const uint8_t opcode : {0x00, 0x28, 0x2a, 0x25, 0x1a, 0xff}) {
      Bytes cdb(16);
      cdb[0] = opcode;
      EXPECT_EQ(Outcome(*Run(cdb, 0, lun)),
                "ILLEGAL REQUEST, LOGICAL UNIT NOT SUPPORTED (25h/00h)");
    }
  }
  // Flat space addressing names the same logical unit.
  EXPECT_EQ(Get(Inquiry(), uint64_t{0x4000} << 48)[0], 0x00);
}

TEST_F(PrimaryCommandsTest, TheWellKnownLogicalUnit) {
  EXPECT_EQ(Get(Inquiry(), kWellKnown)[0], 0x1e);
  const Bytes pages = Get(Inquiry(0), kWellKnown);
  EXPECT_EQ(Bytes(pages.begin() + 4, pages.end()), (Bytes{0x00, 0x83}));
  Run(Bytes(6), 0, kWellKnown);  // Takes the unit attention.
  EXPECT_EQ(Outcome(*Run(Bytes(6), 0, kWellKnown)), "GOOD");
  Bytes read(10);
  read[0] = 0x28;
  EXPECT_EQ(Outcome(*Run(read, 0, kWellKnown)),
            "ILLEGAL REQUEST, INVALID COMMAND OPERATION CODE (20h/00h)");
}

TEST_F(PrimaryCommandsTest, NothingEjectsOrStops) {
  for (const uint8_t byte4 : {0x00, 0x01, 0x03, 0x10, 0x31}) {
    EXPECT_EQ(Outcome(*Run({0x1b, 0, 0, 0, byte4, 0})), "GOOD");
    EXPECT_EQ(Outcome(*Run(Bytes(6))), "GOOD");
  }
  EXPECT_EQ(Run({0x1b, 0, 0, 0, 0x02, 0})->sense()->field_pointer->bit, 1);
  EXPECT_EQ(Outcome(*Run({0x1e, 0, 0, 0, 1, 0})), "GOOD");
}

// --- REPORT SUPPORTED OPERATION CODES, and what it promises.

Bytes OpcodesCdb(uint8_t options, uint8_t opcode = 0,
                 uint16_t service_action = 0, uint32_t room = 65536) {
  Bytes cdb(12);
  cdb[0] = 0xa3;
  cdb[1] = 0x0c;
  cdb[2] = options;
  cdb[3] = opcode;
  StoreBe16(&cdb[4], service_action);
  StoreBe32(&cdb[6], room);
  return cdb;
}

TEST_F(PrimaryCommandsTest, OneCommandFormatsAgreeWithTheList) {
  for (const uint8_t rctd : {0x00, 0x80}) {
    const Bytes all = Get(OpcodesCdb(rctd));
    ASSERT_EQ(LoadBe32(&all[0]), all.size() - 4);
    const size_t stride = rctd != 0 ? 20 : 8;
    ASSERT_EQ((all.size() - 4) % stride, 0u);
    for (size_t at = 4; at < all.size(); at += stride) {
      const uint8_t opcode = all[at];
      const uint16_t action = LoadBe16(&all[at + 2]);
      const bool has_actions = (all[at + 5] & 1) != 0;
      EXPECT_EQ((all[at + 5] & 2) != 0, rctd != 0) << "CTDP";
      if (rctd != 0) {
        EXPECT_EQ(LoadBe16(&all[at + 8]), 10);
      }
      const uint8_t good = has_actions ? 2 : 1;
      const uint8_t bad = has_actions ? 1 : 2;
      const Bytes one = Get(OpcodesCdb(rctd | good, opcode, action));
      EXPECT_EQ(one[1] & 7, 3) << "supported";
      EXPECT_EQ(one[4], opcode);
      EXPECT_EQ(LoadBe16(&one[2]), LoadBe16(&all[at + 6]));
      EXPECT_EQ(one.size(), 4u + LoadBe16(&one[2]) + (rctd != 0 ? 12 : 0));
      EXPECT_EQ(Get(OpcodesCdb(rctd | 3, opcode, action)), one);
      EXPECT_EQ(Run(OpcodesCdb(rctd | bad, opcode, action))->code(),
                AdditionalSense::kInvalidFieldInCdb);
    }
  }
  EXPECT_EQ(Get(OpcodesCdb(1, 0xff)), (Bytes{0, 1, 0, 0})) << "not supported";
  EXPECT_EQ(Get(OpcodesCdb(2, 0x9e, 0x1f)), (Bytes{0, 1, 0, 0}));
  EXPECT_EQ(Run(OpcodesCdb(4))->sense()->field_pointer->byte, 2);
}

// Bits that are accepted though not looked at: what was retired (FUA_NV,
// SYNC_NV, READ CAPACITY's LBA and PMI), GROUP NUMBER, DEVOFFL and UNITOFFL.
bool IsIgnored(const Bytes& cdb, size_t byte, int bit) {
  const uint8_t opcode = cdb[0];
  const std::string retired_fua = "\x28\x2a\x88\x89\x8a\xa8\xaa";
  const std::string grouped_10 = "\x28\x2a\x2e\x2f\x34\x35\x41\x42";
  const std::string grouped_12 = "\xa8\xaa\xae\xaf";
  const std::string grouped_16 = "\x88\x89\x8a\x8e\x8f\x90\x91\x93";
  const auto in = [opcode](const std::string& set) {
    return set.find(static_cast<char>(opcode)) != std::string::npos;
  };
  if (in(retired_fua) && byte == 1 && bit == 1) return true;
  if (in("\x1d") && byte == 1 && bit < 2) return true;
  if (in("\x35\x91") && byte == 1 && bit == 2) return true;
  if (bit < 6 &&
      ((in(grouped_10) && byte == 6) || (in(grouped_12) && byte == 10) ||
       (in(grouped_16) && byte == 14))) {
    return true;
  }
  if (opcode == 0x25) {
    return (byte >= 2 && byte <= 5) || ((byte == 1 || byte == 8) && bit == 0);
  }
  if (opcode == 0x9e && (cdb[1] & 0x1f) == 0x10) {
    return (byte >= 2 && byte <= 9) || (byte == 14 && bit == 0);
  }
  return false;
}

TEST_F(PrimaryCommandsTest, BitsOutsideOfTheUsageDataAreRefused) {
  const Bytes all = Get(OpcodesCdb(0));
  int refused = 0;
  for (size_t at = 4; at < all.size(); at += 8) {
    const uint8_t options = (all[at + 5] & 1) != 0 ? 2 : 1;
    const Bytes one = Get(OpcodesCdb(options, all[at], LoadBe16(&all[at + 2])));
    const Bytes usage(one.begin() + 4, one.end());
    for (size_t byte = 1; byte < usage.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        if ((usage[byte] >> bit & 1) != 0) continue;
        // Would be another service action.
        if (options == 2 && byte == 1 && bit < 5) continue;
        Bytes cdb(16);
        cdb[0] = usage[0];
        if (options == 2) cdb[1] = usage[1] & 0x1f;
        cdb[byte] |= static_cast<uint8_t>(1 << bit);
        const auto command = Run(cdb, 512);
        const auto sense = command->sense();
        const bool points_there = sense.has_value() &&
                                  sense->field_pointer.has_value() &&
                                  sense->field_pointer->byte == byte &&
                                  sense->field_pointer->bit == bit;
        EXPECT_EQ(points_there, !IsIgnored(cdb, byte, bit))
            << std::hex << int{cdb[0]} << " byte " << byte << " bit " << bit
            << ": " << Outcome(*command);
        refused += points_there;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(PrimaryCommandsTest, CommandsThatNeedThinMediaAreGoneWithoutOne) {
  BackendInfo info = ThinInfo(kBlocks);
  info.thin = false;
  TestTarget thick(std::make_shared<TestBackend>(info));
  Bytes cdb(10);
  cdb[0] = 0x42;
  EXPECT_EQ(Outcome(*thick.Run(cdb)),
            "ILLEGAL REQUEST, INVALID COMMAND OPERATION CODE (20h/00h)");
  EXPECT_EQ(thick.Run(OpcodesCdb(1, 0x42), {}, 64)->data_in[1], 1);
  EXPECT_EQ(thick.Run(Inquiry(0xb2), {}, 64)->data_in[5], 0);
  EXPECT_EQ(LoadBe32(&thick.Run(Inquiry(0xb0), {}, 64)->data_in[20]), 0u);
  Bytes write_same = testing::Cdb10(0x41, 0, 1, 0x08);
  EXPECT_EQ(thick.Run(write_same, Bytes(512))->sense()->field_pointer->bit, 3);
}

TEST_F(PrimaryCommandsTest, TaskManagementFunctions) {
  Bytes cdb(12);
  cdb[0] = 0xa3;
  cdb[1] = 0x0d;
  StoreBe32(&cdb[6], 64);
  EXPECT_EQ(Get(cdb), (Bytes{0xfa, 0, 0, 0}));
  cdb[2] = 0x80;
  const Bytes extended = Get(cdb);
  ASSERT_EQ(extended.size(), 16u);
  EXPECT_EQ(extended[0], 0xfa);
  EXPECT_EQ(extended[3], 12);
}

TEST_F(PrimaryCommandsTest, UnknownCommands) {
  Bytes cdb(16);
  cdb[0] = 0xff;
  EXPECT_EQ(Outcome(*Run(cdb)),
            "ILLEGAL REQUEST, INVALID COMMAND OPERATION CODE (20h/00h)");
  cdb[0] = 0x9e;
  cdb[1] = 0x1e;
  EXPECT_EQ(Outcome(*Run(cdb)),
            "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 1 bit "
            "4");
  // A CDB that is shorter than its operation code asks for.
  TestCommand truncated(Bytes(16), {}, 0);
  truncated.task.cdb[0] = 0x88;
  truncated.task.cdb_length = 10;
  target_.nexus().Run(&truncated);
  EXPECT_EQ(truncated.sense()->field_pointer->byte, 10);
}

}  // namespace
}  // namespace skiff::scsi
