#include "scsi/target/unit_attention.h"

#include <gtest/gtest.h>

#include <vector>

namespace skiff::scsi {
namespace {

using Codes = std::vector<AdditionalSense>;
constexpr auto kPowerOn = AdditionalSense::kPowerOnResetOrBusDeviceReset;
constexpr auto kReset = AdditionalSense::kBusDeviceResetFunctionOccurred;
constexpr auto kLoss = AdditionalSense::kITNexusLoss;
constexpr auto kCleared = AdditionalSense::kCommandsClearedByAnotherInitiator;
constexpr auto kMode = AdditionalSense::kModeParametersChanged;
constexpr auto kLuns = AdditionalSense::kReportedLunsDataHasChanged;
constexpr auto kCapacity = AdditionalSense::kCapacityDataHasChanged;

struct Case {
  const char* what;
  Codes established;
  Codes reported;
};

class UnitAttentionsTest : public ::testing::TestWithParam<Case> {};

TEST_P(UnitAttentionsTest, AreReportedByPrecedence) {
  UnitAttentions pending;
  for (const AdditionalSense code : GetParam().established) {
    pending.Establish(code);
  }
  Codes reported;
  while (pending.pending()) reported.push_back(pending.Take());
  EXPECT_EQ(reported, GetParam().reported) << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    All, UnitAttentionsTest,
    ::testing::Values(
        Case{"nothing", {}, {}},
        Case{"each once", {kMode, kMode, kMode}, {kMode}},
        Case{
            "first come", {kMode, kLuns, kCapacity}, {kMode, kLuns, kCapacity}},
        Case{"resets first", {kMode, kReset}, {kReset, kMode}},
        Case{"a reset includes lesser ones",
             {kCleared, kLoss, kMode, kReset},
             {kReset, kMode}},
        Case{"power on includes all resets", {kReset, kPowerOn}, {kPowerOn}},
        Case{
            "nothing after power on", {kPowerOn, kReset, kCleared}, {kPowerOn}},
        Case{"but other news", {kPowerOn, kLuns}, {kPowerOn, kLuns}}));

TEST(UnitAttentionsBoundTest, DropsTheLeastWhenTooManyArePending) {
  UnitAttentions pending;
  for (uint16_t i = 0; i < UnitAttentions::kMax + 2; ++i) {
    pending.Establish(static_cast<AdditionalSense>(0x3f00 + i));
  }
  EXPECT_EQ(pending.size(), UnitAttentions::kMax);
  pending.Establish(kReset);
  EXPECT_EQ(pending.size(), UnitAttentions::kMax);
  EXPECT_EQ(pending.Take(), kReset);
  EXPECT_EQ(pending.Take(), static_cast<AdditionalSense>(0x3f00));
}

TEST(UnitAttentionsClearTest, TakesOutOneCode) {
  UnitAttentions pending;
  pending.Establish(kMode);
  pending.Establish(kLuns);
  pending.Clear(kMode);
  pending.Clear(kCapacity);
  EXPECT_EQ(pending.Take(), kLuns);
  EXPECT_FALSE(pending.pending());
}

}  // namespace
}  // namespace skiff::scsi
