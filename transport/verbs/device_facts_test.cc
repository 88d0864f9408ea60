#include "transport/verbs/device_facts.h"

#include "gtest/gtest.h"
#include "transport/verbs/verbs_devices.h"

namespace skiff::transport {
namespace {

DeviceFacts Adapter() {
  DeviceFacts facts;
  facts.name = "mlx5_0";
  facts.max_message_bytes = size_t{1} << 30;
  facts.max_inline_bytes = 956;
  facts.device.max_sge = 30;
  facts.device.max_sge_rd = 16;
  facts.device.max_qp_wr = 32768;
  facts.device.max_cqe = 4096;
  facts.device.max_qp_rd_atom = 16;
  facts.device.max_qp_init_rd_atom = 8;
  facts.device.max_srq = 100;
  facts.device.device_cap_flags =
      IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  return facts;
}

TEST(DeviceFactsTest, AnInfiniBandAdapter) {
  const Capabilities caps = ToCapabilities(Adapter());
  EXPECT_TRUE(caps.rdma);
  EXPECT_EQ(caps.max_message_bytes, size_t{1} << 30);
  EXPECT_EQ(caps.max_inline_bytes, 956u);
  EXPECT_EQ(caps.max_send_sges, 30u);
  EXPECT_EQ(caps.max_read_sges, 16u);
  EXPECT_EQ(caps.max_read_depth, 8u) << "the smaller of both directions";
  EXPECT_EQ(caps.max_send_queue, 4096u) << "what a completion queue holds";
  EXPECT_EQ(caps.max_private_data_bytes, 56u);
  EXPECT_EQ(caps.remote_key_bits, 32);
  EXPECT_TRUE(caps.send_with_invalidate);
  EXPECT_TRUE(caps.memory_windows);
  EXPECT_TRUE(caps.shared_receive_queue);
  EXPECT_TRUE(caps.receiver_not_ready_retry);
  EXPECT_FALSE(caps.read_sink_needs_remote_write);
}

TEST(DeviceFactsTest, AnIwarpAdapter) {
  DeviceFacts facts = Adapter();
  facts.iwarp = true;
  facts.device.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
  facts.device.max_qp_rd_atom = 1000;
  facts.device.max_qp_init_rd_atom = 1000;
  const Capabilities caps = ToCapabilities(facts);
  EXPECT_EQ(caps.max_read_sges, 1u);
  EXPECT_EQ(caps.max_read_depth, 254u) << "255 means: as much as there is";
  EXPECT_EQ(caps.max_private_data_bytes, 251u);
  EXPECT_TRUE(caps.send_with_invalidate);
  EXPECT_FALSE(caps.memory_windows);
  EXPECT_FALSE(caps.receiver_not_ready_retry);
  EXPECT_TRUE(caps.read_sink_needs_remote_write);
}

TEST(DeviceFactsTest, SoftIwarpCannotSendWithInvalidate) {
  DeviceFacts facts = Adapter();
  facts.iwarp = true;
  facts.soft_iwarp = true;
  facts.device.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
  EXPECT_FALSE(ToCapabilities(facts).send_with_invalidate);
}

TEST(DeviceFactsTest, ADeviceWithoutAnything) {
  const Capabilities caps = ToCapabilities(DeviceFacts());
  EXPECT_EQ(caps.max_send_queue, 0u);
  EXPECT_EQ(caps.max_read_depth, 0u);
  EXPECT_FALSE(caps.send_with_invalidate);
  EXPECT_FALSE(caps.shared_receive_queue);
}

TEST(DeviceFactsTest, GidsAndMtusAreReadable) {
  ibv_gid_entry entry = {};
  entry.gid_index = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  entry.gid.raw[10] = entry.gid.raw[11] = 0xff;
  entry.gid.raw[12] = 10;
  entry.gid.raw[15] = 1;
  EXPECT_EQ(GidToString(entry), "RoCE v2 GID ::ffff:10.0.0.1 (index 1)");
  EXPECT_EQ(MtuToString(IBV_MTU_4096), "4096");
  EXPECT_EQ(MtuToString(static_cast<ibv_mtu>(0)), "unknown");
}

// Whatever this machine has: a report is usable, or says what to do.
TEST(DeviceFactsTest, ReportsSayWhatIsWrong) {
  const std::vector<DeviceReport> reports = VerbsDevices();
  ASSERT_FALSE(reports.empty());
  for (const DeviceReport& report : reports) {
    EXPECT_FALSE(report.name.empty());
    EXPECT_TRUE(report.capabilities.rdma);
    EXPECT_EQ(report.usable, report.problem.empty()) << report.problem;
    EXPECT_TRUE(report.usable || report.problem.size() > 20) << report.problem;
  }
}

}  // namespace
}  // namespace skiff::transport
