#include "scsi/initiator/parameter_data.h"

#include <string>
#include <vector>

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

TEST(ParameterDataTest, ReadCapacity10) {
  const auto capacity = ParseReadCapacity10(Data{0, 0, 0, 9, 0, 0, 2, 0});
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_EQ(capacity->block_count, 10u);
  EXPECT_EQ(capacity->block_size, 512u);
  const auto large = ParseReadCapacity10(Data{255, 255, 255, 255, 0, 0, 2, 0});
  EXPECT_EQ(large->block_count, uint64_t{1} << 32) << "does not wrap to 0";
  EXPECT_FALSE(ParseReadCapacity10(Data{0, 0, 0, 9, 0, 0, 2}).ok());
}

TEST(ParameterDataTest, ReadCapacity16) {
  Data data(32);
  data[6] = 1;
  data[10] = 0x10;
  data[12] = 1;
  data[13] = 3;
  data[14] = 0xc0;
  data[15] = 7;
  auto capacity = ParseReadCapacity16(data);
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_EQ(capacity->block_count, 257u);
  EXPECT_EQ(capacity->block_size, 4096u);
  EXPECT_EQ(capacity->blocks_per_physical_block, 8u);
  EXPECT_EQ(capacity->lowest_aligned_lba, 7);
  EXPECT_TRUE(capacity->protection);
  EXPECT_TRUE(capacity->provisioning);
  EXPECT_TRUE(capacity->unmapped_reads_zeroes);
  data.resize(12);
  EXPECT_FALSE(ParseReadCapacity16(data)->provisioning);
  data.resize(11);
  EXPECT_FALSE(ParseReadCapacity16(data).ok());
}

TEST(ParameterDataTest, ImpossibleCapacities) {
  // Whoever divides by the block size or adds 1 to the last block must not be
  // misled.
  EXPECT_THAT(Error(ParseReadCapacity10(Data{0, 0, 0, 9, 0, 0, 0, 0}).status()),
              HasSubstr("its blocks have 0 bytes"));
  EXPECT_THAT(Error(ParseReadCapacity10(Data{0, 0, 0, 9, 0, 0, 2, 8}).status()),
              HasSubstr("520 bytes: not a power of two"));
  Data data(32, 0xff);
  EXPECT_THAT(Error(ParseReadCapacity16(data).status()), HasSubstr("2^64 - 1"));
  data[7] = 0xfe;
  data[8] = data[9] = data[11] = 0;
  data[10] = 2;
  EXPECT_THAT(Error(ParseReadCapacity16(data).status()),
              HasSubstr("more than 2^64 bytes"));
}

TEST(ParameterDataTest, ReportLuns) {
  Data data = {0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0,
               0, 0, 0, 0,  0, 5, 0, 0, 0, 0, 0, 0};
  auto list = ParseReportLuns(data);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->luns, ElementsAre(0u, uint64_t{5} << 48));
  EXPECT_EQ(list->needed_bytes, 24u);
  data[3] = 24;  // One more than came.
  list = ParseReportLuns(data);
  EXPECT_EQ(list->luns.size(), 2u);
  EXPECT_EQ(list->needed_bytes, 32u);
  data.resize(23);
  EXPECT_EQ(ParseReportLuns(data)->luns.size(), 1u);
  data[3] = 12;
  EXPECT_THAT(Error(ParseReportLuns(data).status()),
              HasSubstr("12 bytes, is not a multiple of 8"));
  EXPECT_EQ(
      ParseReportLuns(Data{0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 0})->needed_bytes,
      0xffffffffu);
}

