// The suite over libfabric's reliable datagrams: in shared memory, and over
// TCP.
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/libfabric_factory.h"

int main(int argc, char** argv) {
  for (const char* provider : {"shm", "tcp;ofi_rxm"}) {
    skiff::testing::AddTransportFactory(
        skiff::testing::MakeLibfabricLoopbackFactory(provider));
  }
  return skiff::testing::ConformanceMain(argc, argv);
}
