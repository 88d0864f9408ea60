#ifndef SKIFF_PROTOCOL_CODEC_PDU_TEST_UTIL_H_
#define SKIFF_PROTOCOL_CODEC_PDU_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "protocol/codec/pdu.h"

namespace skiff::protocol {

// The 48 bytes of a header from twelve words of hexadecimal digits.
inline Bhs FromHex(absl::string_view words) {
  const std::string bytes =
      absl::HexStringToBytes(absl::StrReplaceAll(words, {{" ", ""}}));
  EXPECT_EQ(bytes.size(), kBhsSize) << words;
  Bhs bhs = {};
  std::copy_n(bytes.begin(), std::min(bytes.size(), kBhsSize), bhs.begin());
  return bhs;
}

inline std::string ToHex(const Bhs& bhs) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bhs.data()), bhs.size()));
}

template <typename Pdu>
Bhs EncodeToBhs(const Pdu& pdu) {
  Bhs bhs;
  bhs.fill(0xa5);  // Encode must write every byte.
  Encode(pdu, bhs.data());
  return bhs;
}

}  // namespace skiff::protocol

#endif  // SKIFF_PROTOCOL_CODEC_PDU_TEST_UTIL_H_
