#include "tools/skiff/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace skiff::tools {
namespace {

using ::testing::HasSubstr;

// A machine with Soft-RoCE and a session over it: nothing is wrong.
DoctorFacts Healthy() {
  DoctorFacts facts;
  LimitReport locked;
  locked.key = "locked_memory";
  locked.label = "locked memory";
  locked.is_bytes = true;
  LimitReport files;
  files.key = "open_files";
  files.label = "open files";
  files.value = 65536;
  facts.machine.limits = {locked, files};
  facts.machine.modules = {{"ib_core", "RDMA in the kernel", "loaded", ""}};
  facts.machine.device_files = {{"/dev/infiniband/uverbs0", true, ""}};
  RdmaPortFact port;
  port.device = "rxe0";
  port.kind = RdmaPortFact::Kind::kRoce;
  port.state = "ACTIVE";
  port.interface = "eth0";
  port.gids = {{0, "RoCE v2", "fe80::1"}, {1, "RoCE v2", "192.0.2.1"}};
  facts.rdma_ports = {port};
  InterfaceFact interface;
  interface.up = true;
  interface.mtu = 9000;
  interface.pause = PauseFact{true, true};
  interface.dcb.pfc = 0;
  facts.interfaces["eth0"] = interface;
  facts.governors = {{"performance", 8}};
  facts.clock_source = "tsc";
  facts.clock_synchronized = true;

  WayFact way;
  way.url = "auto://disks";
  way.scheme = "auto";
  way.host = "disks";
  way.port = 3260;
  way.address = "192.0.2.9";
  way.local_address = "192.0.2.1";
  way.interface = "eth0";
  way.short_echo = Echo::kAnswered;
  way.long_echo = Echo::kAnswered;
  way.report.emplace();
  way.report->data_model = "iSER";
  way.report->transport = "verbs";
  way.report->device = "rxe0";
  way.report->peer = "192.0.2.9:3260";
  facts.way = way;
  return facts;
}

TEST(ChecksTest, AHealthyMachineIsFine) {
  const DoctorReport report = Examine(Healthy());
  EXPECT_EQ(report.worst(), Severity::kFine) << ToText(report);
  const std::string text = ToText(report);
  EXPECT_THAT(text, HasSubstr("fine     iSER over verbs on rxe0, with "
                              "192.0.2.9:3260\n"));
  EXPECT_THAT(text, HasSubstr("RoCE v2 192.0.2.1 at index 1\n"));
  EXPECT_THAT(text, HasSubstr("errors: 0, warnings: 0, notes: 0\n"));
}

// What is changed of a healthy machine, and the one finding that it makes.
struct Case {
  const char* name;
  std::function<void(DoctorFacts*)> change;
  Severity severity;
  const char* check;
  const char* seen;
  const char* fix;
};

const Finding* Find(const DoctorReport& report, const Case& expected) {
  for (const Finding& one : report.findings) {
    if (one.check == expected.check && one.severity == expected.severity &&
        one.seen.find(expected.seen) != std::string::npos) {
      return &one;
    }
  }
  return nullptr;
}

void CheckCases(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    DoctorFacts facts = Healthy();
    one.change(&facts);
    const DoctorReport report = Examine(facts);
    const Finding* finding = Find(report, one);
    ASSERT_NE(finding, nullptr) << ToText(report);
    if (one.severity == Severity::kFine) continue;
    EXPECT_FALSE(finding->why.empty());
    EXPECT_THAT(finding->fix, HasSubstr(one.fix));
    // Nothing else is blamed for it.
    int bad = 0;
    for (const Finding& other : report.findings) {
      bad += other.severity != Severity::kFine;
    }
    EXPECT_EQ(bad, 1) << ToText(report);
  }
}

RdmaPortFact* Port(DoctorFacts* f) { return &f->rdma_ports.front(); }
InterfaceFact* Eth0(DoctorFacts* f) { return &f->interfaces["eth0"]; }

