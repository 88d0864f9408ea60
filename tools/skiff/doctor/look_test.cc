#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tools/skiff/doctor/machine_facts.h"
#include "tools/skiff/doctor/way_facts.h"

namespace skiff::tools {
namespace {

namespace fs = std::filesystem;

class MachineFactsTest : public ::testing::Test {
 public:
  MachineFactsTest()
      : root(fs::path(::testing::TempDir()) /
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  DoctorFacts Read() {
    DoctorFacts facts;
    ReadMachineFacts(&facts, root);
    return facts;
  }

  const fs::path root;
};

TEST_F(MachineFactsTest, AnEmptyMachineHasNothing) {
  const DoctorFacts facts = Read();
  EXPECT_TRUE(facts.rdma_ports.empty());
  EXPECT_TRUE(facts.interfaces.empty());
  EXPECT_TRUE(facts.governors.empty());
  EXPECT_EQ(facts.clock_source, "");
}

TEST_F(MachineFactsTest, APortOfRoce) {
  const std::string device = "sys/class/infiniband/rxe0/";
  const std::string port = device + "ports/1/";
  Write(device + "node_type", "1: CA");
  Write(port + "state", "4: ACTIVE");
  Write(port + "link_layer", "Ethernet");
  Write(port + "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
  Write(port + "gid_attrs/types/0", "RoCE v2");
  Write(port + "gid_attrs/ndevs/0", "skiff-test0");
  Write(port + "gids/10", "0000:0000:0000:0000:0000:ffff:c0a8:4d01");
  Write(port + "gid_attrs/types/10", "IB/RoCE v1");
  Write(port + "gids/11", "0000:0000:0000:0000:0000:0000:0000:0000");
  Write("sys/class/net/skiff-test0/flags", "0x1003");
  Write("sys/class/net/skiff-test0/operstate", "down");
  Write("sys/class/net/skiff-test0/mtu", "9000");
  const DoctorFacts facts = Read();
  ASSERT_EQ(facts.rdma_ports.size(), 1u);
  const RdmaPortFact& fact = facts.rdma_ports[0];
  EXPECT_EQ(fact.device, "rxe0");
  EXPECT_EQ(fact.port, 1u);
  EXPECT_EQ(fact.kind, RdmaPortFact::Kind::kRoce);
  EXPECT_EQ(fact.state, "ACTIVE");
  EXPECT_EQ(fact.interface, "skiff-test0");
  ASSERT_EQ(fact.gids.size(), 2u);
  EXPECT_EQ(fact.gids[0].address, "fe80::1");
  EXPECT_EQ(fact.gids[1].index, 10u);
  EXPECT_EQ(fact.gids[1].address, "192.168.77.1");
  EXPECT_EQ(fact.gids[1].type, "IB/RoCE v1");
  const InterfaceFact& interface = facts.interfaces.at("skiff-test0");
  EXPECT_FALSE(interface.up);
  EXPECT_FALSE(interface.loopback);
  EXPECT_EQ(interface.mtu, 9000u);
  // The kernel of this machine has no such interface.
  EXPECT_FALSE(interface.pause.has_value());
  EXPECT_NE(interface.no_pause, "");
}

TEST_F(MachineFactsTest, OtherPorts) {
  Write("sys/class/infiniband/siw0/node_type", "4: RNIC");
  Write("sys/class/infiniband/siw0/parent", "lo");
  Write("sys/class/infiniband/siw0/ports/1/state", "1: DOWN");
  Write("sys/class/infiniband/mlx5_0/node_type", "1: CA");
  Write("sys/class/infiniband/mlx5_0/ports/2/state", "");
  Write("sys/class/infiniband/mlx5_0/ports/2/link_layer", "InfiniBand");
  const DoctorFacts facts = Read();
  ASSERT_EQ(facts.rdma_ports.size(), 2u);
  EXPECT_EQ(facts.rdma_ports[0].kind, RdmaPortFact::Kind::kInfiniBand);
  EXPECT_EQ(facts.rdma_ports[0].port, 2u);
  EXPECT_EQ(facts.rdma_ports[0].state, "");
  EXPECT_EQ(facts.rdma_ports[1].kind, RdmaPortFact::Kind::kIwarp);
  EXPECT_EQ(facts.rdma_ports[1].interface, "lo");
}

TEST_F(MachineFactsTest, ProcessorsAndClock) {
  for (const char* cpu : {"cpu0", "cpu1"}) {
    const std::string policy =
        std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/";
    Write(policy + "scaling_governor", "powersave");
    Write(policy + "scaling_driver", "intel_pstate");
  }
  Write("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance");
  Write("sys/devices/system/cpu/cpufreq/boost", "1");
  Write("sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet");
  const DoctorFacts facts = Read();
  EXPECT_EQ(facts.governors.at("powersave"), 2u);
  EXPECT_EQ(facts.governors.at("performance"), 1u);
  EXPECT_TRUE(facts.driver_scales);
  EXPECT_EQ(facts.clock_source, "hpet");
}

// A port of the loopback interface on which nobody listens, or somebody.
class Port {
 public:
  explicit Port(bool listens) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd_, generic, length), 0);
    EXPECT_EQ(getsockname(fd_, generic, &length), 0);
    number_ = ntohs(address.sin_port);
    if (listens) {
      EXPECT_EQ(listen(fd_, 1), 0);
    }
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port() { close(fd_); }
  uint16_t number() const { return number_; }

 private:
  const int fd_;
  uint16_t number_ = 0;
};

TEST(WayFactsTest, TheWayToThisMachine) {
  DoctorFacts facts;
  WayFact way;
  way.host = "127.0.0.1";
  way.port = 3260;
  LookAtWay(&way, &facts);
  EXPECT_EQ(way.address, "127.0.0.1");
  EXPECT_EQ(way.local_address, "127.0.0.1");
  EXPECT_EQ(way.interface, "lo");
  EXPECT_TRUE(facts.interfaces.at("lo").loopback);
  EXPECT_EQ(way.short_echo, Echo::kNotTried);
}

TEST(WayFactsTest, ANameThatCannotBe) {
  DoctorFacts facts;
  WayFact way;
  way.host = "no such name";
  LookAtWay(&way, &facts);
  EXPECT_EQ(way.address, "");
  EXPECT_NE(way.no_address, "");
  EXPECT_TRUE(facts.interfaces.empty());
}

TEST(WayFactsTest, PortsThatAreOpenAndClosed) {
  const Port open(true);
  const Port closed(false);
  WayFact way;
  way.address = "127.0.0.1";
  way.port = open.number();
  EXPECT_EQ(TryTcp(way), "");
  way.port = closed.number();
  EXPECT_EQ(TryTcp(way), "Connection refused");
}

}  // namespace
}  // namespace skiff::tools
