#include "scsi/initiator/lun_lookup.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scsi/endian.h"
#include "scsi/initiator/fake_command_port.h"
#include "scsi/initiator/run_until.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {
namespace {

constexpr uint16_t kReportLuns = 0xa000;
constexpr uint64_t kFlat300 = 0x412c000000000000;
constexpr uint64_t kPeripheral300 = 0x012c000000000000;

class LunLookupTest : public ::testing::Test {
 protected:
  // The target lists these.
  void List(const std::vector<uint64_t>& luns) {
    std::vector<uint8_t> data(8 + 8 * luns.size());
    StoreBe32(data.data(), static_cast<uint32_t>(8 * luns.size()));
    for (size_t i = 0; i < luns.size(); ++i) {
      StoreBe64(&data[8 + 8 * i], luns[i]);
    }
    port_.data[kReportLuns] = data;
  }
  uint64_t Find(uint32_t number) {
    std::optional<uint64_t> found;
    lookup_.Start(number, [&](uint64_t lun) { found = lun; });
    EXPECT_FALSE(found.has_value());
    EXPECT_TRUE(RunUntil(
        reactor_.get(), [&] { return found.has_value(); }, absl::Seconds(20)));
    return found.value_or(0);
  }

  std::unique_ptr<transport::EpollReactor> reactor_ =
      *transport::EpollReactor::Create();
  FakeCommandPort port_{reactor_.get()};
  LunLookup lookup_{&port_, reactor_.get(), {.max_retries = 0}};
};

TEST_F(LunLookupTest, IsNeededWhereThereAreTwoForms) {
  EXPECT_FALSE(LunLookup::Needed(0));
  EXPECT_FALSE(LunLookup::Needed(255));
  EXPECT_TRUE(LunLookup::Needed(256));
}

TEST_F(LunLookupTest, TakesTheFormOfTheList) {
  List({0, uint64_t{1} << 48, kPeripheral300});
  EXPECT_EQ(Find(300), kPeripheral300);
  List({0, kFlat300});
  EXPECT_EQ(Find(300), kFlat300);
}

TEST_F(LunLookupTest, TakesTheStandardsOtherwise) {
  List({0});
  EXPECT_EQ(Find(300), kFlat300) << "it is not listed";
  port_.data[kReportLuns] = {0, 0};
  EXPECT_EQ(Find(300), kFlat300) << "that is no list";
  port_.answers[0xa0].push_back({.outcome = Command::Outcome::kConnectionLost});
  EXPECT_EQ(Find(300), kFlat300) << "there was no answer";
}

TEST_F(LunLookupTest, CanBeGivenUp) {
  port_.hold = true;
  std::optional<uint64_t> found;
  lookup_.Start(300, [&](uint64_t lun) { found = lun; });
  lookup_.Stop();
  EXPECT_TRUE(RunUntil(
      reactor_.get(), [&] { return found.has_value(); }, absl::Seconds(20)));
  EXPECT_EQ(found, kFlat300);
  EXPECT_FALSE(lookup_.running());
}

}  // namespace
}  // namespace skiff::scsi