TEST(ChecksTest, WhatIsWrongWithDevices) {
  CheckCases({
      {"no device, and RDMA is wished for",
       [](DoctorFacts* f) { f->rdma_ports.clear(); }, Severity::kWarning,
       "rdma-devices", "no RDMA device", "rdma link add rxe0"},
      {"no device, and nobody asks",
       [](DoctorFacts* f) {
         f->rdma_ports.clear();
         f->way.reset();
         f->machine.modules[0] = {"ib_core", "", "missing", "needed"};
       },
       Severity::kNote, "rdma-devices", "no RDMA device", "rdma link add rxe0"},
      {"a module that can be loaded",
       [](DoctorFacts* f) {
         f->machine.modules = {{"rdma_ucm", "connections for programs",
                                "not loaded", "verbs needs it"}};
       },
       Severity::kWarning, "kernel-modules", "rdma_ucm: not loaded",
       "modprobe rdma_ucm"},
      {"a module that is not there",
       [](DoctorFacts* f) {
         f->machine.modules = {
             {"ib_core", "RDMA in the kernel", "missing", "verbs needs it"}};
       },
       Severity::kWarning, "kernel-modules", "ib_core: missing",
       "boot a kernel"},
      {"a device file",
       [](DoctorFacts* f) {
         f->machine.device_files[0].usable = false;
         f->machine.device_files[0].problem = "Permission denied";
       },
       Severity::kWarning, "device-files", "Permission denied",
       "chgrp rdma /dev/infiniband/uverbs0"},
      {"a port without a link", [](DoctorFacts* f) { Port(f)->state = "DOWN"; },
       Severity::kWarning, "rdma-ports", "rxe0 port 1 on eth0: DOWN",
       "ip link set eth0 up"},
      {"a port of InfiniBand that waits",
       [](DoctorFacts* f) {
         Port(f)->state = "INIT";
         Port(f)->kind = RdmaPortFact::Kind::kInfiniBand;
         Port(f)->interface.clear();
       },
       Severity::kWarning, "rdma-ports", "rxe0 port 1: INIT", "opensm"},
      {"addresses of version 1 alone",
       [](DoctorFacts* f) {
         Port(f)->gids = {{0, "IB/RoCE v1", "192.0.2.1"}};
       },
       Severity::kWarning, "gids", "no address for RoCE v2",
       "ip address add ADDRESS/LENGTH dev eth0"},
      {"link-local addresses alone",
       [](DoctorFacts* f) { Port(f)->gids.pop_back(); }, Severity::kWarning,
       "gids", "no address for RoCE v2", "ip address add"},
      {"iWARP needs no address of RoCE, and bears losses",
       [](DoctorFacts* f) {
         Port(f)->kind = RdmaPortFact::Kind::kIwarp;
         Port(f)->gids.clear();
         Eth0(f)->pause.reset();
         Eth0(f)->mtu = 1500;
       },
       Severity::kFine, "rdma-ports", "ACTIVE", ""},
      {"a small MTU", [](DoctorFacts* f) { Eth0(f)->mtu = 1500; },
       Severity::kNote, "rdma-mtu", "an MTU of 1500",
       "ip link set eth0 mtu 9000"},
      {"flow control is off",
       [](DoctorFacts* f) {
         Eth0(f)->pause = PauseFact{true, false};
       },
       Severity::kWarning, "flow-control",
       "PAUSE receiving on, sending off; priority flow control of no priority",
       "ethtool --pause eth0"},
      {"flow control of priorities alone",
       [](DoctorFacts* f) {
         Eth0(f)->pause = PauseFact{};
         Eth0(f)->dcb.pfc = 0x18;
         Eth0(f)->dcb.dcbx = DcbFact::Dcbx::kFirmware;
       },
       Severity::kFine, "flow-control",
       "priority flow control of priority 3, 4 (DCBX by the firmware)", ""},
      {"flow control of priorities, and no word of PAUSE",
       [](DoctorFacts* f) {
         Eth0(f)->pause.reset();
         Eth0(f)->dcb.pfc = 0x01;
         Eth0(f)->dcb.dcbx = DcbFact::Dcbx::kHost;
       },
       Severity::kFine, "flow-control", "of priority 0 (DCBX by this host)",
       ""},
      {"no priority, and no word of PAUSE",
       [](DoctorFacts* f) { Eth0(f)->pause.reset(); }, Severity::kWarning,
       "flow-control", "of no priority", "dcb pfc show dev eth0"},
      {"PAUSE is off, and no word of priorities",
       [](DoctorFacts* f) {
         Eth0(f)->pause = PauseFact{};
         Eth0(f)->dcb.pfc.reset();
         Eth0(f)->dcb.no_pfc = "its driver does not say";
       },
       Severity::kWarning, "flow-control",
       "priority flow control cannot be read (its driver does not say)",
       "mlnx_qos -i eth0"},
      {"flow control is not known",
       [](DoctorFacts* f) {
         Eth0(f)->pause.reset();
         Eth0(f)->no_pause = "its driver does not say";
         Eth0(f)->dcb.pfc.reset();
         Eth0(f)->dcb.no_pfc = "its driver does not say";
       },
       Severity::kNote, "flow-control",
       "the driver of eth0 tells nothing of flow control",
       "dcb pfc show dev eth0"},
  });
}

