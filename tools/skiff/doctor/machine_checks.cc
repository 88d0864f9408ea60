// What is wrong with this machine.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tools/common/units.h"
#include "tools/skiff/doctor/check_list.h"

namespace skiff::tools {
namespace {

using Kind = RdmaPortFact::Kind;

// With this, RoCE has its largest MTU of 4096: headers take up to 96 bytes
// more (InfiniBand's annex A17).
constexpr uint32_t kFullRoceMtu = 4096 + 96;

bool WantsRdma(const DoctorFacts& facts) {
  return facts.way.has_value() &&
         (facts.way->needs_rdma || facts.way->scheme == "auto");
}

// Of what only RDMA suffers from.
Severity OfRdma(const DoctorFacts& facts) {
  return WantsRdma(facts) || !facts.rdma_ports.empty() ? Severity::kWarning
                                                       : Severity::kNote;
}

std::string Name(const RdmaPortFact& port) {
  return absl::StrCat(port.device, " port ", port.port);
}

const InterfaceFact* InterfaceOf(const DoctorFacts& facts,
                                 const RdmaPortFact& port) {
  const auto found = facts.interfaces.find(port.interface);
  return found == facts.interfaces.end() ? nullptr : &found->second;
}

// "of priority 3, 4 (DCBX by the firmware)".
std::string PfcText(const DcbFact& dcb) {
  std::vector<std::string> priorities;
  for (int i = 0; i < 8; ++i) {
    if ((*dcb.pfc >> i & 1) != 0) priorities.push_back(absl::StrCat(i));
  }
  std::string which =
      priorities.empty()
          ? "of no priority"
          : absl::StrCat("of priority ", absl::StrJoin(priorities, ", "));
  switch (dcb.dcbx) {
    case DcbFact::Dcbx::kHost:
      return absl::StrCat(which, " (DCBX by this host)");
    case DcbFact::Dcbx::kFirmware:
      return absl::StrCat(which, " (DCBX by the firmware)");
    case DcbFact::Dcbx::kNobody:
    case DcbFact::Dcbx::kUnknown:
      break;
  }
  return which;
}

std::string PauseText(const PauseFact& pause) {
  if (pause.receive && pause.send) return "on";
  return absl::StrCat("receiving ", pause.receive ? "on" : "off", ", sending ",
                      pause.send ? "on" : "off");
}

// What an interface says of its flow control.
Finding FlowControlOf(const std::string& name, const InterfaceFact& interface) {
  const DcbFact& dcb = interface.dcb;
  Finding finding;
  finding.check = "flow-control";
  if (!dcb.pfc.has_value() && !interface.pause.has_value()) {
    finding.severity = Severity::kNote;
    finding.seen = absl::StrCat(
        "the driver of ", name,
        " tells nothing of flow control (PAUSE: ", interface.no_pause,
        "; priority flow control: ", dcb.no_pfc, ")");
  } else {
    finding.seen = absl::StrCat(
        "flow control of ", name, ": PAUSE ",
        interface.pause.has_value()
            ? PauseText(*interface.pause)
            : absl::StrCat("cannot be read (", interface.no_pause, ")"),
        "; priority flow control ",
        dcb.pfc.has_value()
            ? PfcText(dcb)
            : absl::StrCat("cannot be read (", dcb.no_pfc, ")"));
    const bool paused = interface.pause.has_value() &&
                        interface.pause->receive && interface.pause->send;
    if (!paused && dcb.pfc.value_or(0) == 0) {
      finding.severity = Severity::kWarning;
    }
  }
  if (finding.severity == Severity::kFine) return finding;
  finding.why =
      "RoCE becomes slow where packets are lost; PAUSE, or priority flow "
      "control, avoids that";
  const std::string look =
      absl::StrCat("look at priority flow control by `dcb pfc show dev ", name,
                   "`, or with NVIDIA's tools by `mlnx_qos -i ", name,
                   "`, and ask the switch");
  finding.fix = interface.pause.has_value()
                    ? absl::StrCat("ethtool --pause ", name,
                                   " rx on tx on, unless there is priority "
                                   "flow control: ",
                                   look)
                    : look;
  return finding;
}

}  // namespace

void CheckDevices(const DoctorFacts& facts, Findings* out) {
  if (!facts.rdma_ports.empty()) return;
  out->push_back(
      {OfRdma(facts), "rdma-devices", "no RDMA device",
       "sessions run over TCP, which costs more processor time",
       "install an RDMA NIC and its driver; for trying out, one made of "
       "software: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev "
       "eth0"});
}

void CheckModules(const DoctorFacts& facts, Findings* out) {
  // Without a device, and without a wish for one, they do not matter.
  if (OfRdma(facts) == Severity::kNote) return;
  for (const KernelModuleReport& module : facts.machine.modules) {
    if (module.problem.empty()) continue;
    const bool installed = module.state == "not loaded";
    out->push_back(
        {Severity::kWarning, "kernel-modules",
         absl::StrCat("kernel module ", module.name, ": ", module.state),
         absl::StrCat(module.purpose, ": no session can use RDMA without"),
         installed ? absl::StrCat("modprobe ", module.name)
                   : "boot a kernel that has RDMA, and install its modules "
                     "(Debian: apt-get install linux-image-amd64)"});
  }
}

void CheckDeviceFiles(const DoctorFacts& facts, Findings* out) {
  for (const DeviceFileReport& file : facts.machine.device_files) {
    if (file.usable) continue;
    out->push_back(
        {Severity::kWarning, "device-files",
         absl::StrCat(file.path, ": ", file.problem),
         "programs reach the RDMA device through it",
         absl::StrCat("chgrp rdma ", file.path, " && chmod 660 ", file.path,
                      " && usermod --append --groups rdma USER")});
  }
}

void CheckPorts(const DoctorFacts& facts, Findings* out) {
  for (const RdmaPortFact& port : facts.rdma_ports) {
    const bool active = port.state == "ACTIVE";
    const bool has_interface = !port.interface.empty();
    Finding finding;
    finding.check = "rdma-ports";
    finding.seen = absl::StrCat(
        Name(port), has_interface ? absl::StrCat(" on ", port.interface) : "",
        ": ", port.state);
    if (!active) {
      finding.severity = Severity::kWarning;
      finding.why = "no connection can use it";
      finding.fix = has_interface
                        ? absl::StrCat("ip link set ", port.interface,
                                       " up; then look at the cable and the "
                                       "switch")
                        : "look at the cable, the switch and the subnet "
                          "manager (opensm)";
    }
    out->push_back(std::move(finding));
  }
}

void CheckGids(const DoctorFacts& facts, Findings* out) {
  for (const RdmaPortFact& port : facts.rdma_ports) {
    if (port.kind != Kind::kRoce) continue;
    std::vector<std::string> routable;
    for (const GidFact& gid : port.gids) {
      if (gid.type != "RoCE v2" || absl::StartsWith(gid.address, "fe80:")) {
        continue;
      }
      routable.push_back(absl::StrCat(gid.address, " at index ", gid.index));
    }
    if (!routable.empty()) {
      out->push_back({Severity::kFine, "gids",
                      absl::StrCat(Name(port), ": RoCE v2 ",
                                   absl::StrJoin(routable, ", ")),
                      "", ""});
      continue;
    }
    out->push_back(
        {Severity::kWarning, "gids",
         absl::StrCat(Name(port), ": no address for RoCE v2"),
         "a connection takes the GID of its own IP address; version 1 and "
         "link-local addresses do not pass routers",
         absl::StrCat("ip address add ADDRESS/LENGTH dev ",
                      port.interface.empty() ? "INTERFACE" : port.interface)});
  }
}

void CheckRdmaMtu(const DoctorFacts& facts, Findings* out) {
  for (const RdmaPortFact& port : facts.rdma_ports) {
    const InterfaceFact* interface = InterfaceOf(facts, port);
    if (port.kind != Kind::kRoce || interface == nullptr ||
        interface->mtu == 0 || interface->mtu >= kFullRoceMtu) {
      continue;
    }
    out->push_back({Severity::kNote, "rdma-mtu",
                    absl::StrCat(port.interface, " has an MTU of ",
                                 interface->mtu, " bytes"),
                    absl::StrCat(Name(port),
                                 " sends smaller packets than it could, and "
                                 "more of them"),
                    absl::StrCat("ip link set ", port.interface,
                                 " mtu 9000, where the switch and all peers "
                                 "have as much")});
  }
}

void CheckFlowControl(const DoctorFacts& facts, Findings* out) {
  for (const RdmaPortFact& port : facts.rdma_ports) {
    const InterfaceFact* interface = InterfaceOf(facts, port);
    // iWARP is TCP, and bears losses.
    if (port.kind != Kind::kRoce || interface == nullptr) continue;
    out->push_back(FlowControlOf(port.interface, *interface));
  }
}

void CheckLimits(const DoctorFacts& facts, Findings* out) {
  for (const LimitReport& limit : facts.machine.limits) {
    const bool locked = limit.key == "locked_memory";
    const std::string amount = !limit.value.has_value() ? "unlimited"
                               : limit.is_bytes ? FormatSize(*limit.value)
                                                : absl::StrCat(*limit.value);
    Finding finding;
    finding.check = locked ? "locked-memory" : "open-files";
    finding.seen = absl::StrCat("limit of ", limit.label, ": ", amount);
    if (!limit.problem.empty()) {
      finding.severity = locked ? OfRdma(facts) : Severity::kWarning;
      finding.why = locked ? "RDMA locks the memory of its buffers"
                           : "each connection takes one or more";
      finding.fix = locked ? "ulimit -l unlimited; for a service of systemd: "
                             "LimitMEMLOCK=infinity"
                           : "ulimit -n 65536; for a service of systemd: "
                             "LimitNOFILE=65536";
    }
    out->push_back(std::move(finding));
  }
}

void CheckProcessors(const DoctorFacts& facts, Findings* out) {
  if (facts.governors.empty()) {
    out->push_back({Severity::kFine, "cpu-frequency",
                    "the kernel does not govern the processors' frequency", "",
                    ""});
    return;
  }
  for (const auto& [governor, processors] : facts.governors) {
    const bool slow = governor == "powersave" || governor == "conservative" ||
                      governor == "ondemand";
    Finding finding;
    finding.check = "cpu-frequency";
    finding.seen = absl::StrCat("frequency governor ", governor, " of ",
                                processors, " processors");
    if (slow && !(governor == "powersave" && facts.driver_scales)) {
      finding.severity = Severity::kWarning;
      finding.why =
          "processors that are slow to speed up make short commands late";
      finding.fix = "cpupower frequency-set --governor performance";
    }
    out->push_back(std::move(finding));
  }
}

void CheckClock(const DoctorFacts& facts, Findings* out) {
  static constexpr absl::string_view kSlow[] = {"hpet", "acpi_pm", "jiffies",
                                                "refined-jiffies"};
  for (const absl::string_view slow : kSlow) {
    if (facts.clock_source != slow) continue;
    out->push_back({Severity::kWarning, "clock",
                    absl::StrCat("clock source ", slow),
                    "reading the time takes a system call, several for each "
                    "command",
                    "cat /sys/devices/system/clocksource/clocksource0/"
                    "available_clocksource; dmesg says why tsc is not used"});
  }
  if (facts.clock_synchronized) {
    out->push_back(
        {Severity::kFine, "clock", "the clock is synchronized", "", ""});
    return;
  }
  out->push_back({Severity::kNote, "clock", "the clock is not synchronized",
                  "the logs of two machines cannot be compared",
                  "timedatectl set-ntp true"});
}

}  // namespace skiff::tools
