#include "protocol/codec/digest.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace skiff::protocol {
namespace {

using Bytes = std::vector<uint8_t>;
using DigestBytes = std::array<uint8_t, kDigestSize>;

DigestBytes DigestOf(const Bytes& data) {
  DigestBytes out;
  StoreDigest(FinishDigest(ExtendDigest(kDigestInit, data.data(), data.size())),
              out.data());
  return out;
}

// RFC 3720 appendix B.4, "CRC Examples".
TEST(DigestTest, PublishedVectors) {
  EXPECT_EQ(DigestOf(Bytes(32, 0x00)), (DigestBytes{0xaa, 0x36, 0x91, 0x8a}));
  EXPECT_EQ(DigestOf(Bytes(32, 0xff)), (DigestBytes{0x43, 0xab, 0xa8, 0x62}));
  Bytes up;
  Bytes down;
  for (uint8_t i = 0; i < 32; ++i) {
    up.push_back(i);
    down.push_back(static_cast<uint8_t>(31 - i));
  }
  EXPECT_EQ(DigestOf(up), (DigestBytes{0x4e, 0x79, 0xdd, 0x46}));
  EXPECT_EQ(DigestOf(down), (DigestBytes{0x5c, 0xdb, 0x3f, 0x11}));
  const Bytes read_command = {
      0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  EXPECT_EQ(DigestOf(read_command), (DigestBytes{0x56, 0x3a, 0x96, 0xd9}));
}

TEST(DigestTest, NothingDigestsToZero) {
  EXPECT_EQ(FinishDigest(ExtendDigest(kDigestInit, nullptr, 0)), 0u);
}

TEST(DigestTest, PiecesChain) {
  std::mt19937 random(5);
  Bytes data(1000);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  const uint32_t whole = ExtendDigest(kDigestInit, data.data(), data.size());
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    const uint32_t head = ExtendDigest(kDigestInit, data.data(), cut);
    ASSERT_EQ(ExtendDigest(head, data.data() + cut, data.size() - cut), whole);
  }
}

TEST(DigestTest, StoredDigestLoads) {
  DigestBytes bytes;
  StoreDigest(0x01020304, bytes.data());
  EXPECT_EQ(bytes, (DigestBytes{0x04, 0x03, 0x02, 0x01}));
  EXPECT_EQ(LoadDigest(bytes.data()), 0x01020304u);
}

TEST(DigestTest, EveryBitCounts) {
  const Bytes data(48, 0x5a);
  const DigestBytes good = DigestOf(data);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    Bytes bad = data;
    bad[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_NE(DigestOf(bad), good) << bit;
  }
}

}  // namespace
}  // namespace skiff::protocol
