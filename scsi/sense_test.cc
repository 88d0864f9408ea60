#include "scsi/sense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace skiff::scsi {
namespace {

std::vector<uint8_t> Encode(const SenseData& sense, SenseFormat format) {
  std::vector<uint8_t> bytes(kMaxEncodedSense);
  bytes.resize(EncodeSense(sense, format, bytes.data()));
  return bytes;
}

SenseData Full() {
  SenseData sense;
  sense.key = SenseKey::kIllegalRequest;
  sense.code = AdditionalSense::kInvalidFieldInCdb;
  sense.information = 0x01020304;
  sense.command_specific = 0x0a0b0c0d;
  sense.field_pointer = FieldPointer{true, 0x0102, 4};
  return sense;
}

TEST(SenseTest, FixedFormatHasEveryFieldInItsPlace) {
  EXPECT_EQ(Encode(Full(), SenseFormat::kFixed),
            (std::vector<uint8_t>{0xf0, 0, 5, 1, 2, 3, 4, 10, 0x0a, 0x0b, 0x0c,
                                  0x0d, 0x24, 0, 0, 0xcc, 1, 2}));
}

TEST(SenseTest, DescriptorFormatHasEveryDescriptor) {
  EXPECT_EQ(
      Encode(Full(), SenseFormat::kDescriptor),
      (std::vector<uint8_t>{0x72, 5,    0x24, 0,    0, 0, 0,    32, 0,    0x0a,
                            0x80, 0,    0,    0,    0, 0, 1,    2,  3,    4,
                            1,    0x0a, 0,    0,    0, 0, 0,    0,  0x0a, 0x0b,
                            0x0c, 0x0d, 2,    0x06, 0, 0, 0xcc, 1,  2,    0}));
}

TEST(SenseTest, BothFormatsRoundTrip) {
  for (SenseFormat format : {SenseFormat::kFixed, SenseFormat::kDescriptor}) {
    SenseData sense = Full();
    sense.deferred = true;
    const std::optional<SenseData> decoded = DecodeSense(Encode(sense, format));
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->key, sense.key);
    EXPECT_EQ(decoded->code, sense.code);
    EXPECT_TRUE(decoded->deferred);
    EXPECT_EQ(decoded->information, sense.information);
    EXPECT_EQ(decoded->command_specific, sense.command_specific);
    ASSERT_TRUE(decoded->field_pointer.has_value());
    EXPECT_TRUE(decoded->field_pointer->in_cdb);
    EXPECT_EQ(decoded->field_pointer->byte, 0x0102);
    EXPECT_EQ(decoded->field_pointer->bit, 4);
  }
}

TEST(SenseTest, FixedFormatLeavesOutInformationBeyond32Bits) {
  SenseData sense;
  sense.key = SenseKey::kMediumError;
  sense.information = uint64_t{1} << 32;
  EXPECT_EQ(DecodeSense(Encode(sense, SenseFormat::kFixed))->information,
            std::nullopt);
  EXPECT_EQ(DecodeSense(Encode(sense, SenseFormat::kDescriptor))->information,
            uint64_t{1} << 32);
}

TEST(SenseTest, DecodesEveryTruncationWithoutReadingBeyond) {
  for (SenseFormat format : {SenseFormat::kFixed, SenseFormat::kDescriptor}) {
    const std::vector<uint8_t> bytes = Encode(Full(), format);
    for (size_t length = 0; length <= bytes.size(); ++length) {
      const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + length);
      const std::optional<SenseData> decoded = DecodeSense(part);
      const size_t key_at = format == SenseFormat::kFixed ? 2 : 1;
      ASSERT_EQ(decoded.has_value(), length > key_at) << length;
      if (decoded) {
        EXPECT_EQ(decoded->key, SenseKey::kIllegalRequest);
      }
    }
  }
}

TEST(SenseTest, RefusesUnknownResponseCodes) {
  EXPECT_FALSE(DecodeSense(std::vector<uint8_t>(18, 0)).has_value());
  EXPECT_FALSE(DecodeSense(std::vector<uint8_t>(18, 0x7f)).has_value());
}

TEST(SenseTest, SkipsDescriptorsItDoesNotKnowAndStopsAtBrokenOnes) {
  const std::vector<uint8_t> bytes = {
      0x72, 3,    0x11, 0, 0, 0, 0, 20, 0x80, 2, 0, 0,  // Vendor specific.
      0,    0x0a, 0x80, 0, 0, 0, 0, 0,  0,    0, 0, 7,  // Information.
      1,    200,  0,    0};                             // Too long.
  std::vector<uint8_t> longer = bytes;
  longer[7] = static_cast<uint8_t>(bytes.size() - 8);
  const std::optional<SenseData> decoded = DecodeSense(longer);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->information, 7u);
  EXPECT_EQ(decoded->command_specific, std::nullopt);
}

TEST(SenseTest, DescribesInWords) {
  SenseData sense;
  sense.key = SenseKey::kIllegalRequest;
  sense.code = AdditionalSense::kInvalidFieldInCdb;
  sense.field_pointer = FieldPointer{true, 1, 4};
  EXPECT_EQ(
      DescribeSense(sense),
      "ILLEGAL REQUEST, INVALID FIELD IN CDB (24h/00h), CDB byte 1 bit 4");
  sense = {};
  sense.key = SenseKey::kUnitAttention;
  sense.code = static_cast<AdditionalSense>(0x1234);
  EXPECT_EQ(DescribeSense(sense), "UNIT ATTENTION (12h/34h)");
}

}  // namespace
}  // namespace skiff::scsi
