#include "scsi/initiator/disk_probe.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scsi/initiator/fake_command_port.h"
#include "scsi/initiator/run_until.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {
namespace {

using ::testing::HasSubstr;

class DiskProbeTest : public ::testing::Test {
 protected:
  absl::Status Probe() {
    const RetryingCommand::Environment environment = {
        &port_,
        reactor_.get(),
        0,
        {.max_retries = 3,
         .first_delay = absl::Milliseconds(1),
         .max_delay = absl::Milliseconds(1)},
        nullptr,
        nullptr};
    DiskProbe probe(&environment);
    absl::Status result = absl::UnknownError("still probing");
    probe.Start([&result](absl::Status status) { result = std::move(status); });
    EXPECT_TRUE(RunUntil(
        reactor_.get(), [&probe] { return !probe.running(); },
        absl::Seconds(20)));
    info_ = probe.info();
    return result;
  }
  std::string Error() { return std::string(Probe().message()); }

  std::unique_ptr<transport::EpollReactor> reactor_ =
      *transport::EpollReactor::Create();
  FakeCommandPort port_{reactor_.get()};
  DiskInfo info_;
};

TEST_F(DiskProbeTest, LearnsAll) {
  port_.disk.max_transfer_blocks = 128;
  port_.disk.max_write_same_blocks = 77;
  ASSERT_TRUE(Probe().ok());
  EXPECT_EQ(info_.vendor, "SKIFF");
  EXPECT_EQ(info_.product, "Fake");
  EXPECT_EQ(info_.revision, "0.1");
  EXPECT_EQ(info_.serial, "47");
  EXPECT_EQ(info_.identifier, "naa.6000000000000001");
  EXPECT_EQ(info_.size_bytes, 512u << 20);
  EXPECT_EQ(info_.block_size, 512u);
  EXPECT_EQ(info_.physical_block_size, 4096u);
  EXPECT_FALSE(info_.read_only);
  EXPECT_FALSE(info_.rotational);
  EXPECT_TRUE(info_.dpo_fua);
  EXPECT_TRUE(info_.volatile_write_cache);
  EXPECT_EQ(info_.max_transfer_bytes, 65536u);
  EXPECT_TRUE(info_.unmap && info_.unmap_command && info_.write_same_unmap);
  EXPECT_TRUE(info_.unmapped_reads_zeroes);
  EXPECT_EQ(info_.unmap_granularity_bytes, 4096u);
  EXPECT_EQ(info_.max_write_same_bytes, 77u * 512);
  EXPECT_EQ(info_.max_compare_and_write_bytes, 4096u);
}

TEST_F(DiskProbeTest, SimpleDisk) {
  port_.disk.vpd = false;
  port_.disk.read_capacity_16 = false;
  port_.disk.caching_page = false;
  port_.disk.dpo_fua = false;
  port_.disk.write_protected = true;
  ASSERT_TRUE(Probe().ok());
  EXPECT_EQ(info_.size_bytes, 512u << 20);
  EXPECT_TRUE(info_.read_only) << "from the header of all pages";
  EXPECT_TRUE(info_.volatile_write_cache) << "unknown: the safe assumption";
  EXPECT_FALSE(info_.unmap);
  EXPECT_EQ(info_.identifier, "");
}

// Without RDPROTECT and WRPROTECT it works as any other.
TEST_F(DiskProbeTest, DiskWithProtectionInformation) {
  std::vector<uint8_t> capacity(32);
  capacity[6] = 0x10;  // Block 1000h is the last,
  capacity[10] = 2;    // of 512 bytes,
  capacity[12] = 1;    // PROT_EN.
  port_.data = {{0x9e00, capacity}};
  ASSERT_TRUE(Probe().ok());
  EXPECT_EQ(info_.size_bytes, 0x1001u * 512);
}

TEST_F(DiskProbeTest, WaitsUntilReady) {
  const FakeCommandPort::Answer becoming_ready = {
      .status = 0x02,
      .key = SenseKey::kNotReady,
      .code = AdditionalSense::kNotReadyBecomingReady};
  const FakeCommandPort::Answer power_on = {.status = 0x02,
                                            .key = SenseKey::kUnitAttention,
                                            .code = AdditionalSense::kPowerOn};
  const FakeCommandPort::Answer in_transition = {
      .status = 0x02,
      .key = SenseKey::kNotReady,
      .code = AdditionalSense::kNotReadyAccessTransition};
  port_.answers[0x00] = {power_on, becoming_ready, in_transition};
  EXPECT_TRUE(Probe().ok());
  EXPECT_EQ(port_.CountOf("TEST UNIT READY"), 4u);
  port_.answers[0x00].assign(10, becoming_ready);
  EXPECT_THAT(Error(), HasSubstr("NOT READY"));
}

TEST_F(DiskProbeTest, NoDisk) {
  port_.disk.peripheral_qualifier = 3;
  port_.disk.device_type = 0x1f;
  EXPECT_THAT(Error(), HasSubstr("no logical unit 0000000000000000h"));
  port_.disk.peripheral_qualifier = 0;
  port_.disk.device_type = 0x05;
  EXPECT_THAT(Error(), HasSubstr("no disk but of device type 05h"));
}

TEST_F(DiskProbeTest, LiesEndTheProbe) {
  const std::vector<uint8_t> short_page = {0, 0xb0, 0, 2, 0, 0};
  port_.data[0x12b0] = short_page;
  EXPECT_THAT(Error(), HasSubstr("6 bytes of the block limits"));
  port_.data = {{0x9e00, std::vector<uint8_t>(32)}};  // Blocks of 0 bytes.
  EXPECT_THAT(Error(), HasSubstr("its blocks have 0 bytes"));
  // Odd names are no reason to refuse a disk.
  port_.data = {{0x1283, {0, 0x83, 0, 6, 1, 3, 0, 200, 0x60, 1}}};
  EXPECT_TRUE(Probe().ok());
  EXPECT_EQ(info_.identifier, "");
}

}  // namespace
}  // namespace skiff::scsi
