#include "protocol/codec/iser_cm_private_data.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/status/status.h"

namespace skiff::protocol {
namespace {

TEST(IserCmPrivateDataTest, SaysWhatIsNotSupported) {
  EXPECT_EQ(Encode({false, false}), (IserCmPrivateDataBytes{0xc0, 0, 0, 0}));
  EXPECT_EQ(Encode({false, true}), (IserCmPrivateDataBytes{0x80, 0, 0, 0}));
  EXPECT_EQ(Encode({true, false}), (IserCmPrivateDataBytes{0x40, 0, 0, 0}));
  EXPECT_EQ(Encode({true, true}), (IserCmPrivateDataBytes{0x00, 0, 0, 0}));
}

TEST(IserCmPrivateDataTest, DecodesWhatItEncodes) {
  for (const bool zero_based : {false, true}) {
    for (const bool invalidate : {false, true}) {
      const IserCmPrivateData data = {zero_based, invalidate};
      const auto decoded = DecodeIserCmPrivateData(Encode(data));
      ASSERT_TRUE(decoded.ok());
      EXPECT_EQ(*decoded, data);
    }
  }
}

TEST(IserCmPrivateDataTest, IgnoresReservedBitsAndFilling) {
  std::vector<uint8_t> filled(196, 0);
  filled[0] = 0xbf;
  filled[3] = 0xff;
  const auto decoded = DecodeIserCmPrivateData(filled);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, (IserCmPrivateData{false, true}));
}

// libfabric's verbs provider puts their number in front.
TEST(IserCmPrivateDataTest, KnowsTheirNumberFromFlags) {
  const IserCmPrivateData data = {false, true, /*counted=*/true};
  const IserCmPrivateDataBytes bytes = Encode(data);
  EXPECT_EQ(bytes, (IserCmPrivateDataBytes{4, 0x80, 0, 0, 0}));
  std::vector<uint8_t> filled(bytes.begin(), bytes.end());
  for (const size_t size : {5, 56}) {
    filled.resize(size, 0);
    const auto decoded = DecodeIserCmPrivateData(filled);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, data);
  }
  const std::vector<std::vector<uint8_t>> others = {
      {4, 0x80, 0, 0},       {4, 0x81, 0, 0, 0}, {4, 0x80, 1, 0, 0},
      {4, 0x80, 0, 1, 0, 0}, {4, 0x80, 0, 0, 1}, {5, 0x80, 0, 0, 0, 0}};
  for (const auto& other : others) {
    const auto decoded = DecodeIserCmPrivateData(other);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, (IserCmPrivateData{true, true}));
  }
}

TEST(IserCmPrivateDataTest, UsesNeitherIfThePeerSaysNothing) {
  const auto decoded = DecodeIserCmPrivateData({});
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, (IserCmPrivateData{false, false}));
}

TEST(IserCmPrivateDataTest, RefusesWhatIsCutShort) {
  for (size_t size = 1; size < kIserCmPrivateDataSize; ++size) {
    const std::vector<uint8_t> bytes(size, 0);
    const auto decoded = DecodeIserCmPrivateData(bytes);
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace skiff::protocol
