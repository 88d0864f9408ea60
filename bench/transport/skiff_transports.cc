// Skiff's own transports, for the programs that measure them.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/transport/linked_transport.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::bench {
namespace {

// Of interfaces that are up, other than the loopback.
std::vector<std::string> LocalAddresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return out;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
        (each->ifa_flags & IFF_LOOPBACK) != 0 ||
        (each->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
    out.emplace_back(text);
  }
  freeifaddrs(all);
  return out;
}

const LinkedTransport kTcp([] { return transport::MakeTcpTransport(); },
                           [] {
                             return std::vector<std::string>{
                                 "tcp://127.0.0.1:0"};
                           });

const LinkedTransport kLibfabric(
    [] { return transport::MakeLibfabricTransport(); },
    [] {
      std::vector<std::string> urls = {"libfabric://127.0.0.1:0?provider=tcp"};
      for (const std::string& address : LocalAddresses()) {
        urls.push_back(
            absl::StrCat("libfabric://", address, ":0?provider=verbs"));
      }
      return urls;
    });

const LinkedTransport kVerbs([] { return transport::MakeVerbsTransport(); },
                             [] {
                               std::vector<std::string> urls;
                               for (const std::string& address :
                                    LocalAddresses()) {
                                 urls.push_back(
                                     absl::StrCat("verbs://", address, ":0"));
                               }
                               return urls;
                             });

}  // namespace
}  // namespace skiff::bench
