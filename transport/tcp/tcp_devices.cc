#include "transport/tcp/tcp_devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "transport/net/scoped_fd.h"
#include "transport/net/socket_address.h"

namespace skiff::transport {
namespace {

struct Interface {
  std::string name;
  unsigned int flags = 0;
  std::vector<std::string> addresses;
};

std::vector<Interface> ByName(const ifaddrs* list) {
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    Interface* found = nullptr;
    for (Interface& known : interfaces) {
      if (known.name == entry->ifa_name) found = &known;
    }
    if (found == nullptr) {
      interfaces.push_back({entry->ifa_name, entry->ifa_flags, {}});
      found = &interfaces.back();
    }
    if (entry->ifa_addr == nullptr) continue;
    SocketAddress address;
    if (entry->ifa_addr->sa_family == AF_INET) {
      address.length = sizeof(sockaddr_in);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      address.length = sizeof(sockaddr_in6);
    } else {
      continue;
    }
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    found->addresses.push_back(address.HostToString());
  }
  return interfaces;
}

// 0 if the kernel does not say.
uint32_t Mtu(const std::string& name) {
  ScopedFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid())
    fd = ScopedFd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  if (!fd.valid() || name.size() >= sizeof(request.ifr_name)) return 0;
  std::memcpy(request.ifr_name, name.c_str(), name.size());
  if (ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<uint32_t>(request.ifr_mtu);
}

DeviceReport Report(const Interface& interface) {
  DeviceReport report;
  report.name = interface.name;
  report.capabilities = TcpCapabilities();
  const bool up = (interface.flags & IFF_UP) != 0;
  const bool running = (interface.flags & IFF_RUNNING) != 0;
  report.kind = "tcp";
  report.link = up ? (running ? "up" : "no carrier") : "down";
  report.mtu = Mtu(interface.name);
  report.addresses = interface.addresses;
  report.detail = absl::StrCat(report.link, ", mtu ", report.mtu, ", ",
                               interface.addresses.empty()
                                   ? "no addresses"
                                   : absl::StrJoin(interface.addresses, " "));
  if (!up) {
    report.problem = absl::StrCat("the interface is down; ip link set ",
                                  interface.name, " up");
  } else if (!running) {
    report.problem = "no carrier; check the cable or the peer's port";
  } else if (interface.addresses.empty()) {
    report.problem = absl::StrCat("no IP address; ip address add ADDRESS dev ",
                                  interface.name);
  }
  report.usable = report.problem.empty();
  return report;
}

}  // namespace

Capabilities TcpCapabilities() { return {}; }

std::vector<DeviceReport> TcpDevices() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    DeviceReport report;
    report.name = "tcp";
    report.problem =
        absl::StrCat("cannot list the interfaces: ", std::strerror(errno));
    return {report};
  }
  std::vector<DeviceReport> reports;
  for (const Interface& interface : ByName(list)) {
    reports.push_back(Report(interface));
  }
  freeifaddrs(list);
  return reports;
}

}  // namespace skiff::transport