TEST(ParameterDataTest, ModeSense6) {
  // A block descriptor, page 0Ah, then the caching page.
  Data data = {19, 0, 0x90, 8, 1, 2, 3,    4, 5,    6,
               7,  8, 0x0a, 2, 0, 0, 0x88, 2, 0x04, 0};
  auto mode = ParseModeSense6(data, kCachingModePage);
  ASSERT_TRUE(mode.ok()) << mode.status();
  EXPECT_TRUE(mode->write_protected);
  EXPECT_TRUE(mode->dpo_fua);
  EXPECT_THAT(mode->page, ElementsAre(0x88, 2, 0x04, 0));
  EXPECT_TRUE(WriteCacheEnabled(*mode));
  data[18] = 0;
  EXPECT_FALSE(WriteCacheEnabled(*ParseModeSense6(data, kCachingModePage)));
  mode = ParseModeSense6(data, 0x1c);
  EXPECT_TRUE(mode->page.empty());
  EXPECT_TRUE(WriteCacheEnabled(*mode)) << "unknown: the safe assumption";

  data[0] = 17;  // Ends in the middle of the page.
  EXPECT_THAT(Error(ParseModeSense6(data, kCachingModePage).status()),
              HasSubstr("mode page 08h goes beyond"));
  data[3] = 200;
  EXPECT_THAT(Error(ParseModeSense6(data, kCachingModePage).status()),
              HasSubstr("block descriptors of the mode data (200 bytes)"));
  data[0] = 2;
  EXPECT_FALSE(ParseModeSense6(data, kCachingModePage).ok());
  EXPECT_FALSE(ParseModeSense6({}, kCachingModePage).ok());
}

TEST(ParameterDataTest, ModeSense10SkipsSubpages) {
  const Data data = {0,    16, 0,    0x80, 0, 0, 0, 0,  //
                     0x48, 1,  0,    1,    9,           // Subpage 08h/01h.
                     0x08, 3,  0x04, 0,    0};
  const auto mode = ParseModeSense10(data, kCachingModePage);
  ASSERT_TRUE(mode.ok()) << mode.status();
  EXPECT_TRUE(mode->write_protected);
  EXPECT_FALSE(mode->dpo_fua);
  EXPECT_THAT(mode->page, ElementsAre(0x08, 3, 0x04, 0, 0));
}

TEST(ParameterDataTest, GetLbaStatus) {
  Data data(8 + 32);
  data[3] = 36;
  data[15] = 8;
  data[19] = 8;
  data[20] = 1;
  data[31] = 16;
  data[35] = 8;
  auto status = ParseGetLbaStatus(data);
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->size(), 2u);
  EXPECT_EQ((*status)[0].lba, 8u);
  EXPECT_EQ((*status)[0].blocks, 8u);
  EXPECT_EQ((*status)[0].provisioning, 1);
  EXPECT_EQ((*status)[1].provisioning, 0);
  data.resize(39);
  EXPECT_EQ(ParseGetLbaStatus(data)->size(), 1u);
  data[19] = 0;
  EXPECT_THAT(Error(ParseGetLbaStatus(data).status()),
              HasSubstr("descriptor 1 has 0 blocks"))
      << "whoever loops over extents would not end";
}

TEST(ParameterDataTest, SupportedOperationCodes) {
  const Data data = {0,    0, 0, 36,                                //
                     0x12, 0, 0, 0,    0, 0,    0, 6,               //
                     0x9e, 0, 0, 0x10, 0, 0x03, 0, 16,              //
                     0,    0, 0, 0,    0, 0,    0, 0,  0, 0, 0, 0,  //
                     0x28, 0, 0, 0,    0, 0,    0, 10};
  const auto commands = ParseSupportedOperationCodes(data);
  ASSERT_TRUE(commands.ok()) << commands.status();
  ASSERT_EQ(commands->size(), 3u);
  EXPECT_EQ((*commands)[1].operation_code, 0x9e);
  EXPECT_TRUE((*commands)[1].has_service_action);
  EXPECT_EQ((*commands)[1].service_action, 0x10);
  EXPECT_EQ((*commands)[2].cdb_length, 10);
}

}  // namespace
}  // namespace skiff::scsi
