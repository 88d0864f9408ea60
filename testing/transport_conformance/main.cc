// Tests the transports that are linked into the program (LinkedTransport).
#include "testing/transport_conformance/conformance_main.h"

int main(int argc, char** argv) {
  return skiff::testing::ConformanceMain(argc, argv);
}
