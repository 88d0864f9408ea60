// The suite over libfabric's providers that need no device.
#include "testing/roomy_loopback.h"
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/libfabric_factory.h"

int main(int argc, char** argv) {
  skiff::testing::EnterRoomyLoopback();
  using skiff::testing::AddTransportFactory;
  using skiff::testing::MakeLibfabricLoopbackFactory;
  AddTransportFactory(MakeLibfabricLoopbackFactory("tcp"));
  AddTransportFactory(MakeLibfabricLoopbackFactory("sockets"));
  return skiff::testing::ConformanceMain(argc, argv);
}
