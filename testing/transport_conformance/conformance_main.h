#ifndef SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONFORMANCE_MAIN_H_
#define SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONFORMANCE_MAIN_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/transport_conformance/transport_factory.h"
#include "transport/address.h"

namespace skiff::testing {

// One of the names that --transport takes.
struct TransportChoice {
  std::string name;     // Also the scheme of URLs for it.
  std::string summary;  // One line for --help.
  // The factories to test; `url` is null when only the name was given. Errors
  // say what is wrong with the URL.
  std::function<absl::StatusOr<std::vector<std::unique_ptr<TransportFactory>>>(
      const transport::Address* url)>
      make;
};

// Adds a factory before main() runs. Where it is linked with :main, that is a
// whole program:
//
//   const LinkedTransport kMine(std::make_unique<MyFactory>());
struct LinkedTransport {
  // As AddTransportFactory().
  explicit LinkedTransport(std::unique_ptr<TransportFactory> factory) {
    AddTransportFactory(std::move(factory));
  }
};

// A main() for the suite: reads the options (--help lists them), runs the tests
// and writes the report. With `choices`, --transport picks one of them;
// without, the factories that were added already are tested. Returns the exit
// status: 0 if at least one test ran and none failed, 1 if one failed, 2 if the
// options are wrong.
int ConformanceMain(int argc, char** argv,
                    const std::vector<TransportChoice>& choices = {});

}  // namespace skiff::testing

#endif  // SKIFF_TESTING_TRANSPORT_CONFORMANCE_CONFORMANCE_MAIN_H_
