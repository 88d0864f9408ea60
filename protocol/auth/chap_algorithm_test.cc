#include "protocol/auth/chap_algorithm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "protocol/auth/chap_secret.h"

namespace skiff::protocol {
namespace {

std::string Hex(const std::vector<uint8_t>& bytes) {
  return absl::BytesToHexString(std::string(bytes.begin(), bytes.end()));
}

// By Python's hashlib: digest(bytes([0x42]) + b"a secret of 20 bytes" +
// bytes(range(16))).
TEST(ChapAlgorithmTest, RespondsAsAnIndependentImplementation) {
  struct Case {
    ChapAlgorithm algorithm;
    const char* response;
  };
  const Case cases[] = {
      {ChapAlgorithm::kMd5, "8e58f760c37e1d72e0a3ac308ea28e11"},
      {ChapAlgorithm::kSha1, "6ab9aefa2e5f089164f8df88cb08000fc0cd8970"},
      {ChapAlgorithm::kSha256,
       "14e2ab5bec42c915226767baea8c581dc98e3ccaf67df28d3d974d1195288401"},
      {ChapAlgorithm::kSha3,
       "380226dccdbab834f2ccea64f37540d46094c1311c8bc4b6189e34be84de814f"},
  };
  std::vector<uint8_t> challenge(16);
  for (uint8_t i = 0; i < 16; ++i) challenge[i] = i;
  for (const Case& one : cases) {
    const auto response =
        ChapResponse(one.algorithm, 0x42, "a secret of 20 bytes", challenge);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(Hex(*response), one.response) << ChapAlgorithmName(one.algorithm);
    EXPECT_EQ(response->size(), ChapDigestBytes(one.algorithm));
  }
}

TEST(ChapAlgorithmTest, HasNamesBothWays) {
  for (const ChapAlgorithm algorithm : AllChapAlgorithms()) {
    EXPECT_EQ(*ParseChapAlgorithm(ChapAlgorithmName(algorithm)), algorithm);
  }
  EXPECT_EQ(*ParseChapAlgorithm("sha-256"), ChapAlgorithm::kSha256);
  EXPECT_EQ(ParseChapAlgorithm("MD4").status().message(),
            "no algorithm of CHAP is called 'MD4': there are SHA3-256, "
            "SHA-256, SHA1 and MD5");
}

TEST(ChapAlgorithmTest, ComparesByContentAndLength) {
  const std::vector<uint8_t> a = {1, 2, 3};
  EXPECT_TRUE(EqualInConstantTime(a, std::vector<uint8_t>{1, 2, 3}));
  EXPECT_FALSE(EqualInConstantTime(a, std::vector<uint8_t>{1, 2, 4}));
  EXPECT_FALSE(EqualInConstantTime(a, std::vector<uint8_t>{1, 2}));
}

TEST(ChapAlgorithmTest, RandomBytesDiffer) {
  std::vector<uint8_t> a(32), b(32);
  ASSERT_TRUE(FillRandom(absl::MakeSpan(a)));
  ASSERT_TRUE(FillRandom(absl::MakeSpan(b)));
  EXPECT_NE(a, b);
}

TEST(ChapSecretTest, ComparesAndMoves) {
  ChapSecret a("twelve bytes");
  ChapSecret b = a;
  EXPECT_TRUE(a.Equals(b));
  ChapSecret c = std::move(a);
  EXPECT_TRUE(c.Equals(b));
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): it is emptied.
  EXPECT_FALSE(c.Equals(ChapSecret("twelve bytez")));
}

TEST(ChapSecretTest, SaysWhatIsWrongWithoutTheSecret) {
  EXPECT_TRUE(CheckChapSecret(ChapSecret("twelve bytes")).ok());
  EXPECT_EQ(CheckChapSecret(ChapSecret("eleven byte")).message(),
            "a secret for CHAP has 11 bytes: it has to have 12 to 255 (RFC "
            "7143 section 9.2.1)");
  EXPECT_FALSE(CheckChapSecret(ChapSecret(std::string(256, 'x'))).ok());
  EXPECT_FALSE(CheckChapName("").ok());
  EXPECT_FALSE(CheckChapName("a\nb").ok());
  EXPECT_FALSE(CheckChapName(std::string(256, 'x')).ok());
  EXPECT_TRUE(CheckChapName("iqn.2026-01.org.example:client").ok());
  EXPECT_FALSE(
      CheckChapPair(ChapSecret("twelve bytes"), ChapSecret("twelve bytes"))
          .ok());
}

}  // namespace
}  // namespace skiff::protocol
