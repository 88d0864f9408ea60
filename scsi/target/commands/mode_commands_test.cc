#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "scsi/endian.h"
#include "scsi/target/testing.h"
#include "scsi/target/testing_backend.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Outcome;
using testing::TestBackend;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestTarget;
using testing::ThinInfo;

enum PageControl : uint8_t {
  kCurrent = 0x00,
  kChangeable = 0x40,
  kDefault = 0x80,
  kSaved = 0xc0,
};

class ModeCommandsTest : public ::testing::Test {
 protected:
  ModeCommandsTest() : target_(std::make_shared<TestBackend>(ThinInfo(1000))) {}

  std::unique_ptr<TestCommand> Sense6(uint8_t page, uint8_t subpage = 0,
                                      bool dbd = true, uint8_t room = 255) {
    return target_.Run(
        {0x1a, static_cast<uint8_t>(dbd ? 8 : 0), page, subpage, room, 0}, {},
        255);
  }
  // A page alone.
  Bytes Page(uint8_t page, uint8_t subpage = 0) {
    const auto command = Sense6(page, subpage);
    EXPECT_EQ(Outcome(*command), "GOOD");
    const Bytes data = command->received();
    EXPECT_EQ(size_t{data[0]} + 1, data.size());
    return Bytes(data.begin() + 4, data.end());
  }
  std::string Select6(const Bytes& list, uint8_t flags = 0x10) {
    return Outcome(*target_.Run(
        {0x15, flags, 0, 0, static_cast<uint8_t>(list.size()), 0}, list));
  }
  // The Control mode page with bits flipped, as a MODE SELECT (6) list.
  Bytes ControlList(size_t byte, uint8_t flip) {
    Bytes page = Page(0x0a);
    page[byte] ^= flip;
    Bytes list(4);
    list.insert(list.end(), page.begin(), page.end());
    return list;
  }

  TestTarget target_;
};

TEST_F(ModeCommandsTest, EachPageIsWhatTheStandardsSay) {
  EXPECT_EQ(Page(0x01), (Bytes{0x01, 10, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Page(0x08)[2] & 0x04, 0) << "WCE";
  EXPECT_EQ(Page(0x08).size(), 20u);
  EXPECT_EQ(Page(0x0a), (Bytes{0x0a, 10, 0x22, 0x10, 0, 0, 0, 0, 0, 0, 0, 0}))
      << "TST = 001b";
  const Bytes extension = Page(0x0a, 0x01);
  EXPECT_EQ(extension.size(), 32u);
  EXPECT_EQ(extension[0], 0x4a);
  EXPECT_EQ(LoadBe16(&extension[2]), 28);
  EXPECT_EQ(Page(0x1c)[2], 0x08) << "DEXCPT";
}

TEST_F(ModeCommandsTest, AllPagesAscend) {
  const Bytes without_subpages = Page(0x3f);
  const Bytes with_subpages = Page(0x3f, 0xff);
  EXPECT_EQ(without_subpages.size(), 12u + 20 + 12 + 12);
  EXPECT_EQ(with_subpages.size(), without_subpages.size() + 32);
  EXPECT_EQ(Page(0x0a, 0xff).size(), 12u + 32);
  std::vector<uint8_t> codes;
  for (size_t at = 0; at < without_subpages.size();
       at += size_t{without_subpages[at + 1]} + 2) {
    codes.push_back(without_subpages[at]);
  }
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x01, 0x08, 0x0a, 0x1c}));
}

TEST_F(ModeCommandsTest, HeadersAndBlockDescriptors) {
  const Bytes six = Sense6(0x0a, 0, /*dbd=*/false)->received();
  EXPECT_EQ(six[2], 0x10) << "DPOFUA, not write protected";
  EXPECT_EQ(six[3], 8);
  EXPECT_EQ(LoadBe32(&six[4]), 1000u);
  EXPECT_EQ(LoadBe24(&six[9]), 512u);
  EXPECT_EQ(six[12], 0x0a);

  const Bytes ten =
      target_.Run({0x5a, 0, 0x0a, 0, 0, 0, 0, 1, 0, 0}, {}, 255)->received();
  EXPECT_EQ(size_t{LoadBe16(&ten[0])} + 2, ten.size());
  EXPECT_EQ(ten[3], 0x10);
  EXPECT_EQ(ten[4], 0);
  EXPECT_EQ(LoadBe16(&ten[6]), 8);

  const Bytes long_form =
      target_.Run({0x5a, 0x10, 0x0a, 0, 0, 0, 0, 1, 0, 0}, {}, 255)->received();
  EXPECT_EQ(long_form[4], 1) << "LONGLBA";
  EXPECT_EQ(LoadBe16(&long_form[6]), 16);
  EXPECT_EQ(LoadBe64(&long_form[8]), 1000u);
  EXPECT_EQ(LoadBe32(&long_form[20]), 512u);
  EXPECT_EQ(long_form[24], 0x0a);
}

