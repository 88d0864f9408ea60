// The suite over the simulated transport.
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/sim_factory.h"

int main(int argc, char** argv) {
  using skiff::testing::SimFabric;
  for (const SimFabric fabric :
       {SimFabric::kInfiniBand, SimFabric::kIwarp, SimFabric::kStream}) {
    skiff::testing::AddTransportFactory(skiff::testing::MakeSimFactory(fabric));
  }
  return skiff::testing::ConformanceMain(argc, argv);
}
