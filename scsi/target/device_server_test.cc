#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "scsi/backend/ram_backend.h"
#include "scsi/endian.h"
#include "scsi/target/target.h"
#include "scsi/target/testing.h"

namespace skiff::scsi {
namespace {

using testing::Bytes;
using testing::Cdb10;
using testing::Cdb16;
using testing::Pattern;
using testing::TestCommand;
using testing::TestNexus;
using testing::TestReactor;

constexpr uint64_t kBlocks = 2048;

class DeviceServerTest : public ::testing::Test {
 protected:
  DeviceServerTest() : target_(Target::Create("iqn.2026-01.example:t")) {
    auto backend = MakeRamBackend(
        {.size_bytes = kBlocks * 512, .block_size = 512, .read_only = false});
    EXPECT_TRUE(backend.ok());
    backend_ = *std::move(backend);
    EXPECT_TRUE(target_->AddLogicalUnit(backend_, {}).ok());
    nexus_ = std::make_unique<TestNexus>(target_.get(), &reactor_);
  }

  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Target> target_;
  TestReactor reactor_;
  std::unique_ptr<TestNexus> nexus_;
};

TEST_F(DeviceServerTest, AFreshNexusMeetsAUnitAttention) {
  TestCommand first(Bytes(6), {}, 0);
  nexus_->Run(&first);
  EXPECT_EQ(first.status(), ScsiStatus::kCheckCondition);
  EXPECT_EQ(first.sense()->key, SenseKey::kUnitAttention);
  EXPECT_EQ(first.code(), AdditionalSense::kPowerOnResetOrBusDeviceReset);
  TestCommand second(Bytes(6), {}, 0);
  nexus_->Run(&second);
  EXPECT_EQ(second.status(), ScsiStatus::kGood);
}

TEST_F(DeviceServerTest, WritesAndReadsBack) {
  nexus_->ClearUnitAttentions();
  TestCommand write(Cdb10(0x2a, 5, 3), Pattern(3 * 512, 1), 0);
  nexus_->Run(&write);
  EXPECT_EQ(write.status(), ScsiStatus::kGood);
  EXPECT_EQ(std::memcmp(backend_->direct_memory() + 5 * 512,
                        write.data_out.data(), 3 * 512),
            0);
  TestCommand read(Cdb16(0x88, 5, 3), {}, 3 * 512);
  nexus_->Run(&read);
  EXPECT_EQ(read.status(), ScsiStatus::kGood);
  EXPECT_EQ(read.data_in, write.data_out);
}

}  // namespace
}  // namespace skiff::scsi