TEST_F(ModeCommandsTest, DataEndAtTheAllocationLength) {
  const auto command = Sense6(0x3f, 0, true, 4);
  EXPECT_EQ(Outcome(*command), "GOOD");
  EXPECT_EQ(command->task.data_in_wanted, 4u);
  EXPECT_EQ(command->data_in[0], 4 + 56 - 1) << "the length is the whole one";
}

TEST_F(ModeCommandsTest, ChangeableAndDefaultValues) {
  const Bytes changeable = Page(kChangeable | 0x0a);
  EXPECT_EQ(changeable,
            (Bytes{0x0a, 10, 0x04, 0, 0x08, 0x40, 0, 0, 0, 0, 0, 0}))
      << "D_SENSE, SWP, TAS";
  EXPECT_EQ(Select6(ControlList(2, 0x04)), "GOOD");
  EXPECT_EQ(Page(kCurrent | 0x0a)[2], 0x26);
  EXPECT_EQ(Page(kDefault | 0x0a)[2], 0x22);
  EXPECT_EQ(Outcome(*Sense6(kSaved | 0x0a)),
            "ILLEGAL REQUEST, SAVING PARAMETERS NOT SUPPORTED (39h/00h)");
}

TEST_F(ModeCommandsTest, PagesThatAreNotThere) {
  for (const auto& [page, subpage] : {std::pair<uint8_t, uint8_t>{0x02, 0},
                                      {0x00, 0},
                                      {0x0a, 0x02},
                                      {0x08, 0x01}}) {
    EXPECT_EQ(Sense6(page, subpage)->sense()->field_pointer->byte, 2);
  }
  EXPECT_EQ(Sense6(0x3f, 0x01)->sense()->field_pointer->byte, 3);
}

TEST_F(ModeCommandsTest, DescriptorSenseDataOnRequest) {
  Bytes unknown(16);
  unknown[0] = 0xff;
  EXPECT_EQ(target_.Run(unknown)->task.sense[0], 0x70);
  EXPECT_EQ(Select6(ControlList(2, 0x04)), "GOOD");
  EXPECT_EQ(target_.Run(unknown)->task.sense[0], 0x72);
  EXPECT_EQ(Select6(ControlList(2, 0x04)), "GOOD");
  EXPECT_EQ(target_.Run(unknown)->task.sense[0], 0x70);
}

TEST_F(ModeCommandsTest, SoftwareWriteProtection) {
  EXPECT_EQ(Select6(ControlList(4, 0x08)), "GOOD");
  EXPECT_EQ(Sense6(0x0a)->data_in[2], 0x90) << "WP";
  EXPECT_EQ(Outcome(*target_.Run(Cdb10(0x2a, 0, 1), Bytes(512))),
            "DATA PROTECT, LOGICAL UNIT SOFTWARE WRITE PROTECTED (27h/02h)");
  EXPECT_EQ(Outcome(*target_.Run(Cdb10(0x28, 0, 1), {}, 512)), "GOOD");
  EXPECT_EQ(Select6(ControlList(4, 0x08)), "GOOD");
  EXPECT_EQ(Outcome(*target_.Run(Cdb10(0x2a, 0, 1), Bytes(512))), "GOOD");
}

TEST_F(ModeCommandsTest, AResetRestoresTheDefaults) {
  EXPECT_EQ(Select6(ControlList(4, 0x08)), "GOOD");
  EXPECT_EQ(target_.nexus().Manage(TaskManagement::kLogicalUnitReset),
            TaskManagementResult::kFunctionComplete);
  target_.nexus().ClearUnitAttentions();
  EXPECT_EQ(Page(0x0a)[4], 0);
}

