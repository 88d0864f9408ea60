#include "tools/skiff/doctor/machine_facts.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tools/common/read_file.h"
#include "tools/skiff/doctor/dcb.h"

namespace skiff::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIpv6Bytes = 16;

// The names in a directory, in order; none if there is no directory.
std::vector<std::string> Names(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A line of sysfs; empty where it cannot be read.
std::string Line(const fs::path& path) {
  const auto text = ReadFile(path.string());
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

// "0000:0000:0000:0000:0000:ffff:c0a8:4d01" as "192.168.77.1"; empty for an
// entry that is not in use.
std::string GidAddress(const std::string& gid) {
  std::array<uint8_t, kIpv6Bytes> bytes = {};
  if (inet_pton(AF_INET6, gid.c_str(), bytes.data()) != 1) return "";
  if (bytes == std::array<uint8_t, kIpv6Bytes>{}) return "";
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
  absl::string_view shown(text.data());
  // That of an IPv4 address (RFC 4291 section 2.5.5.2).
  absl::ConsumePrefix(&shown, "::ffff:");
  return std::string(shown);
}

void ReadGids(const fs::path& port, RdmaPortFact* fact) {
  for (const std::string& name : Names(port / "gids")) {
    GidFact gid;
    gid.address = GidAddress(Line(port / "gids" / name));
    if (gid.address.empty() || !absl::SimpleAtoi(name, &gid.index)) continue;
    gid.type = Line(port / "gid_attrs" / "types" / name);
    if (fact->interface.empty()) {
      fact->interface = Line(port / "gid_attrs" / "ndevs" / name);
    }
    fact->gids.push_back(std::move(gid));
  }
  std::sort(
      fact->gids.begin(), fact->gids.end(),
      [](const GidFact& a, const GidFact& b) { return a.index < b.index; });
}

RdmaPortFact ReadPort(const fs::path& device, const std::string& port) {
  const fs::path path = device / "ports" / port;
  RdmaPortFact fact;
  fact.device = device.filename().string();
  if (!absl::SimpleAtoi(port, &fact.port)) fact.port = 0;
  // "4: ACTIVE", "1: CA", "4: RNIC".
  const std::string state = Line(path / "state");
  fact.state = state.substr(std::min(state.size(), state.find(": ") + 2));
  if (absl::StrContains(Line(device / "node_type"), "RNIC")) {
    fact.kind = RdmaPortFact::Kind::kIwarp;
  } else if (Line(path / "link_layer") == "Ethernet") {
    fact.kind = RdmaPortFact::Kind::kRoce;
  }
  ReadGids(path, &fact);
  // Devices that software makes name their interface.
  if (fact.interface.empty()) fact.interface = Line(device / "parent");
  return fact;
}

void ReadPause(const std::string& name, InterfaceFact* fact) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    fact->no_pause = std::strerror(errno);
    return;
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  ethtool_pauseparam pause = {};
  pause.cmd = ETHTOOL_GPAUSEPARAM;
  ifreq request = {};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&pause);
  if (ioctl(fd, SIOCETHTOOL, &request) != 0) {
    fact->no_pause =
        errno == EOPNOTSUPP ? "its driver does not say" : std::strerror(errno);
    return;
  }
  fact->pause = PauseFact{pause.rx_pause != 0, pause.tx_pause != 0};
}

void ReadGovernors(const std::string& root, DoctorFacts* facts) {
  const fs::path directory = root + "/sys/devices/system/cpu";
  for (const std::string& name : Names(directory)) {
    absl::string_view number = name;
    int ignored = 0;
    if (!absl::ConsumePrefix(&number, "cpu") ||
        !absl::SimpleAtoi(number, &ignored)) {
      continue;
    }
    const fs::path policy = directory / name / "cpufreq";
    const std::string governor = Line(policy / "scaling_governor");
    if (governor.empty()) continue;
    ++facts->governors[governor];
    const std::string driver = Line(policy / "scaling_driver");
    facts->driver_scales |=
        driver == "intel_pstate" || driver == "amd-pstate-epp";
  }
}

bool ClockIsSynchronized() {
  timex status = {};
  return adjtimex(&status) != TIME_ERROR && (status.status & STA_UNSYNC) == 0;
}

}  // namespace

void ReadInterface(const std::string& name, DoctorFacts* facts,
                   const std::string& root) {
  if (name.empty() || facts->interfaces.count(name) != 0) return;
  const fs::path path = fs::path(root + "/sys/class/net") / name;
  InterfaceFact fact;
  uint32_t flags = 0;
  if (!absl::SimpleHexAtoi(Line(path / "flags"), &flags)) flags = 0;
  fact.loopback = (flags & IFF_LOOPBACK) != 0;
  // Without a driver that tells of the link, it is "unknown", and works.
  fact.up = (flags & IFF_UP) != 0 && Line(path / "operstate") != "down";
  if (!absl::SimpleAtoi(Line(path / "mtu"), &fact.mtu)) fact.mtu = 0;
  ReadPause(name, &fact);
  fact.dcb = ReadDcb(name);
  facts->interfaces[name] = std::move(fact);
}

void ReadMachineFacts(DoctorFacts* facts, const std::string& root) {
  const fs::path devices = root + "/sys/class/infiniband";
  for (const std::string& device : Names(devices)) {
    for (const std::string& port : Names(devices / device / "ports")) {
      RdmaPortFact fact = ReadPort(devices / device, port);
      ReadInterface(fact.interface, facts, root);
      facts->rdma_ports.push_back(std::move(fact));
    }
  }
  ReadGovernors(root, facts);
  facts->clock_source =
      Line(root +
           "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts->clock_synchronized = ClockIsSynchronized();
}

}  // namespace skiff::tools
