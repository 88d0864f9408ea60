#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Encoded(const AhsView& ahs) {
  Bytes out(kMaxAhsBytes, 0xa5);
  out.resize(EncodeAhs(ahs, out.data()));
  return out;
}

void ExpectInvalid(const Bytes& bytes, const char* field) {
  AhsView view;
  const DecodeResult result = DecodeAhs(bytes, &view);
  EXPECT_EQ(result.code, DecodeResult::kInvalidField);
  EXPECT_STREQ(result.field, field);
}

TEST(AhsTest, NoneIsEmpty) {
  AhsView view;
  EXPECT_TRUE(DecodeAhs({}, &view).ok());
  EXPECT_TRUE(view.extended_cdb.empty());
  EXPECT_FALSE(view.has_bidi_read_length);
  EXPECT_TRUE(Encoded(view).empty());
}

TEST(AhsTest, BidirectionalReadLength) {
  AhsView view;
  view.has_bidi_read_length = true;
  view.bidi_read_length = 0x01020304;
  const Bytes golden = {0x00, 0x05, 0x02, 0x00, 0x01, 0x02, 0x03, 0x04};
  EXPECT_EQ(Encoded(view), golden);
  AhsView decoded;
  ASSERT_TRUE(DecodeAhs(golden, &decoded).ok());
  EXPECT_TRUE(decoded.has_bidi_read_length);
  EXPECT_EQ(decoded.bidi_read_length, 0x01020304u);
}

// A 32-byte CDB: AHSLength is CDBLength - 15.
TEST(AhsTest, ExtendedCdb) {
  Bytes cdb(16);
  for (size_t i = 0; i < cdb.size(); ++i) cdb[i] = static_cast<uint8_t>(i + 1);
  AhsView view;
  view.extended_cdb = cdb;
  Bytes golden = {0x00, 0x11, 0x01, 0x00};
  golden.insert(golden.end(), cdb.begin(), cdb.end());
  EXPECT_EQ(Encoded(view), golden);
  AhsView decoded;
  ASSERT_TRUE(DecodeAhs(golden, &decoded).ok());
  EXPECT_EQ(Bytes(decoded.extended_cdb.begin(), decoded.extended_cdb.end()),
            cdb);
}

TEST(AhsTest, BothInEitherOrder) {
  const Bytes cdb = {0xc1};
  AhsView view;
  view.extended_cdb = cdb;
  view.has_bidi_read_length = true;
  view.bidi_read_length = 512;
  const Bytes golden = {0x00, 0x02, 0x01, 0x00, 0xc1, 0x00, 0x00, 0x00,
                        0x00, 0x05, 0x02, 0x00, 0x00, 0x00, 0x02, 0x00};
  EXPECT_EQ(Encoded(view), golden);
  Bytes swapped(golden.begin() + 8, golden.end());
  swapped.insert(swapped.end(), golden.begin(), golden.begin() + 8);
  for (const Bytes& bytes : {golden, swapped}) {
    AhsView decoded;
    ASSERT_TRUE(DecodeAhs(bytes, &decoded).ok());
    EXPECT_EQ(decoded.bidi_read_length, 512u);
    ASSERT_EQ(decoded.extended_cdb.size(), 1u);
    EXPECT_EQ(decoded.extended_cdb[0], 0xc1);
  }
}

TEST(AhsTest, EveryCdbLengthRoundTrips) {
  Bytes cdb(kMaxAhsBytes - 4);
  std::mt19937 random(1);
  for (uint8_t& byte : cdb) byte = static_cast<uint8_t>(random());
  for (size_t size = 1; size <= cdb.size(); ++size) {
    AhsView view;
    view.extended_cdb = absl::MakeConstSpan(cdb.data(), size);
    const Bytes bytes = Encoded(view);
    EXPECT_EQ(bytes.size() % 4, 0u);
    AhsView decoded;
    ASSERT_TRUE(DecodeAhs(bytes, &decoded).ok()) << size;
    ASSERT_EQ(decoded.extended_cdb, view.extended_cdb);
  }
}

TEST(AhsTest, ReservedBitsAreIgnored) {
  AhsView decoded;
  ASSERT_TRUE(
      DecodeAhs(Bytes{0x00, 0x05, 0xc2, 0xff, 0, 0, 0, 9}, &decoded).ok());
  EXPECT_EQ(decoded.bidi_read_length, 9u);
}

TEST(AhsTest, Errors) {
  ExpectInvalid({0x00}, "TotalAHSLength");
  ExpectInvalid({0x00, 0x05, 0x02, 0x00, 1, 2, 3}, "TotalAHSLength");
  // Reserved types.
  ExpectInvalid({0x00, 0x01, 0x00, 0x00}, "AHSType");
  ExpectInvalid({0x00, 0x01, 0x03, 0x00}, "AHSType");
  ExpectInvalid({0x00, 0x01, 0x3f, 0x00}, "AHSType");
  // Lengths that the type doesn't allow.
  ExpectInvalid({0x00, 0x04, 0x02, 0x00, 1, 2, 3, 4}, "AHSLength");
  ExpectInvalid({0x00, 0x01, 0x02, 0x00}, "AHSLength");
  ExpectInvalid({0x00, 0x01, 0x01, 0x00}, "AHSLength");
  ExpectInvalid({0x00, 0x00, 0x01, 0x00}, "AHSLength");
  // Past the end.
  ExpectInvalid({0x00, 0x05, 0x02, 0x00}, "AHSLength");
  ExpectInvalid({0xff, 0xff, 0x01, 0x00}, "AHSLength");
  // Repeated.
  ExpectInvalid({0, 5, 2, 0, 0, 0, 0, 1, 0, 5, 2, 0, 0, 0, 0, 1}, "AHSType");
  ExpectInvalid({0, 2, 1, 0, 7, 0, 0, 0, 0, 2, 1, 0, 7, 0, 0, 0}, "AHSType");
}

TEST(AhsTest, RandomBytesStayInside) {
  std::mt19937 random(3);
  for (int round = 0; round < 50000; ++round) {
    Bytes bytes(random() % 40);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 8);
    }
    AhsView view;
    if (!DecodeAhs(bytes, &view).ok() || view.extended_cdb.empty()) continue;
    EXPECT_GE(view.extended_cdb.data(), bytes.data());
    EXPECT_LE(view.extended_cdb.data() + view.extended_cdb.size(),
              bytes.data() + bytes.size());
  }
}

}  // namespace
}  // namespace skiff::protocol
