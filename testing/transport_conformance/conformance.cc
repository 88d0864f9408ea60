// The conformance runner: every transport of this repository.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/libfabric_factory.h"
#include "testing/transport_conformance/sim_factory.h"
#include "testing/transport_conformance/tcp_factory.h"
#include "testing/transport_conformance/verbs_factory.h"

namespace skiff::testing {
namespace {

using Factories = std::vector<std::unique_ptr<TransportFactory>>;

absl::StatusOr<Factories> MakeSim(const transport::Address* url) {
  if (url != nullptr) {
    return absl::InvalidArgumentError(
        "the simulated transport has no URLs; say --transport sim");
  }
  Factories factories;
  for (const SimFabric fabric :
       {SimFabric::kInfiniBand, SimFabric::kIwarp, SimFabric::kStream}) {
    factories.push_back(MakeSimFactory(fabric));
  }
  return factories;
}

// Takes `kind=` out of a URL: what the device speaks, which decides about the
// row of the expected capabilities.
absl::StatusOr<bool> TakeIwarp(transport::Address* url) {
  const auto kind = url->options.find("kind");
  if (kind == url->options.end()) return false;
  const std::string value = kind->second;
  url->options.erase(kind);
  if (value == "iwarp" || value == "roce") return value == "iwarp";
  return absl::InvalidArgumentError("kind=" + value +
                                    " is unknown: there are iwarp and roce");
}

// With a URL, the provider's row of the expected capabilities holds; of verbs
// there is one for each kind of device.
absl::StatusOr<Factories> MakeLibfabric(const transport::Address* url) {
  Factories factories;
  if (url == nullptr) {
    for (const char* name : {"tcp", "sockets", "shm"}) {
      factories.push_back(MakeLibfabricLoopbackFactory(name));
    }
    return factories;
  }
  const auto provider = url->options.find("provider");
  if (provider == url->options.end()) {
    return absl::InvalidArgumentError(
        "say which provider: libfabric://HOST:0?provider=tcp, sockets, shm, "
        "tcp;ofi_rxm or verbs");
  }
  std::string row =
      "libfabric_" + absl::StrReplaceAll(provider->second, {{";", "_"}});
  transport::Address address = *url;
  if (provider->second == "verbs") {
    const auto iwarp = TakeIwarp(&address);
    if (!iwarp.ok()) return iwarp.status();
    row += *iwarp ? "_iwarp" : "_roce";
  }
  factories.push_back(MakeLibfabricFactory(row, address.ToString()));
  return factories;
}

absl::StatusOr<Factories> MakeTcp(const transport::Address* url) {
  Factories factories;
  factories.push_back(MakeTcpFactory(url));
  return factories;
}

// Without a URL, the devices of testing/vm.
absl::StatusOr<Factories> MakeVerbs(const transport::Address* url) {
  Factories factories;
  if (url == nullptr) {
    factories.push_back(
        MakeVerbsFactory("verbs_rxe", "verbs://192.168.77.1:0"));
    factories.push_back(
        MakeVerbsFactory("verbs_siw", "verbs://192.168.78.1:0"));
    return factories;
  }
  // The rows of the software devices are the least that others have, too.
  transport::Address address = *url;
  const auto iwarp = TakeIwarp(&address);
  if (!iwarp.ok()) return iwarp.status();
  factories.push_back(
      MakeVerbsFactory(*iwarp ? "verbs_siw" : "verbs_rxe", address.ToString()));
  return factories;
}

}  // namespace
}  // namespace skiff::testing

int main(int argc, char** argv) {
  return skiff::testing::ConformanceMain(
      argc, argv,
      {
          {"libfabric",
           "libfabric's providers; libfabric://HOST:0?provider=NAME, of verbs "
           "with &kind=iwarp where the device speaks that",
           skiff::testing::MakeLibfabric},
          {"sim", "the simulated transport: InfiniBand, iWARP, byte streams",
           skiff::testing::MakeSim},
          {"tcp", "byte streams over TCP; tcp://HOST:0 chooses the interface",
           skiff::testing::MakeTcp},
          {"verbs",
           "RDMA devices; verbs://HOST:0 chooses one, ?kind=iwarp says that it "
           "speaks iWARP",
           skiff::testing::MakeVerbs},
      });
}