TEST(ChecksTest, WhatIsWrongWithTheMachine) {
  const auto little = [](DoctorFacts* f) {
    f->machine.limits[0].value = 65536;
    f->machine.limits[0].problem = "few";
  };
  CheckCases({
      {"little memory may be locked", little, Severity::kWarning,
       "locked-memory", "64 KiB", "ulimit -l unlimited"},
      {"few files",
       [](DoctorFacts* f) {
         f->machine.limits[1].value = 1024;
         f->machine.limits[1].problem = "few";
       },
       Severity::kWarning, "open-files", "1024", "ulimit -n"},
      {"processors that save power",
       [](DoctorFacts* f) {
         f->governors = {{"powersave", 8}};
       },
       Severity::kWarning, "cpu-frequency", "powersave of 8 processors",
       "cpupower frequency-set"},
      {"a driver that chooses",
       [](DoctorFacts* f) {
         f->governors = {{"powersave", 8}};
         f->driver_scales = true;
       },
       Severity::kFine, "cpu-frequency", "powersave", ""},
      {"no policy", [](DoctorFacts* f) { f->governors.clear(); },
       Severity::kFine, "cpu-frequency", "does not govern", ""},
      {"a slow clock", [](DoctorFacts* f) { f->clock_source = "hpet"; },
       Severity::kWarning, "clock", "clock source hpet",
       "available_clocksource"},
      {"a clock of its own",
       [](DoctorFacts* f) { f->clock_synchronized = false; }, Severity::kNote,
       "clock", "not synchronized", "timedatectl"},
  });
  // Without RDMA, nobody locks much.
  DoctorFacts facts = Healthy();
  little(&facts);
  facts.rdma_ports.clear();
  facts.way.reset();
  EXPECT_EQ(Examine(facts).worst(), Severity::kNote);
}

