// The suite over TCP's loopback.
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/tcp_factory.h"

int main(int argc, char** argv) {
  skiff::testing::AddTransportFactory(skiff::testing::MakeTcpFactory());
  return skiff::testing::ConformanceMain(argc, argv);
}
