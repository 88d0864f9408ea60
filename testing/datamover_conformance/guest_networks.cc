// The devices of a guest (docs/testing-in-a-vm.md), by verbs and by libfabric's
// provider of that name. They are the ones that the guest has.

#include <cstdlib>
#include <string>
#include <utility>

#include "testing/datamover_conformance/local_stack.h"
#include "testing/datamover_conformance/network.h"
#include "transport/libfabric/libfabric_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace skiff::protocol {

std::vector<Network> Networks() {
  constexpr std::pair<const char*, const char*> kDevices[] = {
      {"SKIFF_VM_ROCE_ADDRESS", "rxe0"}, {"SKIFF_VM_IWARP_ADDRESS", "siw0"}};
  std::vector<Network> networks;
  for (const auto& [variable, device] : kDevices) {
    const char* const address = std::getenv(variable);
    if (address == nullptr) continue;
    const std::string where = std::string(address) + ":0";
    const std::string suffix = device == std::string("rxe0") ? "Roce" : "Iwarp";
    networks.push_back({.name = "Verbs" + suffix,
                        .data_model = "iSER",
                        .transport = "verbs",
                        .device = device,
                        .initial_r2t = true,
                        .make_stack = [where](const StackOptions& options) {
                          return std::make_unique<LocalStack>(
                              "verbs://" + where,
                              transport::MakeVerbsTransport(), options);
                        }});
    networks.push_back({.name = "Libfabric" + suffix,
                        .data_model = "iSER",
                        .transport = "libfabric",
                        .device = "libfabric verbs on",
                        .initial_r2t = true,
                        .make_stack = [where](const StackOptions& options) {
                          return std::make_unique<LocalStack>(
                              "libfabric://" + where + "?provider=verbs",
                              transport::MakeLibfabricTransport(), options);
                        }});
  }
  return networks;
}

uint64_t NumberOfSeeds() { return 1; }

}  // namespace skiff::protocol
