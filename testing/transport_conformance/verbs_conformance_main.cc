// The suite over the verbs transport and the devices of testing/vm.
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/verbs_factory.h"

int main(int argc, char** argv) {
  skiff::testing::AddTransportFactory(
      skiff::testing::MakeVerbsFactory("verbs_rxe", "verbs://192.168.77.1:0"));
  skiff::testing::AddTransportFactory(
      skiff::testing::MakeVerbsFactory("verbs_siw", "verbs://192.168.78.1:0"));
  return skiff::testing::ConformanceMain(argc, argv);
}
