#include "scsi/lun.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace skiff::scsi {
namespace {

constexpr uint64_t Wire(uint16_t first_level) {
  return uint64_t{first_level} << 48;
}

TEST(LunTest, EveryNumberInBothMethods) {
  for (uint32_t number = 0; number <= 16383; ++number) {
    const auto peripheral = Wire(static_cast<uint16_t>(number));
    const auto flat = Wire(static_cast<uint16_t>(0x4000 | number));
    EXPECT_EQ(DecodeLun(peripheral), number);
    EXPECT_EQ(DecodeLun(flat), number);
    EXPECT_TRUE(SameLun(peripheral, flat));
    EXPECT_FALSE(SameLun(peripheral, flat ^ Wire(1)));
    EXPECT_EQ(EncodeLun(number), number <= 255 ? peripheral : flat);
  }
}

TEST(LunTest, WhatHasNoNumber) {
  // Logical unit addressing and extended addressing.
  for (uint32_t first = 0x8000; first <= 0xffff; ++first) {
    EXPECT_FALSE(DecodeLun(Wire(static_cast<uint16_t>(first))).has_value());
  }
  EXPECT_FALSE(DecodeLun(kReportLunsWellKnownLun).has_value());
  EXPECT_TRUE(SameLun(kReportLunsWellKnownLun, kReportLunsWellKnownLun));
  EXPECT_FALSE(SameLun(kReportLunsWellKnownLun, Wire(0x8000)));
  // More levels than one.
  for (int bit = 0; bit < 48; ++bit) {
    EXPECT_FALSE(DecodeLun(uint64_t{1} << bit).has_value());
    EXPECT_FALSE(DecodeLun(Wire(0x412c) | uint64_t{1} << bit).has_value());
  }
}

}  // namespace
}  // namespace skiff::scsi
