#include <nlohmann/json.hpp>
#include <string>

#include "gtest/gtest.h"
#include "tools/skiff/base/json.h"
#include "tools/skiff/base/text.h"

namespace skiff::tools {
namespace {

transport::DeviceReport RoceDevice() {
  transport::DeviceReport device;
  device.name = "rxe0 port 1";
  device.usable = true;
  device.kind = "RoCE";
  device.link = "ACTIVE";
  device.mtu = 1024;
  device.addresses = {"fe80::1", "::ffff:10.0.0.1"};
  transport::Capabilities& c = device.capabilities;
  c.rdma = true;
  c.max_message_bytes = 1u << 30;
  c.max_inline_bytes = 256;
  c.max_send_sges = 32;
  c.max_receive_sges = 16;
  c.max_read_sges = 1;
  c.max_send_queue = 4096;
  c.max_receive_queue = 8192;
  c.max_read_depth = 128;
  c.max_private_data_bytes = 56;
  c.remote_key_bits = 32;
  c.send_with_invalidate = true;
  c.memory_windows = true;
  c.deregistration_ends_access = true;
  return device;
}

TransportsReport Example() {
  transport::DeviceReport down;
  down.name = "eth1";
  down.problem = "the interface is down; ip link set eth1 up";
  down.kind = "tcp";
  down.link = "down";
  down.detail = "down, no addresses";
  TransportsReport report;
  report.transports = {{"verbs", {RoceDevice()}}, {"tcp", {down}}};
  LimitReport locked;
  locked.key = "locked_memory";
  locked.label = "locked memory";
  locked.is_bytes = true;
  locked.value = 8u << 20;
  locked.problem = "too little; ulimit -l unlimited";
  report.machine.limits = {locked};
  report.machine.huge_pages = {{2u << 20, 64, 60}};
  report.machine.modules = {
      {"ib_uverbs", "RDMA for programs", "not loaded", "modprobe ib_uverbs"}};
  report.machine.device_files = {
      {"/dev/infiniband/rdma_cm", false, "Permission denied"}};
  return report;
}

TEST(TransportsTextTest, TellsWhatThereIsAndWhatToDo) {
  EXPECT_EQ(ToText(Example()),
            R"(TRANSPORT  DEVICE       USABLE  KIND  LINK     MTU  ADDRESSES
verbs      rxe0 port 1  yes     RoCE  ACTIVE  1024  fe80::1
                                                    ::ffff:10.0.0.1
tcp        eth1         no      tcp   down          down, no addresses

TRANSPORT  DEVICE       MESSAGE  INLINE  SGES S/R/READ  QUEUE S/R  READS  PRIVATE DATA  KEY BITS  CAN DO
verbs      rxe0 port 1  1 GiB       256  32/16/1        4096/8192    128            56        32  invalidate, windows

LIMIT                NOW      AT MOST
locked memory        8 MiB    unlimited
huge pages of 2 MiB  60 free  64

KERNEL MODULE  STATE       FOR
ib_uverbs      not loaded  RDMA for programs

problems, and what to do
  tcp eth1: the interface is down; ip link set eth1 up
  locked memory: too little; ulimit -l unlimited
  ib_uverbs: modprobe ib_uverbs
  /dev/infiniband/rdma_cm: Permission denied
)");
}

TEST(TransportsTextTest, SaysThatThereIsNoRdma) {
  TransportsReport report = Example();
  report.transports.erase(report.transports.begin());
  EXPECT_NE(ToText(report).find("\nno RDMA on this machine\n"),
            std::string::npos);
}

TEST(TransportsJsonTest, HasEverything) {
  const auto json = nlohmann::json::parse(ToJson(Example()));
  const auto& verbs = json["transports"][0];
  EXPECT_EQ(verbs["scheme"], "verbs");
  const auto& device = verbs["devices"][0];
  EXPECT_EQ(device["name"], "rxe0 port 1");
  EXPECT_EQ(device["usable"], true);
  EXPECT_EQ(device["mtu"], 1024);
  EXPECT_EQ(device["addresses"].size(), 2u);
  EXPECT_EQ(device["capabilities"]["remote_key_bits"], 32);
  EXPECT_EQ(device["capabilities"]["memory_windows"], true);
  EXPECT_FALSE(device.contains("problem"));
  const auto& tcp = json["transports"][1]["devices"][0];
  EXPECT_EQ(tcp["problem"], "the interface is down; ip link set eth1 up");
  EXPECT_FALSE(tcp.contains("capabilities"));
  EXPECT_EQ(json["limits"]["locked_memory"]["now"], 8 << 20);
  EXPECT_TRUE(json["limits"]["locked_memory"]["at_most"].is_null());
  EXPECT_EQ(json["huge_pages"][0]["free"], 60);
  EXPECT_EQ(json["modules"][0]["state"], "not loaded");
  EXPECT_EQ(json["modules"][0]["problem"], "modprobe ib_uverbs");
  EXPECT_EQ(json["device_files"][0]["usable"], false);
}

}  // namespace
}  // namespace skiff::tools
