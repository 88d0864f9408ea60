// The suite over libfabric's reliable datagrams, in shared memory.
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/libfabric_factory.h"

int main(int argc, char** argv) {
  skiff::testing::AddTransportFactory(
      skiff::testing::MakeLibfabricLoopbackFactory("shm"));
  return skiff::testing::ConformanceMain(argc, argv);
}
