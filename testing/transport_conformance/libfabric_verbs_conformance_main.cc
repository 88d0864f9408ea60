// The suite over libfabric's verbs provider, on the device that has an address:
//
//   libfabric_verbs_conformance roce|iwarp ADDRESS [OPTION...]
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "testing/transport_conformance/conformance_main.h"
#include "testing/transport_conformance/libfabric_factory.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s roce|iwarp ADDRESS [OPTION...]\n", argv[0]);
    return 2;
  }
  skiff::testing::AddTransportFactory(skiff::testing::MakeLibfabricFactory(
      absl::StrCat("libfabric_verbs_", argv[1]),
      absl::StrCat("libfabric://", argv[2], ":0?provider=verbs")));
  argv[2] = argv[0];
  return skiff::testing::ConformanceMain(argc - 2, argv + 2);
}