TEST_F(ModeCommandsTest, OthersLearnOfAChange) {
  TestNexus other(target_.target(), &target_.reactor());
  other.ClearUnitAttentions();
  EXPECT_EQ(Select6(ControlList(2, 0x00)), "GOOD") << "changes nothing";
  other.Settle();
  TestCommand quiet(Bytes(6), {}, 0);
  other.Run(&quiet);
  EXPECT_EQ(Outcome(quiet), "GOOD");
  EXPECT_EQ(Select6(ControlList(2, 0x04)), "GOOD");
  other.Settle();
  TestCommand told(Bytes(6), {}, 0);
  other.Run(&told);
  EXPECT_EQ(Outcome(told), "UNIT ATTENTION, MODE PARAMETERS CHANGED (2Ah/01h)");
  EXPECT_EQ(Outcome(*target_.Run(Bytes(6))), "GOOD") << "whoever did it knows";
}

TEST_F(ModeCommandsTest, SelectRefusesWhatItCannotDo) {
  Bytes list = ControlList(3, 0x20);
  EXPECT_EQ(Select6(list),
            "ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST (26h/00h), "
            "parameter list byte 7 bit 5");
  list = ControlList(2, 0);
  EXPECT_EQ(Select6(list, 0x11),
            "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 1 bit 0")
      << "SP";
  EXPECT_EQ(Select6(list, 0x00),
            "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 1 bit 4")
      << "PF";
  const std::string length_error =
      "ILLEGAL REQUEST, PARAMETER LIST LENGTH ERROR (1Ah/00h)";
  for (const size_t length : {1, 3, 5, 8, 15}) {
    EXPECT_EQ(Select6(Bytes(list.begin(), list.begin() + length)), length_error)
        << length;
  }
  EXPECT_EQ(Outcome(*target_.Run({0x15, 0x10, 0, 0, 16, 0}, Bytes(8))),
            length_error);
  Bytes wrong_length = list;
  wrong_length[5] = 9;
  EXPECT_EQ(Select6(wrong_length),
            "ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST (26h/00h), "
            "parameter list byte 5");
  Bytes unknown = list;
  unknown[4] = 0x02;
  EXPECT_EQ(Select6(unknown),
            "ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST (26h/00h), "
            "parameter list byte 4 bit 5");
  EXPECT_EQ(Select6({}), "GOOD") << "an empty list";
  EXPECT_EQ(Select6(Bytes(4)), "GOOD") << "a header alone";
}

TEST_F(ModeCommandsTest, SelectIsAllOrNothing) {
  Bytes list = ControlList(2, 0x04);
  const Bytes bad_page = {0x08, 18, 0x04, 0, 0, 0, 0, 0, 0, 0,
                          0,    0,  0,    0, 0, 0, 0, 0, 0, 0};
  list.insert(list.end(), bad_page.begin(), bad_page.end());
  EXPECT_NE(Select6(list), "GOOD") << "WCE is not changeable";
  EXPECT_EQ(Page(0x0a)[2], 0x22);
}

TEST_F(ModeCommandsTest, SelectTakesBlockDescriptorsThatChangeNothing) {
  const Bytes page = Page(0x0a);
  struct {
    uint32_t blocks, block_size;
    bool good;
  } cases[] = {{1000, 512, true},
               {0, 512, true},
               {UINT32_MAX, 512, true},
               {999, 512, false},
               {1000, 4096, false}};
  for (const auto& c : cases) {
    Bytes list(12);
    list[3] = 8;
    StoreBe32(&list[4], c.blocks);
    StoreBe24(&list[9], c.block_size);
    list.insert(list.end(), page.begin(), page.end());
    EXPECT_EQ(Select6(list) == "GOOD", c.good) << c.blocks;
  }
  Bytes list(24);
  list[4] = 1;
  list[7] = 16;
  StoreBe64(&list[8], 1000);
  StoreBe32(&list[20], 512);
  list.insert(list.end(), page.begin(), page.end());
  EXPECT_EQ(
      Outcome(*target_.Run(
          Cdb10(0x55, 0, static_cast<uint16_t>(list.size()), 0x10), list)),
      "GOOD");
  list[7] = 12;
  EXPECT_EQ(
      target_
          .Run(Cdb10(0x55, 0, static_cast<uint16_t>(list.size()), 0x10), list)
          ->sense()
          ->field_pointer->byte,
      6);
}

}  // namespace
}  // namespace skiff::scsi
