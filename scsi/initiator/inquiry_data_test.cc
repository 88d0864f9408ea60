#include "scsi/initiator/inquiry_data.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Data = std::vector<uint8_t>;

std::string Error(const absl::Status& status) {
  return std::string(status.message());
}

Data StandardInquiry() {
  Data data(36);
  data[2] = 6;
  data[4] = 31;
  data[5] = 0x18;
  data[7] = 0x02;
  const std::string text = "SKIFF   A fine disk     1.0 ";
  std::copy(text.begin(), text.end(), data.begin() + 8);
  return data;
}

TEST(InquiryDataTest, Standard) {
  Data data = StandardInquiry();
  auto inquiry = ParseInquiry(data);
  ASSERT_TRUE(inquiry.ok()) << inquiry.status();
  EXPECT_EQ(inquiry->peripheral_qualifier, 0);
  EXPECT_EQ(inquiry->version, 6);
  EXPECT_TRUE(inquiry->command_queuing);
  EXPECT_TRUE(inquiry->third_party_copy);
  EXPECT_EQ(inquiry->target_port_group_support, 1);
  EXPECT_EQ(inquiry->vendor, "SKIFF");
  EXPECT_EQ(inquiry->product, "A fine disk");
  EXPECT_EQ(inquiry->revision, "1.0");

  data[0] = 0x7f;
  data[8] = 0x1b;  // An escape character must not reach a terminal.
  data[9] = 0;
  inquiry = ParseInquiry(data);
  EXPECT_EQ(inquiry->peripheral_qualifier, 3);
  EXPECT_EQ(inquiry->device_type, 0x1f);
  EXPECT_EQ(inquiry->vendor, "? IFF");
}

TEST(InquiryDataTest, StandardTooShort) {
  Data data = StandardInquiry();
  data[4] = 30;  // Claims one byte less than is needed.
  EXPECT_THAT(Error(ParseInquiry(data).status()),
              HasSubstr("35 bytes of standard INQUIRY data, at least 36"));
  data[4] = 255;  // Claims more than came: fine, enough came.
  EXPECT_TRUE(ParseInquiry(data).ok());
  data.resize(35);
  EXPECT_FALSE(ParseInquiry(data).ok());
  EXPECT_FALSE(ParseInquiry({}).ok());
}

TEST(InquiryDataTest, SupportedPagesAndSerial) {
  EXPECT_THAT(*ParseSupportedVpdPages(Data{0, 0, 0, 3, 0x00, 0x83, 0xb0, 9}),
              ElementsAre(0x00, 0x83, 0xb0));
  EXPECT_THAT(*ParseSupportedVpdPages(Data{0, 0, 0xff, 0xff, 0x00}),
              ElementsAre(0x00));
  EXPECT_EQ(*ParseUnitSerialNumber(Data{0, 0x80, 0, 4, ' ', 'a', '1', ' '}),
            "a1");
  EXPECT_EQ(*ParseUnitSerialNumber(Data{0, 0x80, 0, 0}), "");
  EXPECT_THAT(Error(ParseUnitSerialNumber(Data{0, 0x83, 0, 0}).status()),
              HasSubstr("VPD page 83h instead of 80h"));
  EXPECT_FALSE(ParseUnitSerialNumber(Data{0, 0x80, 0}).ok());
}

TEST(InquiryDataTest, Designators) {
  const Data data = {0,    0x83, 0, 33,                            //
                     0x01, 0x14, 0, 4,  0,    0,   0,   1,         // Port.
                     0x02, 0x01, 0, 5,  'S',  'K', 'I', 'F', 'F',  // T10.
                     0x01, 0x03, 0, 8,  0x60, 1,   2,   3,   4,
                     5,    6,    7,      // NAA.
                     0x01, 0x3f, 0, 0};  // Of a reserved association: skipped.
  const auto designators = ParseDeviceIdentification(data);
  ASSERT_TRUE(designators.ok()) << designators.status();
  ASSERT_EQ(designators->size(), 3u);
  EXPECT_EQ((*designators)[0].association,
            Designator::Association::kTargetPort);
  EXPECT_EQ((*designators)[0].ToString(), "type 4: 00000001");
  EXPECT_EQ((*designators)[1].ToString(), "t10.SKIFF");
  const Designator* best = BestLogicalUnitDesignator(*designators);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->ToString(), "naa.6001020304050607");
  EXPECT_EQ(BestLogicalUnitDesignator({}), nullptr);
}

TEST(InquiryDataTest, DesignatorBeyondItsPage) {
  // Complete page, but the designator wants more.
  EXPECT_THAT(
      Error(ParseDeviceIdentification(Data{0, 0x83, 0, 6, 1, 3, 0, 3, 0x60, 1})
                .status()),
      HasSubstr("designator 1 of the device identification goes beyond"));
  // A page cut by the allocation length loses only its last designator.
  const auto cut = ParseDeviceIdentification(
      Data{0, 0x83, 0, 60, 1, 3, 0, 1, 0x60, 1, 3, 0, 8, 0x60});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->size(), 1u);
}

TEST(InquiryDataTest, BlockLimits) {
  Data page(64);
  page[1] = 0xb0;
  page[3] = 60;
  page[4] = 1;
  page[5] = 8;
  page[7] = 4;
  page[10] = 0x80;
  page[14] = 1;
  page[22] = 2;
  page[27] = 1;
  page[31] = 8;
  page[32] = 0x80;
  page[35] = 3;
  page[41] = 5;
  auto limits = ParseBlockLimits(page);
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_TRUE(limits->write_same_non_zero);
  EXPECT_EQ(limits->max_compare_and_write_length, 8);
  EXPECT_EQ(limits->optimal_transfer_granularity, 4);
  EXPECT_EQ(limits->max_transfer_length, 0x8000u);
  EXPECT_EQ(limits->optimal_transfer_length, 0x100u);
  EXPECT_EQ(limits->max_unmap_lba_count, 0x200u);
  EXPECT_EQ(limits->max_unmap_descriptor_count, 1u);
  EXPECT_EQ(limits->optimal_unmap_granularity, 8u);
  EXPECT_EQ(limits->unmap_granularity_alignment, 3u);
  EXPECT_EQ(limits->max_write_same_length, 0x50000u);

  // SBC-2's page.
  page.resize(16);
  page[3] = 12;
  limits = ParseBlockLimits(page);
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->max_unmap_lba_count, 0u);
  page.resize(15);
  EXPECT_FALSE(ParseBlockLimits(page).ok());
}

TEST(InquiryDataTest, CharacteristicsAndProvisioning) {
  EXPECT_EQ(ParseBlockDeviceCharacteristics(Data{0, 0xb1, 0, 2, 0x1c, 0x20})
                ->rotation_rate,
            7200);
  const auto thin =
      ParseLogicalBlockProvisioning(Data{0, 0xb2, 0, 4, 0, 0xe4, 0x02, 0});
  ASSERT_TRUE(thin.ok()) << thin.status();
  EXPECT_TRUE(thin->unmap);
  EXPECT_TRUE(thin->write_same_16);
  EXPECT_TRUE(thin->write_same_10);
  EXPECT_EQ(thin->read_zeroes, 1);
  EXPECT_EQ(thin->type, 2);
  EXPECT_FALSE(ParseLogicalBlockProvisioning(Data{0, 0xb2, 0, 1, 0}).ok());
}

}  // namespace
}  // namespace skiff::scsi