TEST(ChecksTest, WhatIsWrongWithTheWay) {
  CheckCases({
      {"an unknown name",
       [](DoctorFacts* f) {
         f->way->address.clear();
         f->way->local_address.clear();
         f->way->interface.clear();
         f->way->no_address = "Name or service not known";
         f->way->report.reset();
       },
       Severity::kError, "name", "disks: Name or service not known",
       "getent ahosts disks"},
      {"a name that takes long",
       [](DoctorFacts* f) { f->way->resolved_in = absl::Seconds(5); },
       Severity::kWarning, "name", "which took 5", "/etc/resolv.conf"},
      {"no route",
       [](DoctorFacts* f) {
         f->way->local_address.clear();
         f->way->interface.clear();
         f->way->no_route = "Network is unreachable";
         f->way->report.reset();
       },
       Severity::kError, "route", "Network is unreachable",
       "ip route get 192.0.2.9"},
      {"no link", [](DoctorFacts* f) { Eth0(f)->up = false; },
       Severity::kWarning, "route",
       "by eth0, from 192.0.2.1, which has no link", "ip link set eth0 up"},
      {"long packets are lost",
       [](DoctorFacts* f) { f->way->long_echo = Echo::kSilent; },
       Severity::kWarning, "path-mtu", "do not reach 192.0.2.9",
       "tracepath 192.0.2.9"},
      {"no answer to echo requests",
       [](DoctorFacts* f) { f->way->short_echo = Echo::kSilent; },
       Severity::kNote, "path-mtu", "answers no echo request", "tracepath"},
      {"no echo requests are allowed",
       [](DoctorFacts* f) { f->way->short_echo = Echo::kNotAllowed; },
       Severity::kNote, "path-mtu", "may not send echo requests",
       "ping_group_range"},
  });
}

TEST(ChecksTest, WhatIsWrongWithTheSession) {
  const auto over_tcp = [](DoctorFacts* f) {
    f->way->report->data_model = "iSCSI";
    f->way->report->transport = "tcp";
    f->way->report->device.clear();
  };
  CheckCases({
      {"no session",
       [](DoctorFacts* f) {
         f->way->session = absl::UnavailableError("the login fails");
         f->way->report.reset();
       },
       Severity::kError, "session", "the login fails",
       "skiff doctor auto://disks"},
      {"TCP in place of RDMA",
       [&](DoctorFacts* f) {
         over_tcp(f);
         f->way->report->fallbacks = {"TCP instead of RDMA: rejected"};
       },
       Severity::kWarning, "rdma", "TCP instead of RDMA: rejected",
       "listen for RDMA at the target"},
      {"TCP, as was asked",
       [&](DoctorFacts* f) {
         over_tcp(f);
         f->way->scheme = "tcp";
         f->way->url = "iscsi://disks/iqn.a";
       },
       Severity::kNote, "rdma", "RDMA was not tried",
       "skiff doctor auto://disks/iqn.a"},
      {"slower RDMA",
       [](DoctorFacts* f) {
         f->way->report->fallbacks = {"no remote invalidation"};
       },
       Severity::kNote, "rdma", "no remote invalidation", "docs/iser.md"},
  });
}

TEST(ChecksTest, APortThatIsClosed) {
  DoctorFacts facts = Healthy();
  facts.way->session = absl::UnavailableError("the login fails");
  facts.way->report.reset();
  facts.way->no_tcp = "Connection refused";
  EXPECT_THAT(ToText(Examine(facts)),
              HasSubstr("error    port 3260 of 192.0.2.9 for TCP: Connection "
                        "refused\n"));
  facts.way->needs_rdma = true;
  EXPECT_THAT(ToText(Examine(facts)), HasSubstr("note     port 3260"));
}

TEST(ChecksTest, ProgramsGetTheSame) {
  DoctorFacts facts = Healthy();
  Eth0(&facts)->mtu = 1500;
  const auto json = nlohmann::json::parse(ToJson(Examine(facts)));
  EXPECT_EQ(json["worst"], "note");
  for (const auto& finding : json["findings"]) {
    if (finding["severity"] == "fine") continue;
    EXPECT_EQ(finding["check"], "rdma-mtu");
    EXPECT_EQ(finding["seen"], "eth0 has an MTU of 1500 bytes");
    EXPECT_NE(finding["why"], "");
    EXPECT_NE(finding["fix"], "");
  }
}

}  // namespace
}  // namespace skiff::tools
