// The simulated network, in virtual time.

#include "testing/datamover_conformance/network.h"
#include "testing/stack/end_to_end_test_util.h"
#include "testing/stack/fabrics.h"

namespace skiff::protocol {

std::vector<Network> Networks() {
  std::vector<Network> networks;
  for (const Fabric& fabric : {Stream(), InfiniBand(), Iwarp(), Plain()}) {
    const bool rdma = fabric.rdma.has_value();
    networks.push_back({.name = fabric.name,
                        .data_model = fabric.data_model,
                        .transport = "sim",
                        .device = rdma ? "sim" : "",
                        .initial_r2t = rdma,
                        .make_stack = [fabric](const StackOptions& options) {
                          return std::make_unique<SimStack>(
                              options.seed, options.server_reactors,
                              fabric.rdma);
                        }});
  }
  return networks;
}

uint64_t NumberOfSeeds() { return 4; }

}  // namespace skiff::protocol
