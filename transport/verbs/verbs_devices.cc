#include "transport/verbs/verbs_devices.h"

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "transport/net/socket_address.h"
#include "transport/verbs/device_facts.h"
#include "transport/verbs/rdma_core.h"
#include "transport/verbs/verbs_status.h"

namespace skiff::transport {
namespace {

constexpr size_t kMaxGids = 64;
constexpr size_t kMacBytes = 6;

bool Exists(const char* path) { return access(path, F_OK) == 0; }

DeviceReport Unusable(std::string name, std::string problem) {
  DeviceReport report;
  report.name = std::move(name);
  report.problem = std::move(problem);
  report.capabilities.rdma = true;
  return report;
}

DeviceReport UnusableDevice(const std::string& name,
                            const absl::Status& problem) {
  DeviceReport report = Unusable(name, std::string(problem.message()));
  report.rdma_device = name;
  return report;
}

std::string WhyNoDevice() {
  if (!Exists("/sys/class/infiniband_verbs/abi_version")) {
    return "the kernel has no RDMA for user space; load its modules: modprobe "
           "-a ib_uverbs rdma_ucm";
  }
  return "no RDMA device; load the adapter's driver, or make a software device "
         "on an interface: rdma link add rxe0 type rxe netdev eth0 (RoCE), or "
         "type siw (iWARP)";
}

const char* KindOf(const DeviceFacts& facts, const ibv_port_attr& port) {
  if (facts.iwarp) return "iWARP";
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

std::string Gids(const ibv_gid_entry* entries, ssize_t count, uint32_t port) {
  std::string text;
  for (ssize_t i = 0; i < count; ++i) {
    if (entries[i].port_num != port) continue;
    absl::StrAppend(&text, ", ", GidToString(entries[i]));
  }
  return text;
}

socklen_t LengthOf(const sockaddr* address) {
  if (address == nullptr) return 0;
  if (address->sa_family == AF_INET) return sizeof(sockaddr_in);
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

bool HasMac(const ifaddrs& entry, const uint8_t* mac) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != AF_PACKET) {
    return false;
  }
  sockaddr_ll link;
  std::memcpy(&link, entry.ifa_addr, sizeof(link));
  return link.sll_halen == kMacBytes &&
         std::memcmp(link.sll_addr, mac, kMacBytes) == 0;
}

// The IP addresses of the interfaces that have this MAC address.
std::vector<std::string> AddressesOfMac(const uint8_t* mac) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::vector<std::string> addresses;
  for (const ifaddrs* owner = list; owner != nullptr; owner = owner->ifa_next) {
    if (!HasMac(*owner, mac)) continue;
    for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
      SocketAddress address;
      address.length = LengthOf(it->ifa_addr);
      if (address.length == 0 || std::strcmp(it->ifa_name, owner->ifa_name)) {
        continue;
      }
      std::memcpy(&address.storage, it->ifa_addr, address.length);
      addresses.push_back(address.HostToString());
    }
  }
  freeifaddrs(list);
  return addresses;
}

// An iWARP device's GID is no address, but begins with the MAC address of its
// interface; where that is not so, there are none.
std::vector<std::string> IwarpAddresses(const ibv_gid_entry* entries,
                                        ssize_t count, uint32_t port) {
  for (ssize_t i = 0; i < count; ++i) {
    if (entries[i].port_num == port) return AddressesOfMac(entries[i].gid.raw);
  }
  return {};
}

std::vector<std::string> GidAddresses(const ibv_gid_entry* entries,
                                      ssize_t count, uint32_t port) {
  std::vector<std::string> addresses;
  for (ssize_t i = 0; i < count; ++i) {
    if (entries[i].port_num == port) {
      addresses.push_back(GidAddress(entries[i].gid));
    }
  }
  return addresses;
}

std::string Problem(const DeviceFacts& facts, const ibv_port_attr& port,
                    bool has_gids) {
  if (port.state != IBV_PORT_ACTIVE) {
    return absl::StrCat(
        "the link is ", ibv_port_state_str(port.state),
        port.link_layer == IBV_LINK_LAYER_INFINIBAND
            ? "; check the cable, and that a subnet manager runs"
            : "; check the cable, or set its interface up (rdma link names it; "
              "ip link set DEV up)");
  }
  if (!has_gids && !facts.iwarp) {
    return "no GID; give its interface an address (rdma link names it; ip "
           "address add ADDRESS dev DEV)";
  }
  if (!Exists("/dev/infiniband/rdma_cm")) {
    return "no connection manager; load its module: modprobe rdma_ucm";
  }
  return {};
}

void Report(ibv_device* device, std::vector<DeviceReport>* reports) {
  const std::string name = ibv_get_device_name(device);
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) {
    reports->push_back(UnusableDevice(
        name, CallError(absl::StrCat("cannot open ", name), errno)));
    return;
  }
  const auto close =
      absl::MakeCleanup([context] { ibv_close_device(context); });
  auto facts = QueryDevice(context);
  if (!facts.ok()) {
    reports->push_back(UnusableDevice(name, facts.status()));
    return;
  }
  std::vector<ibv_gid_entry> gids(kMaxGids);
  const ssize_t gid_count =
      ibv_query_gid_table(context, gids.data(), gids.size(), 0);
  for (size_t i = 0; i < facts->ports.size(); ++i) {
    const ibv_port_attr& port = facts->ports[i];
    const auto number = static_cast<uint32_t>(i + 1);
    const std::string gid_text = Gids(gids.data(), gid_count, number);
    DeviceReport report;
    report.name = absl::StrCat(name, " port ", number);
    report.rdma_device = name;
    report.detail = absl::StrCat(
        KindOf(*facts, port), ", link ", ibv_port_state_str(port.state),
        ", MTU ", MtuToString(port.active_mtu), " of ",
        MtuToString(port.max_mtu), gid_text, ", locked memory at most ",
        LockedMemoryLimit());
    report.kind = KindOf(*facts, port);
    report.link =
        port.state == IBV_PORT_ACTIVE ? "up" : ibv_port_state_str(port.state);
    report.mtu = MtuBytes(port.active_mtu);
    report.addresses = facts->iwarp
                           ? IwarpAddresses(gids.data(), gid_count, number)
                           : GidAddresses(gids.data(), gid_count, number);
    report.capabilities = ToCapabilities(*facts);
    report.problem = Problem(*facts, port, !gid_text.empty());
    report.usable = report.problem.empty();
    reports->push_back(std::move(report));
  }
}

}  // namespace

std::vector<DeviceReport> VerbsDevices() {
  if (const absl::Status loaded = LoadRdmaCore(); !loaded.ok()) {
    return {Unusable("verbs", std::string(loaded.message()))};
  }
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) {
    return {Unusable("verbs",
                     absl::StrCat("cannot list the RDMA devices (",
                                  std::strerror(errno), "): ", WhyNoDevice()))};
  }
  const auto free_list =
      absl::MakeCleanup([list] { ibv_free_device_list(list); });
  std::vector<DeviceReport> reports;
  for (int i = 0; i < count; ++i) Report(list[i], &reports);
  if (reports.empty()) reports.push_back(Unusable("verbs", WhyNoDevice()));
  return reports;
}

}  // namespace skiff::transport
