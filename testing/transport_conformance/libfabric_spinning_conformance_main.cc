// The suite over libfabric in reactors that never sleep, where completion
// queues have no wait objects.
#include "absl/time/time.h"
#include "testing/roomy_loopback.h"
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/libfabric_factory.h"

int main(int argc, char** argv) {
  skiff::testing::EnterRoomyLoopback();
  skiff::transport::EpollReactorOptions spinning;
  spinning.spin = absl::InfiniteDuration();
  for (const char* provider : {"tcp", "sockets", "shm"}) {
    skiff::testing::AddTransportFactory(
        skiff::testing::MakeLibfabricLoopbackFactory(provider, spinning));
  }
  return skiff::testing::ConformanceMain(argc, argv);
}
